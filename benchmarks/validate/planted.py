"""Cases of the benchmark of `ccld-validate`, drawn from a seed, and whether a result is right.

Faults are those of `make accuracy`: GPU clocks divided by 10 to 25, connections at what makes one of its rounds take 0.2 to 0.35 s.
"""
import random
from collections import namedtuple

KINDS = ("healthy", "gpu", "link", "nic")
CLOCK_FACTORS = (10, 15, 20, 25)
RATE_MBIT = (25, 70)

# hosts, gpus: ranks of each host. fault: what it says to people; plant: fabric -> None; truth: None or what has to be named.
Case = namedtuple("Case", "id kind hosts gpus fault slow_gpus plant truth")


def _nothing(fabric):
    del fabric


def draw(kind, number, seed):
    rng = random.Random("%d %s %d" % (seed, kind, number))
    name = "%s/%d" % (kind, number)
    hosts, gpus = rng.choice([(2, 1), (2, 2), (2, 4), (3, 1), (3, 2), (4, 1), (4, 2)])
    if kind == "healthy":
        return Case(name, kind, hosts, gpus, "nothing", {}, _nothing, None)
    if kind == "gpu":
        rank, factor = rng.randrange(hosts * gpus), rng.choice(CLOCK_FACTORS)
        return Case(name, kind, hosts, gpus, "clock of rank %d divided by %d" % (rank, factor), {rank: factor}, _nothing,
                    {"component": "gpu", "rank": rank})
    rate = "%dmbit" % rng.randrange(*RATE_MBIT)
    if kind == "link":
        # A ring goes from each host to the next one.
        sender = rng.randrange(hosts)
        receiver = (sender + 1) % hosts
        return Case(name, kind, hosts, gpus, "path from host %d to host %d at %s" % (sender, receiver, rate), {},
                    lambda fabric: fabric.slow_path(sender, receiver, rate),
                    {"component": "link", "host": "host%d" % sender, "peer_host": "host%d" % receiver})
    # With two hosts a device and a path are the same.
    hosts, gpus = rng.choice([(3, 1), (3, 2), (4, 1), (4, 2)])
    host, sends = rng.randrange(hosts), rng.random() < 0.5
    return Case(name, kind, hosts, gpus, "device of host %d %s at %s" % (host, "sends" if sends else "receives", rate), {},
                lambda fabric: (fabric.slow_sending if sends else fabric.slow_receiving)(host, rate),
                {"component": "nic", "host": "host%d" % host})


def why_wrong(case, status, document):
    """None if the result is right, else one line."""
    if document is None:
        return "exit status %s, and no result" % status
    incidents = document["incidents"]
    said = "; ".join(incident["title"] for incident in incidents) or document["failure"] or document["verdict"]
    if case.truth is None:
        return None if status == 0 and document["verdict"] == "healthy" else said
    if status != 1 or len(incidents) != 1 or len(incidents[0]["culprits"]) != 1:
        return said
    culprit = incidents[0]["culprits"][0]
    return None if all(culprit[name] == value for name, value in case.truth.items()) else said
