"""The cases of the accuracy benchmark, made from a seed: the same seed gives the same cases.

A case is a fault plan (test/support/faults/README.md) with a place in a suite. Nothing of it reaches the decision service.
"""
import random

import pipeline_cases
import start_cases
from case import HOUR_S, JOB, Case, Cell, environment, layout_name, rank_count_of, short_name
from topology import comm_name

CLASSES = ("H1", "H2", "H3", "S1", "S2", "S3")
ALGORITHMS = ("Ring", "Tree")
PROTOCOLS = ("Simple", "LL", "LL128")
RANK_COUNTS = (8, 16)
REPETITIONS = 5
SLOW = ("S1", "S2", "S3")


def h1_skip(cell):
    rank = cell.any_rank()
    return [{"kind": "skip", "rank": rank, "rounds": 0}], {"ranks": [rank], "rank_components": ["application"]}


def h1_sleep(cell):
    rank = cell.any_rank()
    return [{"kind": "delay", "rank": rank, "ms": HOUR_S * 1000}], {"ranks": [rank], "rank_components": ["application", "process"]}


def h1_stopped(cell):
    rank = cell.any_rank()
    return ([{"kind": "delay", "rank": rank, "ms": HOUR_S * 1000}, {"kind": "sigstop", "rank": rank}],
            {"ranks": [rank], "rank_components": ["process"]})


def h1_killed(cell):
    rank = cell.any_rank()
    return ([{"kind": "delay", "rank": rank, "ms": HOUR_S * 1000}, {"kind": "sigkill", "rank": rank}],
            {"ranks": [rank], "rank_components": ["process"]})


def _h2(cell, **fault):
    rank = cell.any_rank()
    return [dict(fault, rank=rank)], {"ranks": [rank], "rank_components": ["application"]}


def h2_operation(cell):
    return _h2(cell, kind="other_operation", operation=cell.rng.choice(["allgather", "broadcast"]))


def h2_count(cell):
    return _h2(cell, kind="other_count", factor=cell.rng.choice([0.25, 0.5, 0.75]))


def h2_type(cell):
    return _h2(cell, kind="other_type", datatype=cell.rng.choice(["int32", "half", "double"]))


def h2_order(cell):
    cell.workload["operation"] = "mix"
    return _h2(cell, kind="other_order")


def h2_skipped_once(cell):
    cell.workload["operation"] = "mix"
    return _h2(cell, kind="skip", rounds=1)


def _within_operations(cell):
    cell.workload.update(bytes_min="1M" if cell.ranks <= 8 else "512K", compute_ms=0)


def h3_frozen_channel(cell):
    _within_operations(cell)
    rank = cell.any_rank()
    return [{"kind": "freeze_channel", "rank": rank, "channel": cell.rng.randrange(2)}], {"ranks": [rank], "rank_components": ["gpu"]}


def h3_frozen_device(cell):
    # A device that stops between two operations has not begun the next one: both classes say the same of it.
    _within_operations(cell)
    rank = cell.any_rank()
    return [{"kind": "freeze_device", "rank": rank}], {"class": ["H3", "H1"], "ranks": [rank], "rank_components": ["gpu"]}


def h3_cut_link(cell):
    _within_operations(cell)
    cell.namespaces = True
    return [{"kind": "cut_link", "node": cell.rng.randrange(2)}], {"links": [list(link) for link in cell.links.values()], "link_components": ["link", "nic"]}


def h3_stuck_proxy(cell):
    _within_operations(cell)
    rank = cell.rng.choice(cell.proxies)
    return [{"kind": "stuck_proxy", "rank": rank}], {"ranks": [rank], "rank_components": ["proxy"]}


def h3_stopped(cell):
    _within_operations(cell)
    cell.truth_from_board = True
    rank = cell.any_rank()
    return [{"kind": "sigstop", "rank": rank, "in_operation": 1}], {"ranks": [rank], "rank_components": ["process"]}


def h3_killed(cell):
    _within_operations(cell)
    cell.truth_from_board = True
    rank = cell.any_rank()
    return [{"kind": "sigkill", "rank": rank, "in_operation": 1}], {"ranks": [rank], "rank_components": ["process"]}


def s1_slow_clock(cell):
    cell.workload["compute_ms"] = 10
    rank = cell.any_rank()
    return [{"kind": "slow_clock", "rank": rank, "factor": cell.rng.choice([15, 20, 25])}], {"ranks": [rank], "rank_components": ["gpu"]}


