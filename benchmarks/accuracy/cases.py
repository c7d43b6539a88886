"""The cases of the accuracy benchmark, made from a seed: the same seed gives the same cases.

A case is a fault plan (test/support/faults/README.md) with a place in a suite. Nothing of it reaches the decision service.
"""
import random

import nvls_cases
import pipeline_cases
import short_cases
import start_cases
from case import HOUR_S, JOB, Case, Cell, environment, layout_name, rank_count_of, short_name
from topology import comm_name
from variants import CLASSES, SLOW, VARIANTS

ALGORITHMS = ("Ring", "Tree")
PROTOCOLS = ("Simple", "LL", "LL128")
RANK_COUNTS = (8, 16)
REPETITIONS = 5


def _fault_case(suite, settings, fault_class, algorithm, protocol, ranks, repetition, variant, seed):
    name = short_name(variant)
    case_id = "/".join([suite, fault_class, algorithm, protocol, str(ranks), str(repetition), name])
    cell = Cell(algorithm, protocol, ranks, random.Random("%d %s" % (seed, case_id)))
    faults, expect = variant(cell)
    after_round = cell.rng.randrange(42, 60) if fault_class in SLOW else cell.rng.randrange(15, 40)
    plan = {
        "name": JOB, "title": "%s: %s" % (fault_class, name.replace("_", " ")), "ranks": ranks,
        "network": "namespaces" if cell.namespaces else "loopback", "workload": cell.workload, "environment": environment(algorithm, protocol),
        "faults": [dict(fault, after_round=after_round) for fault in faults], "expect": dict({"class": fault_class}, **expect),
    }
    return Case(case_id, suite, fault_class, algorithm, protocol, ranks, repetition, name, settings, plan, cell.truth_from_board)


def matrix(seed):
    """The paper's Table 1: every class, algorithm, protocol and size, five times; variants take turns."""
    cases = []
    for fault_class in CLASSES:
        variants = VARIANTS[fault_class]
        turn = 0
        for ranks in RANK_COUNTS:
            for algorithm in ALGORITHMS:
                for protocol in PROTOCOLS:
                    for repetition in range(REPETITIONS):
                        cases.append(_fault_case("matrix", "faults", fault_class, algorithm, protocol, ranks, repetition,
                                                 variants[turn % len(variants)], seed))
                        turn += 1
                    turn += 1 if REPETITIONS % len(variants) == 0 else 0
    return cases


def pace(seed):
    """Slow faults with detection windows of ten seconds, for the time it takes to find them."""
    return [_fault_case("pace", "pace", fault_class, algorithm, "Simple", 8, 0, VARIANTS[fault_class][0], seed)
            for fault_class in SLOW for algorithm in ALGORITHMS]


LAYOUTS = (
    {"tp": 2, "pp": 2, "dp": 2},
    {"tp": 2, "pp": 1, "dp": 4, "ep": 2},
    {"tp": 2, "pp": 2, "dp": 4, "ep": 2},
    {"tp": 2, "pp": 4, "dp": 2},
)


def layout_faults(layout, rng):
    """(name, class, faults, expectation) of what goes wrong in one communicator or one process and stops all."""
    ranks = rank_count_of(layout)
    rank = rng.randrange(ranks)
    groups = [group for group in ("tp", "pp", "dp", "ep") if layout.get(group, 1) > 1]
    for group in groups:
        yield ("sleeps_before_" + group, "H1", [{"kind": "delay", "rank": rank, "ms": HOUR_S * 1000, "comm": group, "call": 0}],
               {"ranks": [rank], "rank_components": ["application", "process"]})
    for kind, arguments in (("other_count", {"factor": 0.5}), ("other_type", {"datatype": "half"})):
        group = "dp" if kind == "other_count" else "tp"
        # Two ranks that differ cannot be told apart by a majority.
        pair = {"candidates": True} if layout[group] == 2 else {}
        yield (kind + "_in_" + group, "H2", [dict(arguments, kind=kind, rank=rank, comm=group, call=0)],
               dict({"ranks": [rank], "rank_components": ["application"], "comm_name": comm_name(layout, group, rank)}, **pair))
    yield ("order_of_communicators", "H2", [{"kind": "other_comm_order", "rank": rank, "comm": "world", "with": "tp"}],
           {"ranks": [rank], "rank_components": ["application"], "candidates": True})
    yield ("frozen_device", "H3", [{"kind": "freeze_device", "rank": rank}], {"class": ["H3", "H1"], "ranks": [rank], "rank_components": ["gpu"]})
    yield ("stopped_process", "H3", [{"kind": "sigstop", "rank": rank}], {"class": ["H3", "H1"], "ranks": [rank], "rank_components": ["process"]})
    yield ("killed_process", "H3", [{"kind": "sigkill", "rank": rank}], {"class": ["H3", "H1"], "ranks": [rank], "rank_components": ["process"]})
    yield ("slow_clock", "S1", [{"kind": "slow_clock", "rank": rank, "factor": 25}], {"ranks": [rank], "rank_components": ["gpu"]})
    yield ("late_host", "S1", [{"kind": "delay", "rank": rank, "ms": 300, "rounds": 0, "comm": groups[0], "call": 0}],
           {"ranks": [rank], "rank_components": ["process", "application"]})


