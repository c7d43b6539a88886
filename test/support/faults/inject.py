"""Plants the faults of a plan in a running job, from outside the product.

`job` is what it acts on: job.board, job.fault_file, job.control_files[rank], job.control_prefix(rank), job.children[rank], job.network, job.folder,
job.keep(), job.remember_shared_memory(), job.check_alive(). job.stopped_in_kernel[rank] says of a process that was stopped within an operation whether its
GPU was in a kernel.
"""
import json
import os
import signal
import sys
import time

from run.errors import RunError
from run.processes import Child, runs_a_kernel, state_of, wait_for, wait_while_moving

from .plan import APPLICATION_KINDS, DEVICE_KINDS, PROXY_KINDS

# Threads of the CPU device stand for a GPU, which no quota of the host's processor slows.
DEVICE_THREADS = "ccld-(block|stream|control|watchdog)"
PROXY_THREADS = "NCCL Progress"
HOLDER = os.path.join(os.path.dirname(os.path.realpath(__file__)), "hold_threads.py")

def plant(plan, job, timeout_s=60.0):
    """Waits until the job is where the plan wants it, as long as it gets on (`timeout_s`: it does not), plants the faults in the order of the plan, and returns the
    CLOCK_MONOTONIC seconds at which the first took effect."""
    if plan.held_round():
        return _plant_before_round(plan, job, timeout_s)
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


def _plant_before_round(plan, job, timeout_s):
    """While all ranks wait in front of that round, so that not one operation of it is without the faults."""
    round_number = plan.held_round()

    def all_wait():
        job.check_alive()
        return all(slot.state == "ready" and slot.completed_round == round_number - 1 for slot in job.board.slots())
    if not wait_while_moving(all_wait, lambda: [slot.completed_round for slot in job.board.slots()], timeout_s):
        raise RunError("not all ranks completed round %d: none got on for %.0f s" % (round_number - 1, timeout_s))
    job.remember_shared_memory()
    in_application = [fault for fault in plan.faults if fault.kind in APPLICATION_KINDS]
    if in_application:
        _write_application_faults(in_application, job, from_round=round_number)
    for fault in plan.faults:
        if fault.kind not in APPLICATION_KINDS:
            _plant_outside(fault, job)
    moment = time.monotonic()
    job.board.hold_round(0)
    for fault in in_application:
        _wait_until_applied(fault.rank, 0, job, timeout_s)
    return moment


def _wait_for_round(job, fault, timeout_s):
    def reached():
        job.check_alive()
        return round_now() >= fault.after_round

    def round_now():
        return job.board.slot(fault.watch_rank).completed_round
    if not wait_while_moving(reached, round_now, timeout_s):
        raise RunError("rank %d did not complete round %d: it stayed in round %d for %.0f s" % (
            fault.watch_rank, fault.after_round, round_now() + 1, timeout_s))


def _plant_outside(fault, job):
    if fault.kind == "sigstop":
        _stop(fault, job)
    elif fault.kind == "sigkill":
        job.expect_end(fault.rank)
        if fault.arguments["in_operation"]:
            _stop(fault, job)  # for less than a millisecond, and only to be sure where it is
        job.children[fault.rank].signal(signal.SIGKILL)
    elif fault.kind == "cpu_quota":
        period_ms = fault.arguments["period_ms"]
        _hold(fault, job, ["--all-but", DEVICE_THREADS, "--jitter", "%g" % fault.arguments["jitter"]],
              period_ms * (1 - fault.arguments["share"]), period_ms)
    elif fault.kind in PROXY_KINDS:
        _hold(fault, job, ["--only", PROXY_THREADS], fault.arguments.get("held_ms", 0), fault.arguments.get("period_ms", 0))
    elif fault.kind in DEVICE_KINDS:
        line = {"freeze_channel": "freeze_block %d" % fault.arguments.get("channel", 0), "freeze_device": "freeze_device",
                "slow_clock": "clock_slowdown %g" % fault.arguments.get("factor", 1)}[fault.kind]
        _replace(job.control_files[fault.rank], job.control_prefix(fault.rank) + line + "\n", append=True)
    elif fault.kind == "throttle_link":
        job.network.throttle(fault.node, fault.arguments["rate"])
    elif fault.kind == "cut_link":
        job.network.cut(fault.node)
    else:
        raise AssertionError(fault.kind)


def _stop(fault, job, attempts=200):
    """Stops the process; with in_operation only inside an operation."""
    child = job.children[fault.rank]
    for _ in range(attempts):
        child.signal(signal.SIGSTOP)
        # Its main thread needs a processor to stop.
        if not wait_for(lambda: state_of(child.pid) == "T", 60, 0.0005):
            raise RunError("rank %d does not stop" % fault.rank)
        slot = job.board.slot(fault.rank)
        inside = slot.entered_round > slot.completed_round
        if fault.arguments["in_operation"] and inside:
            job.stopped_in_kernel[fault.rank] = runs_a_kernel(child.pid)
        if inside or not fault.arguments["in_operation"]:
            return
        child.signal(signal.SIGCONT)
        time.sleep(0.003)
    raise RunError("rank %d is never inside an operation" % fault.rank)


def _hold(fault, job, threads, held_ms, period_ms):
    command = [sys.executable, "-B", HOLDER, "--pid", str(job.children[fault.rank].pid), "--held-ms", str(held_ms),
               "--period-ms", str(period_ms)] + threads
    if fault.before_round:
        command.append("--await")  # a proxy thread appears with the first operation that needs the network
    holder = job.keep(Child("thread holder", command, os.path.join(job.folder, "holder-%d.log" % fault.rank)))
    if not wait_for(lambda: {"held", "awaited"} & set(holder.last_lines(1)) or holder.exit_status() is not None, 60):
        raise RunError("threads of rank %d cannot be held within 60 s" % fault.rank)
    if holder.exit_status() is not None:
        raise RunError("threads of rank %d cannot be held: %s" % (fault.rank, " ".join(holder.last_lines(1))))


def _plant_in_application(faults, job, timeout_s):
    """Hands the workload these faults; waits until the rank of the last one has taken it up and returns when that was."""
    rank = faults[-1].rank
    before = job.board.slot(rank).fault_applications
    _write_application_faults(faults, job)
    _wait_until_applied(rank, before, job, timeout_s)
    # The rank notes the moment itself: it is the round in which it first does something else.
    return job.board.slot(rank).fault_first_ns * 1e-9


def _write_application_faults(faults, job, **more):
    _replace(job.fault_file, json.dumps({"faults": [dict(fault.arguments, rank=fault.rank, kind=fault.kind, **more) for fault in faults]}))


def _wait_until_applied(rank, before, job, timeout_s):
    if not wait_for(lambda: job.board.slot(rank).fault_applications > before, timeout_s):
        raise RunError("rank %d did not take up its fault within %.0f s" % (rank, timeout_s))


def _replace(path, text, append=False):
    if append and os.path.exists(path):
        with open(path) as file:
            text = file.read() + text
    with open(path + ".part", "w") as file:
        file.write(text)
    os.rename(path + ".part", path)
