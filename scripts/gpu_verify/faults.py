"""The demo's faults, as far as they can be planted on a GPU, judged as the demo judges them: the service never learns what was planted.

Each rank is a process. On a single GPU they take turns there, milliseconds each, and every process is a machine of its own to NCCL
(CCLD_SHARE_GPUS): all traffic goes over sockets. A frozen channel and a slow link of the demo have no counterpart here: a GPU has no switch
for one channel, and loopback has no wire.
"""
import os
import sys

from .layout import ROOT
from .part import Result

sys.path.insert(0, os.path.join(ROOT, "test", "support"))
from faults import plan as plans  # noqa: E402
from run.build import Build  # noqa: E402
from run.errors import RunError  # noqa: E402
from run.outcome import run_fault, run_healthy  # noqa: E402
from run.verdicts import describe  # noqa: E402

RANKS = 4
THRESHOLDS = os.path.join(ROOT, "test", "support", "faults", "plans", "thresholds.json")
HEALTHY_S = 8
FAULT_S = 40.0  # at most for one of them, its start included


def _plan(name, title, faults, expect, bytes_text="256K", algorithm="Ring", protocol="Simple", compute_ms=10):
    return {"name": name, "title": title, "ranks": RANKS, "faults": faults, "expect": expect, "environment": {"NCCL_ALGO": algorithm, "NCCL_PROTO": protocol},
            "workload": {"operation": "allreduce", "bytes_min": bytes_text, "compute_ms": compute_ms, "seconds": 600}}


HEALTHY = {"name": "healthy", "title": "mixed collectives, uneven compute", "ranks": RANKS, "environment": {"NCCL_ALGO": "Ring;allreduce:Tree", "NCCL_PROTO": "Simple"},
           "workload": {"operation": "mix", "bytes_min": "4K", "bytes_max": "256K", "factor": 8, "iterations": 10, "compute_ms": 4, "jitter_ms": 6,
                        "check": 1, "seconds": HEALTHY_S}, "within_s": 60}
FAULTS = (
    _plan("h1_stops_calling", "rank 1 stops calling collectives", [{"kind": "skip", "rank": 1, "rounds": 0, "after_round": 30}], {"class": "H1", "ranks": [1]}),
    _plan("h2_other_count", "rank 2 reduces half the elements once", [{"kind": "other_count", "rank": 2, "factor": 0.5, "after_round": 30}],
          {"class": "H2", "ranks": [2]}),
    _plan("s1_slow_compute", "compute kernels of rank 3 take 20 times as long", [{"kind": "slow_clock", "rank": 3, "factor": 20, "after_round": 60}],
          {"class": "S1", "ranks": [3]}),
    _plan("h1_stopped_process", "the process of rank 2 is stopped while it loads data",
          [{"kind": "delay", "rank": 2, "ms": 600000, "after_round": 30}, {"kind": "sigstop", "rank": 2, "after_round": 30}],
          {"class": "H1", "ranks": [2]}, algorithm="Tree", protocol="LL"),
    _plan("killed_process", "the process of rank 0 is killed within an operation", [{"kind": "sigkill", "rank": 0, "in_operation": 1, "after_round": 30}],
          {"class": ["H3", "H1"], "ranks": [0]}, bytes_text="1M", compute_ms=0),
    _plan("busy_gpu", "endless kernels of its own take rank 1's place on the GPU", [{"kind": "freeze_device", "rank": 1, "after_round": 30}],
          {"class": ["H3", "H1"], "ranks": [1]}),
    _plan("s1_late_host", "rank 3 calls 150 ms late in every round", [{"kind": "delay", "rank": 3, "ms": 150, "rounds": 0, "after_round": 60}],
          {"class": "S1", "ranks": [3]}, bytes_text="128K", algorithm="Tree", protocol="LL"),
    _plan("h2_other_operation", "rank 0 gathers where the others reduce", [{"kind": "other_operation", "rank": 0, "operation": "allgather", "after_round": 30}],
          {"class": "H2", "ranks": [0]}, protocol="LL"),
    _plan("h3_stuck_proxy", "the proxy thread of rank 2 is stopped", [{"kind": "stuck_proxy", "rank": 2, "after_round": 30}],
          {"class": "H3", "ranks": [2]}, bytes_text="1M", compute_ms=0),
)
QUICK = ("h1_stops_calling", "h2_other_count")


def environment(layout):
    """Of the ranks, beyond the launcher's."""
    result = {"NCCL_RAS_ENABLE": "0", "LD_LIBRARY_PATH": layout.loader_path(layout.product)}
    if layout.device == "cuda":
        result.update({"CCLD_SHARE_GPUS": "1", "CUDA_MODULE_LOADING": "EAGER"})
    return result


def load(document, layout):
    thresholds = plans.read_json(THRESHOLDS)
    document = dict(document, environment=dict(environment(layout), **document["environment"]))
    return plans.Plan(document, "plan %s" % document["name"], thresholds)


def healthy_run(context, build, problems):
    plan = load(HEALTHY, context.layout)
    plan.within_s = context.allowance.limit(plan.within_s)
    healthy = run_healthy(build, plan, context.subfolder("healthy"), context.show)
    problems += ["healthy traffic: a false alarm: %s" % describe(alarm) for alarm in healthy.alarms]
    if healthy.wrong_results:
        problems.append("healthy traffic: %d wrong results" % healthy.wrong_results)
    return healthy.report()


def fault_run(context, build, document):
    """A row of the report."""
    plan = load(document, context.layout)
    plan.within_s = context.allowance.limit(plan.within_s)
    row = {"name": plan.name}
    try:
        outcome = run_fault(build, plan, context.subfolder(plan.name), context.show)
        row.update(outcome.report(), was_run=True)
    except RunError as error:
        row.update({"planted": {"class": plan.expect.fault_class, "ranks": plan.planted_ranks(), "detail": plan.title}, "right": False,
                    "why_wrong": "not run: %s" % error, "was_run": False})
    context.show("%s: %s" % (plan.name, "right" if row["right"] else row["why_wrong"]))
    return row


def run(context):
    problems, not_run, rows, healthy = [], [], [], None
    build = Build(context.layout.build)
    build.service = context.layout.service
    wanted = [document for document in FAULTS if not context.quick or document["name"] in QUICK]
    if not context.quick:
        try:
            healthy = healthy_run(context, build, problems)
        except RunError as error:
            problems.append("healthy traffic: %s" % error)
    for document in wanted:
        if context.allowance.is_over(FAULT_S / 2):
            not_run.append(document["name"])
            continue
        rows.append(fault_run(context, build, document))
    problems += ["%s (%s): %s" % (row["name"], row["planted"]["detail"], row["why_wrong"]) for row in rows if not row["right"]]
    return Result({"ranks": RANKS, "healthy": healthy, "runs": rows}, problems, not_run, "%d of %d verdicts right%s" % (
        sum(row["right"] for row in rows), len(rows), "" if healthy is None else ", %d false alarms in %d healthy rounds" % (
            healthy["false_alarms"], healthy["rounds"])))
