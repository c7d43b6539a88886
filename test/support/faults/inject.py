"""Plants the faults of a plan in a running job, from outside the product.

`job` is what it acts on: job.board, job.fault_file, job.control_files[rank], job.children[rank], job.network,
job.remember_shared_memory(), job.check_alive().
"""
import json
import os
import signal
import time

from run.errors import RunError
from run.processes import state_of, wait_for

from .plan import APPLICATION_KINDS, DEVICE_KINDS


def plant(plan, job, timeout_s=60.0):
    """Waits until the job is where the plan wants it, plants the faults in the order of the plan, and returns the
    CLOCK_MONOTONIC seconds at which the first took effect."""
    for fault in plan.faults:
        _wait_for_round(job, fault, timeout_s)
    job.remember_shared_memory()
    moments = []
    in_application = []
    for fault in plan.faults:
        if fault.kind in APPLICATION_KINDS:
            in_application.append(fault)
            moments.append(_plant_in_application(in_application, job, timeout_s))
        else:
            moments.append(time.monotonic())
            _plant_outside(fault, job)
    return min(moments)


def _wait_for_round(job, fault, timeout_s):
    def reached():
        job.check_alive()
        return job.board.slot(fault.watch_rank).completed_round >= fault.after_round
    if not wait_for(reached, timeout_s):
        raise RunError("rank %d did not complete round %d within %.0f s" % (fault.watch_rank, fault.after_round, timeout_s))


def _plant_outside(fault, job):
    if fault.kind == "sigstop":
        child = job.children[fault.rank]
        child.signal(signal.SIGSTOP)
        if not wait_for(lambda: state_of(child.pid) == "T", 5):
            raise RunError("rank %d does not stop" % fault.rank)
    elif fault.kind == "sigkill":
        job.expect_end(fault.rank)
        job.children[fault.rank].signal(signal.SIGKILL)
    elif fault.kind in DEVICE_KINDS:
        line = {"freeze_channel": "freeze_block %d" % fault.arguments.get("channel", 0), "freeze_device": "freeze_device",
                "slow_clock": "clock_slowdown %g" % fault.arguments.get("factor", 1)}[fault.kind]
        _replace(job.control_files[fault.rank], line + "\n", append=True)
    elif fault.kind == "throttle_link":
        job.network.throttle(fault.node, fault.arguments["rate"])
    elif fault.kind == "cut_link":
        job.network.cut(fault.node)
    else:
        raise AssertionError(fault.kind)


def _plant_in_application(faults, job, timeout_s):
    """Hands the workload these faults; waits until the rank of the last one has taken it up and returns when that was."""
    rank = faults[-1].rank
    before = job.board.slot(rank).fault_applications
    _replace(job.fault_file, json.dumps({"faults": [dict(fault.arguments, rank=fault.rank, kind=fault.kind) for fault in faults]}))
    if not wait_for(lambda: job.board.slot(rank).fault_applications > before, timeout_s):
        raise RunError("rank %d did not take up its fault within %.0f s" % (rank, timeout_s))
    # The rank notes the moment itself: it is the round in which it first does something else.
    return job.board.slot(rank).fault_first_ns * 1e-9


def _replace(path, text, append=False):
    if append and os.path.exists(path):
        with open(path) as file:
            text = file.read() + text
    with open(path + ".part", "w") as file:
        file.write(text)
    os.rename(path + ".part", path)
