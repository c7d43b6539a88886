"""The suite `pipeline`: slow links, proxies and network devices that only Send and Recv use.

Stages are whole nodes or parts of one, so that tensor and data groups stay within a node. What crosses the link are the transfers between two
stages, each pair of ranks in a communicator of its own, and the 64 bytes of the whole job's all-reduce at the end of an iteration. Any of these
connections is slow in truth, so any of them is right.
"""
import random

from case import HOUR_S, JOB, Case, environment, layout_name, rank_count_of
from topology import links_of_pipeline, ranks_with_transfers_only, transfers_between_nodes

LAYOUTS = ({"tp": 1, "pp": 2, "dp": 4}, {"tp": 2, "pp": 2, "dp": 2}, {"tp": 4, "pp": 2, "dp": 1}, {"tp": 1, "pp": 4, "dp": 2}, {"tp": 2, "pp": 4, "dp": 1},
           {"tp": 1, "pp": 8, "dp": 1})
TRANSFER_BYTES = 64 << 10  # of a micro-batch (test/support/workload/iteration_shape.h)
ROUNDS_FROM_START = (1, 2, 3, 4)
WHEN = ("start", "later")


def _link_expectation(links):
    # The same two ranks are the ends of both directions: who sends must be told.
    return {"links": [list(link) for link in links], "link_components": ["link", "nic"], "directed": True}


def _rate(layout, node, micro_batches, rng):
    """The transfers of an iteration shall take 0.3 to 0.9 s: twice to several times what an iteration takes."""
    bytes_sent = len(transfers_between_nodes(layout)[node]) * micro_batches * TRANSFER_BYTES
    return "%dkbit" % (bytes_sent * 8 / rng.uniform(0.3, 0.9) / 1000)


def _throttled(layout, node, micro_batches, rng):
    links = links_of_pipeline(layout)[node]
    return [{"kind": "throttle_link", "node": node, "rate": _rate(layout, node, micro_batches, rng)}], _link_expectation(links)


def throttled_forward(layout, micro_batches, rng):
    return _throttled(layout, 0, micro_batches, rng)


def throttled_backward(layout, micro_batches, rng):
    return _throttled(layout, 1, micro_batches, rng)


def slow_nic(layout, micro_batches, rng):
    """What enters a node's device and what leaves it."""
    links = links_of_pipeline(layout)
    rate = _rate(layout, 0, micro_batches, rng)
    return [{"kind": "throttle_link", "node": node, "rate": rate} for node in (0, 1)], _link_expectation(links[0] + links[1])


def slow_proxy(layout, micro_batches, rng):
    del micro_batches
    rank = rng.choice(ranks_with_transfers_only(layout))
    held_ms, period_ms = rng.choice([(75, 80), (90, 96)])
    return [{"kind": "slow_proxy", "rank": rank, "held_ms": held_ms, "period_ms": period_ms}], {"ranks": [rank], "rank_components": ["proxy"]}


def variants_of(layout):
    links = [throttled_forward, throttled_backward, slow_nic]
    return links + ([slow_proxy] if ranks_with_transfers_only(layout) else [])


def _case(layout, variant, when, seed):
    case_id = "/".join(["pipeline", layout_name(layout), "S2", variant.__name__, when])
    rng = random.Random("%d %s" % (seed, case_id))
    micro_batches = rng.choice([2, 3, 4])
    faults, expect = variant(layout, micro_batches, rng)
    moment = {"before_round": rng.choice(ROUNDS_FROM_START)} if when == "start" else {"after_round": rng.randrange(42, 60)}
    workload = dict(layout, compute_ms=2, micro_batches=micro_batches, overlap=rng.random() < 0.5, seconds=HOUR_S, seed=rng.randrange(1, 1 << 30))
    plan = {"name": JOB, "title": "%s: %s, %s" % (layout_name(layout), variant.__name__.replace("_", " "), when), "ranks": rank_count_of(layout),
            "network": "namespaces", "workload": workload, "environment": environment("Ring", "Simple"), "faults": [dict(fault, **moment) for fault in faults],
            "expect": dict({"class": "S2"}, **expect)}
    return Case(case_id, "pipeline", "S2", "Ring", "Simple", rank_count_of(layout), 0, variant.__name__, "pipeline", plan, False)


def cases(seed):
    return [_case(layout, variant, when, seed) for layout in LAYOUTS for variant in variants_of(layout) for when in WHEN]
