"""The suite `short`: operations of a few milliseconds, as most training has them, and faults that cost little more than that.

The probe looks at such an operation once or twice while it is under way.
"""
import random

from case import JOB, Case, Cell, environment, short_name

COMBINATIONS = [(algorithm, protocol) for algorithm in ("Ring", "Tree") for protocol in ("Simple", "LL", "LL128")]
RANKS = 4  # more of them take turns on two processors, and no operation is short
BYTES_TEXT, BYTES = "64K", 64 << 10


def s1_slow_clock(cell):
    rank = cell.any_rank()
    cell.workload["compute_ms"] = cell.rng.randrange(4, 11)
    return [{"kind": "slow_clock", "rank": rank, "factor": round(cell.rng.uniform(1.3, 2), 2)}], {"ranks": [rank], "rank_components": ["gpu"]}


def s1_late_host(cell):
    rank = cell.any_rank()
    return ([{"kind": "delay", "rank": rank, "ms": cell.rng.randrange(4, 12), "rounds": 0}],
            {"ranks": [rank], "rank_components": ["process", "application"]})


def s2_throttled(cell):
    cell.workload["compute_ms"] = 2
    cell.round_s = cell.rng.choice([0.008, 0.012, 0.016])
    fault, link = cell.throttled(BYTES_TEXT, BYTES)
    return [fault], {"links": [link], "link_components": ["link", "nic"]}


VARIANTS = {"S1": (s1_slow_clock, s1_late_host), "S2": (s2_throttled,)}


def _case(fault_class, variant, algorithm, protocol, seed):
    name = short_name(variant)
    case_id = "/".join(["short", fault_class, algorithm, protocol, name])
    cell = Cell(algorithm, protocol, RANKS, random.Random("%d %s" % (seed, case_id)))
    cell.workload["bytes_min"] = BYTES_TEXT
    faults, expect = variant(cell)
    after_round = cell.rng.randrange(1000, 1600)  # some ten seconds
    plan = {
        "name": JOB, "title": "%s of short operations: %s" % (fault_class, name.replace("_", " ")), "ranks": RANKS,
        "network": "namespaces" if cell.namespaces else "loopback", "workload": cell.workload, "environment": environment(algorithm, protocol),
        "faults": [dict(fault, after_round=after_round) for fault in faults], "expect": dict({"class": fault_class}, **expect),
    }
    return Case(case_id, "short", fault_class, algorithm, protocol, RANKS, 0, name, "faults", plan, False)


def cases(seed):
    return [_case(fault_class, variant, algorithm, protocol, seed)
            for fault_class, variants in VARIANTS.items() for variant in variants for algorithm, protocol in COMBINATIONS]
