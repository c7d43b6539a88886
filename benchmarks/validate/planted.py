"""Cases of the benchmark of `ccld-validate`, drawn from a seed, and whether a result is right.

Faults are those of `make accuracy`: GPU clocks divided by 10 to 25, connections at what makes one of its rounds take 0.2 to 0.35 s. On a busy
machine healthy connections of the CPU device take long, too. So what is planted is at least TIMES_SLOWER times slower than the slowest
connection between the same hosts was just before.
"""
import random
from collections import namedtuple

KINDS = ("healthy", "gpu", "link", "nic")
CLOCK_FACTORS = (10, 15, 20, 25)
RATE_MBIT = (25, 70)
# A planted connection takes at least so many times as long as a healthy one: the margins on the CPU device are made for that
# (decision/validate/thresholds.cc).
TIMES_SLOWER = 8

# hosts, gpus: ranks of each host. fault: what it says to people; rate_mbit: of the slow connection, None: there is none; plant: makes it slow
# (fabric, rate for tc); truth: None or what has to be named.
Case = namedtuple("Case", "id kind hosts gpus fault slow_gpus rate_mbit plant truth")


def healthy(name, hosts, gpus):
    return Case(name, "healthy", hosts, gpus, "nothing", {}, None, None, None)


def draw(kind, number, seed):
    rng = random.Random("%d %s %d" % (seed, kind, number))
    name = "%s/%d" % (kind, number)
    hosts, gpus = rng.choice([(2, 1), (2, 2), (2, 4), (3, 1), (3, 2), (4, 1), (4, 2)])
    if kind == "healthy":
        return healthy(name, hosts, gpus)
    if kind == "gpu":
        rank, factor = rng.randrange(hosts * gpus), rng.choice(CLOCK_FACTORS)
        return Case(name, kind, hosts, gpus, "clock of rank %d divided by %d" % (rank, factor), {rank: factor}, None, None,
                    {"component": "gpu", "rank": rank})
    rate = rng.randrange(*RATE_MBIT)
    if kind == "link":
        # A ring goes from each host to the next one.
        sender = rng.randrange(hosts)
        receiver = (sender + 1) % hosts
        return Case(name, kind, hosts, gpus, "path from host %d to host %d" % (sender, receiver), {}, rate,
                    lambda fabric, rate: fabric.slow_path(sender, receiver, rate),
                    {"component": "link", "host": "host%d" % sender, "peer_host": "host%d" % receiver})
    # With two hosts a device and a path are the same.
    hosts, gpus = rng.choice([(3, 1), (3, 2), (4, 1), (4, 2)])
    host, sends = rng.randrange(hosts), rng.random() < 0.5
    return Case(name, kind, hosts, gpus, "device of host %d %s" % (host, "sends" if sends else "receives"), {}, rate,
                lambda fabric, rate: (fabric.slow_sending if sends else fabric.slow_receiving)(host, rate),
                {"component": "nic", "host": "host%d" % host})


def rate_to_plant_mbit(case, before):
    """`before`: what `ccld-validate` said of the same hosts without the fault."""
    host_of = {member["rank"]: member["host"] for member in before["members"]}
    slowest_gbytes_per_s = min(row["gbytes_per_s"] for row in before["rows"]
                               if row["check"] == "link" and host_of[row["rank"]] != host_of[row["peer"]])
    return min(case.rate_mbit, 8000 * slowest_gbytes_per_s / TIMES_SLOWER)


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
