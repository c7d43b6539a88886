"""The suite `nvls`: all-reduces through NVLink switches, on one node (NVLS) and on two that a tree joins (NVLSTree).

On one node every GPU is a head: it reduces its part of the data. Of two nodes with two network devices each, two GPUs of each node are, and only these
have proxies. Links between the GPUs of a node cannot be made slow: one node has no S2 and S3.
"""
import random

from case import JOB, Case, Cell, environment, short_name
from variants import SLOW, VARIANTS

RANK_COUNTS = {"NVLS": (4, 8), "NVLSTree": (8,)}
LEFT_OUT = {
    "NVLS": ("cut_link", "stuck_proxy", "throttled", "slow_proxy", "slow_clock_and_link", "late_host_and_link", "cpu_quota_and_link"),  # no network
    "NVLSTree": ("type",),  # it is built for floats only
}


def variants_of(algorithm):
    """[(class, variant)]"""
    return [(fault_class, variant) for fault_class, variants in VARIANTS.items() for variant in variants
            if short_name(variant) not in LEFT_OUT[algorithm]]


def _case(algorithm, fault_class, variant, seed):
    name = short_name(variant)
    case_id = "/".join(["nvls", fault_class, algorithm, name])
    rng = random.Random("%d %s" % (seed, case_id))
    ranks = rng.choice(RANK_COUNTS[algorithm])
    cell = Cell(algorithm, "Simple", ranks, rng)
    cell.namespaces = algorithm == "NVLSTree"
    faults, expect = variant(cell)
    after_round = rng.randrange(42, 60) if fault_class in SLOW else rng.randrange(15, 40)
    plan = {
        "name": JOB, "title": "%s: %s in %s" % (fault_class, name.replace("_", " "), algorithm), "ranks": ranks,
        "network": "namespaces" if cell.namespaces else "loopback", "workload": cell.workload, "environment": environment(algorithm, "Simple"),
        "faults": [dict(fault, after_round=after_round) for fault in faults], "expect": dict({"class": fault_class}, **expect),
    }
    return Case(case_id, "nvls", fault_class, algorithm, "Simple", ranks, 0, name, "nvls", plan, cell.truth_from_board)


def cases(seed):
    return [_case(algorithm, fault_class, variant, seed) for algorithm in RANK_COUNTS for fault_class, variant in variants_of(algorithm)]
