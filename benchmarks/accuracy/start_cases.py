"""The suite `start`: what is slow from the first rounds of the job on, so that the job never was faster.

The faults are planted while all ranks wait in front of round 1, 2, 3 or 4. No rank's past tells anything: only its peers do.
"""
import random

from case import HOUR_S, JOB, Case, Cell, environment, layout_name, rank_count_of, short_name

ROUNDS = (1, 2, 3, 4)
COMBINATIONS = [(algorithm, protocol) for algorithm in ("Ring", "Tree") for protocol in ("Simple", "LL", "LL128")]
RANKS = 8
# With dp alone a layout would be a single communicator.
LAYOUTS = ({"tp": 2, "pp": 1, "dp": 4}, {"tp": 4, "pp": 1, "dp": 2}, {"tp": 2, "pp": 2, "dp": 2}, {"tp": 1, "pp": 2, "dp": 4}, {"tp": 2, "pp": 4, "dp": 1})
BYTES_TEXT, BYTES = "256K", 256 << 10


def _factor(rng):
    """1.5 to 20, as many below 5.5 as above."""
    return round(1.5 * (20 / 1.5) ** rng.random(), 1)


def _compute_ms(factor):
    """A GPU that is little slower shows in long computations only."""
    return 40 if factor < 3 else 20 if factor < 8 else 10


def s1_slow_clock(cell):
    factor, rank = _factor(cell.rng), cell.any_rank()
    cell.workload["compute_ms"] = _compute_ms(factor)
    return [{"kind": "slow_clock", "rank": rank, "factor": factor}], {"ranks": [rank], "rank_components": ["gpu"]}


def s1_late_host(cell):
    rank = cell.any_rank()
    return ([{"kind": "delay", "rank": rank, "ms": cell.rng.randrange(30, 250), "rounds": 0}],
            {"ranks": [rank], "rank_components": ["process", "application"]})


def s2_throttled(cell):
    cell.round_s = cell.rng.choice([0.15, 0.2, 0.3])
    fault, link = cell.throttled(BYTES_TEXT, BYTES)
    return [fault], {"links": [link], "link_components": ["link", "nic"]}


def s2_slow_proxy(cell):
    cell.workload["bytes_min"] = BYTES_TEXT
    rank = cell.rng.choice(cell.proxies)
    held_ms, period_ms = cell.rng.choice([(75, 80), (45, 50), (36, 40)])
    return [{"kind": "slow_proxy", "rank": rank, "held_ms": held_ms, "period_ms": period_ms}], {"ranks": [rank], "rank_components": ["proxy"]}


def _with_throttle(cell, fault, components):
    # What the link takes and what the rank is late by must not hide each other (cases.py): the rank has no end of the link.
    throttle, link = cell.throttled(BYTES_TEXT, BYTES)
    rank = cell.rng.choice([rank for rank in range(cell.ranks) if rank not in cell.proxies])
    return [dict(fault, rank=rank), throttle], {"ranks": [rank], "links": [link], "rank_components": components, "link_components": ["link", "nic"]}


def s3_slow_clock_and_link(cell):
    cell.round_s = 0.35
    cell.workload["compute_ms"] = 15
    return _with_throttle(cell, {"kind": "slow_clock", "factor": cell.rng.choice([8, 10, 12, 15])}, ["gpu"])


def s3_late_host_and_link(cell):
    return _with_throttle(cell, {"kind": "delay", "ms": cell.rng.randrange(120, 200), "rounds": 0}, ["process", "application"])


VARIANTS = {"S1": (s1_slow_clock, s1_late_host), "S2": (s2_throttled, s2_slow_proxy), "S3": (s3_slow_clock_and_link, s3_late_host_and_link)}


def _single(fault_class, variant, algorithm, protocol, seed):
    name = short_name(variant)
    case_id = "/".join(["start", fault_class, algorithm, protocol, name])
    cell = Cell(algorithm, protocol, RANKS, random.Random("%d %s" % (seed, case_id)))
    faults, expect = variant(cell)
    before_round = cell.rng.choice(ROUNDS)
    plan = {
        "name": JOB, "title": "%s from round %d on: %s" % (fault_class, before_round, name.replace("_", " ")), "ranks": RANKS,
        "network": "namespaces" if cell.namespaces else "loopback", "workload": cell.workload, "environment": environment(algorithm, protocol),
        "faults": [dict(fault, before_round=before_round) for fault in faults], "expect": dict({"class": fault_class}, **expect),
    }
    return Case(case_id, "start", fault_class, algorithm, protocol, RANKS, 0, name, "start", plan, False)


def _in_layout(layout, name, rng):
    rank = rng.randrange(rank_count_of(layout))
    if name == "slow_clock":
        factor = max(2.0, _factor(rng))  # the other ranks' work is in the iteration, too: the slow one must cost something
        return {"kind": "slow_clock", "rank": rank, "factor": factor}, _compute_ms(factor) / 2, rank, ["gpu"]
    group = rng.choice([group for group in ("tp", "pp", "dp") if layout[group] > 1])
    fault = {"kind": "delay", "rank": rank, "ms": rng.randrange(100, 300), "rounds": 0, "comm": group, "call": 0}
    return fault, 2, rank, ["process", "application"]


def _layouts(seed):
    for layout in LAYOUTS:
        for name in ("slow_clock", "late_host"):
            case_id = "/".join(["start", layout_name(layout), "S1", name])
            rng = random.Random("%d %s" % (seed, case_id))
            fault, compute_ms, rank, components = _in_layout(layout, name, rng)
            before_round = rng.choice(ROUNDS)
            workload = dict(layout, compute_ms=compute_ms, overlap=rng.random() < 0.5, seconds=HOUR_S, seed=rng.randrange(1, 1 << 30))
            plan = {"name": JOB, "title": "%s: %s from iteration %d on" % (layout_name(layout), name.replace("_", " "), before_round), "ranks": rank_count_of(layout),
                    "workload": workload, "environment": environment("Ring", "Simple"), "faults": [dict(fault, before_round=before_round)],
                    "expect": {"class": "S1", "ranks": [rank], "rank_components": components}}
            yield Case(case_id, "start", "S1", "Ring", "Simple", rank_count_of(layout), 0, name, "start", plan, False)


def cases(seed):
    single = [_single(fault_class, variant, algorithm, protocol, seed)
              for fault_class, variants in VARIANTS.items() for variant in variants for algorithm, protocol in COMBINATIONS]
    return single + list(_layouts(seed))