def layouts(seed):
    """Tensor, pipeline, data and expert communicators over the same ranks: one of them hangs, all of them stop."""
    cases = []
    for layout in LAYOUTS:
        text = layout_name(layout)
        rng = random.Random("%d layout %s" % (seed, text))
        for name, fault_class, faults, expect in layout_faults(layout, rng):
            ranks = rank_count_of(layout)
            case_id = "/".join(["layout", text, fault_class, name])
            after_round = rng.randrange(42, 50) if fault_class in SLOW else rng.randrange(12, 24)
            workload = dict(layout, compute_ms=2, overlap=True, seconds=HOUR_S, seed=rng.randrange(1, 1 << 30))
            plan = {"name": JOB, "title": "%s: %s" % (text, name.replace("_", " ")), "ranks": ranks, "workload": workload,
                    "environment": environment("Ring", "Simple"), "faults": [dict(fault, after_round=after_round) for fault in faults],
                    "expect": dict({"class": fault_class}, **expect)}
            cases.append(Case(case_id, "layout", fault_class, "Ring", "Simple", ranks, 0, name, "layout", plan, False))
    return cases


# name, ranks, workload, algorithm, protocol
BENIGN = (
    ("ring", 8, {"bytes_min": "1M"}, "Ring", "Simple"),
    ("layout", 8, {"tp": 2, "pp": 2, "dp": 2, "overlap": True, "compute_ms": 2}, "Ring", "Simple"),
    ("tree", 8, {"bytes_min": "512K"}, "Tree", "LL128"),
    ("experts", 16, {"tp": 2, "pp": 2, "dp": 4, "ep": 2, "compute_ms": 2}, "Ring", "Simple"),
    ("low_latency", 8, {"bytes_min": "128K"}, "Tree", "LL"),
    ("wide", 16, {"bytes_min": "256K"}, "Ring", "LL128"),
)


def benign(seed, seconds_each, names=None):
    """Irregular traffic without a fault."""
    cases = []
    for name, ranks, workload, algorithm, protocol in BENIGN:
        if names is not None and name not in names:
            continue
        case_id = "/".join(["benign", name, "%ds" % seconds_each])
        rng = random.Random("%d %s" % (seed, case_id))
        workload = dict(workload, irregular=True, seconds=seconds_each, seed=rng.randrange(1, 1 << 30))
        if seconds_each >= 300:
            workload["idle_s"] = 60
        plan = {"name": JOB, "title": "irregular traffic: %s" % name, "ranks": ranks, "workload": workload,
                "environment": environment(algorithm, protocol), "within_s": seconds_each + 240}
        cases.append(Case(case_id, "benign", None, algorithm, protocol, ranks, 0, name, "benign", plan, False))
    return cases


def full(seed):
    return matrix(seed) + layouts(seed) + pace(seed) + start_cases.cases(seed) + pipeline_cases.cases(seed) + short_cases.cases(seed) \
        + nvls_cases.cases(seed) + benign(seed, 300)


def sample(seed):
    """One case of each class, algorithms, protocols and variants by the seed, one hang among several communicators, one case that is slow from the
    start, one that is slow in the pipeline, one of short operations, one of NVLS, a minute without a fault."""
    rng = random.Random("%d sample" % seed)
    chosen = []
    for fault_class in CLASSES:
        chosen.append(rng.choice([case for case in matrix(seed) if case.fault_class == fault_class and case.ranks == 8]))
    chosen.append(rng.choice([case for case in layouts(seed) if case.fault_class not in SLOW and case.ranks == 8]))
    healthy = benign(seed, 60, [rng.choice(["ring", "layout", "tree", "low_latency"])])
    return chosen + [rng.choice(start_cases.cases(seed)), rng.choice(pipeline_cases.cases(seed)), rng.choice(short_cases.cases(seed)),
                     rng.choice(nvls_cases.cases(seed))] + healthy