def s1_late_host(cell):
    rank = cell.any_rank()
    return ([{"kind": "delay", "rank": rank, "ms": cell.rng.randrange(150, 250), "rounds": 0}],
            {"ranks": [rank], "rank_components": ["process", "application"]})


def s1_pauses(cell):
    rank = cell.any_rank()
    return ([{"kind": "pauses", "rank": rank, "ms": cell.rng.randrange(250, 350), "share": 0.4}],
            {"ranks": [rank], "rank_components": ["process", "application"]})


def s1_cpu_quota(cell):
    # Where no network proxy of the process is under the quota, too: that would be slow communication in addition.
    rank = cell.rank_without_proxy()
    return [{"kind": "cpu_quota", "rank": rank, "share": cell.rng.choice([0.08, 0.1, 0.12])}], {"ranks": [rank], "rank_components": ["process", "host"]}


def _slow_bytes(cell):
    return ("512K", 512 << 10) if cell.ranks <= 8 else ("256K", 256 << 10)


def s2_throttled(cell):
    fault, link = cell.throttled(*_slow_bytes(cell))
    return [fault], {"links": [link], "link_components": ["link", "nic"]}


def s2_slow_proxy(cell):
    cell.workload["bytes_min"] = _slow_bytes(cell)[0]
    rank = cell.rng.choice(cell.proxies)
    return [{"kind": "slow_proxy", "rank": rank, "held_ms": 75, "period_ms": 80}], {"ranks": [rank], "rank_components": ["proxy"]}


def _with_throttle(cell, fault, components, size=None):
    throttle, link = cell.throttled(*(size or _slow_bytes(cell)))
    rank = cell.rng.choice([rank for rank in range(cell.ranks) if rank not in cell.proxies])
    return [dict(fault, rank=rank), throttle], {"ranks": [rank], "links": [link], "rank_components": components, "link_components": ["link", "nic"]}


def s3_slow_clock_and_link(cell):
    # Steps pass the slow GPU and the link at the same time: only the slower of the two costs any. It must be the link, so
    # the GPU copies little; and the GPU must be late by a fair part of what the link takes.
    cell.workload["compute_ms"] = 10 if cell.ranks > 8 else 15
    cell.round_s = 0.35
    return _with_throttle(cell, {"kind": "slow_clock", "factor": cell.rng.choice([10, 15])}, ["gpu"], size=("256K", 256 << 10))


def s3_late_host_and_link(cell):
    return _with_throttle(cell, {"kind": "delay", "ms": cell.rng.randrange(120, 200), "rounds": 0}, ["process", "application"])


def s3_cpu_quota_and_link(cell):
    return _with_throttle(cell, {"kind": "cpu_quota", "share": 0.1}, ["process", "host"])


VARIANTS = {
    "H1": (h1_skip, h1_sleep, h1_stopped, h1_killed),
    "H2": (h2_operation, h2_count, h2_type, h2_order, h2_skipped_once),
    "H3": (h3_frozen_channel, h3_frozen_device, h3_cut_link, h3_stuck_proxy, h3_stopped, h3_killed),
    "S1": (s1_slow_clock, s1_late_host, s1_pauses, s1_cpu_quota),
    "S2": (s2_throttled, s2_slow_proxy),
    "S3": (s3_slow_clock_and_link, s3_late_host_and_link, s3_cpu_quota_and_link),
}


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


def _layout_faults(layout, rng):
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
        for name, fault_class, faults, expect in _layout_faults(layout, rng):
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
    return matrix(seed) + layouts(seed) + pace(seed) + start_cases.cases(seed) + pipeline_cases.cases(seed) + benign(seed, 300)


def sample(seed):
    """One case of each class, algorithms, protocols and variants by the seed, one hang among several communicators, one case that is slow from the
    start, one that is slow in the pipeline, a minute without a fault."""
    rng = random.Random("%d sample" % seed)
    chosen = []
    for fault_class in CLASSES:
        chosen.append(rng.choice([case for case in matrix(seed) if case.fault_class == fault_class and case.ranks == 8]))
    chosen.append(rng.choice([case for case in layouts(seed) if case.fault_class not in SLOW and case.ranks == 8]))
    healthy = benign(seed, 60, [rng.choice(["ring", "layout", "tree", "low_latency"])])
    return chosen + [rng.choice(start_cases.cases(seed)), rng.choice(pipeline_cases.cases(seed))] + healthy
