"""What the other parts meet: the device, the machine, which tools there are, and how ranks of one process exchange data.

Direct pointers are the way within a node. Should a machine not allow them, shared host memory does: better figures of the second choice than none.
"""
import importlib.util
import os
import resource
import shutil

from . import sanitizer
from .errors import NoDevice, VerifyError
from .layout import ON
from .part import Result
from .ranks_process import RanksProcess

TRANSPORTS = (("direct pointers", {}), ("shared host memory", {"NCCL_P2P_DISABLE": "1"}))
ANSWER_TIMEOUT_S = 30.0
# Frames of all ranks of all processes that live at the same time, with room to spare.
SHM_BYTES_MIN = 256 << 20


def device(layout, frames, allowance):
    """What the device says of itself; without one nothing can be checked."""
    try:
        with RanksProcess(layout, ON, 1, frames, {}, allowance) as process:
            return process.wait_ready().description
    except VerifyError as error:
        raise NoDevice("there is no device to check: %s" % error)


def choose_transport(layout, frames, allowance):
    """Sets the layout's to the first that works; returns its name and what was wrong with those before it."""
    reasons = []
    for name, variables in TRANSPORTS:
        layout.transport = variables
        try:
            with RanksProcess(layout, ON, 2, frames, {}, allowance) as process:
                wrong = process.ask("check AllReduce f32 sum 1031 0 0 0", ANSWER_TIMEOUT_S)["wrong"]
            if not wrong:
                return name, reasons
            reasons.append("%s: %s" % (name, wrong[0]))
        except VerifyError as error:
            reasons.append("%s: %s" % (name, error))
    # The parts that need no such ranks may still find something out.
    layout.transport = {}
    return "none", reasons


def machine(frames):
    free = os.statvfs(frames)
    locked = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    return {"cores": len(os.sched_getaffinity(0)), "shm_free_bytes": free.f_bavail * free.f_frsize,
            "locked_memory_max_bytes": None if locked == resource.RLIM_INFINITY else locked}


def tools():
    """What later parts need and may not find."""
    return {"compute-sanitizer": sanitizer.find_tool(), "nvidia-smi": shutil.which("nvidia-smi"), "torch": importlib.util.find_spec("torch") is not None}


def judge(seen, transport, reasons, of_machine, of_tools):
    problems = []
    if transport == "none":
        problems.append("ranks of one process cannot exchange data: %s" % "; ".join(reasons))
    if of_machine["shm_free_bytes"] < SHM_BYTES_MIN:
        problems.append("/dev/shm has %d MiB, frames may need %d" % (of_machine["shm_free_bytes"] >> 20, SHM_BYTES_MIN >> 20))
    missing = [name for name in sorted(of_tools) if not of_tools[name]]
    summary = "%s; data by %s%s" % (seen["device"], transport, "; without " + ", ".join(missing) if missing else "")
    return Result({"seen": seen, "transport": transport, "not_taken": reasons, "machine": of_machine, "tools": of_tools}, problems, [], summary)


def run(context):
    seen = device(context.layout, context.frames, context.allowance)
    transport, reasons = choose_transport(context.layout, context.frames, context.allowance)
    for reason in reasons:
        context.show(reason)
    return judge(seen, transport, reasons, machine(context.frames), tools())
