"""Which faults can be planted into somebody else's binary, and what of a plan's workload has a meaning for it."""
from collections import namedtuple

from faults.plan import APPLICATION_KINDS, DEVICE_KINDS, LAYOUT_OPTIONS, LINK_KINDS, PROCESS_KINDS, PROXY_KINDS

from .binaries import program_of

# processes: how many; threads and gpus: of each. on_cpu_device: whether there are GPUs or processors that stand for them.
Shape = namedtuple("Shape", "processes threads gpus on_cpu_device")

# Options of the harness's own workload that nccl-tests has, under their names there.
OPTIONS = {"bytes_min": "-b", "bytes_max": "-e", "factor": "-f", "iterations": "-n", "warm_up": "-w", "reduction": "-o", "datatype": "-d"}
# A run with a fault is ended when the verdict is there, or the plan's time is over.
ITERATIONS_WITH_FAULT = 1_000_000_000
ITERATIONS_HEALTHY = 20
DEFAULT_BYTES = "1M"


def ranks_of(shape):
    return shape.processes * shape.threads * shape.gpus


def why_not_fault(kind, shape):
    """None if a fault of this kind can be planted, otherwise why not."""
    if kind in APPLICATION_KINDS:
        return "changes what the application calls, and these binaries are not ours to change"
    if kind in LINK_KINDS:
        return ("needs a network namespace for each node, and the binaries' own connections (MPI) would have to cross between them; "
                "slow_proxy and stuck_proxy delay and stop what a rank sends")
    if kind in PROCESS_KINDS or kind in PROXY_KINDS:
        if shape.processes == 1:
            return "acts on the process of a rank, and one process has all ranks: run binaries built with MPI=1, with --mpirun"
    elif kind in DEVICE_KINDS:
        if not shape.on_cpu_device:
            return "is a fault of the CPU device: a real GPU takes no such orders"
    return None


def refusals(plan, shape):
    """One line for each thing in the plan that cannot be done; none: it can be run."""
    found = []
    for index, fault in enumerate(plan.faults):
        reason = why_not_fault(fault.kind, shape)
        if reason:
            found.append("faults[%d].kind: %s %s" % (index, fault.kind, reason))
    if plan.held_round():
        found.append("faults[0].before_round: these binaries do not wait in front of a round")
    if plan.namespaces and not any(fault.kind in LINK_KINDS for fault in plan.faults):
        found.append("network: namespaces are not made for these binaries")
    for name in LAYOUT_OPTIONS + ("irregular", "overlap"):
        if plan.workload.get(name):
            found.append("workload.%s: nccl-tests has no such traffic" % name)
    if plan.workload.get("operation", "allreduce") == "mix":
        found.append("workload.operation: a binary of nccl-tests has one operation, not \"mix\"")
    if ranks_of(shape) != plan.rank_count:
        found.append("ranks: the plan has %d, and %d processes with %d threads of %d GPUs have %d" % (
            plan.rank_count, shape.processes, shape.threads, shape.gpus, ranks_of(shape)))
    if shape.on_cpu_device and plan.workload.get("check"):
        found.append("workload.check: the binaries' own kernels, which look at results, do not run on the CPU device")
    return found


def without_meaning(plan):
    """Options of the workload that are left out; the traffic is that of nccl-tests."""
    known = set(OPTIONS) | {"operation", "check"}
    return sorted(name for name in plan.workload if name not in known)


def adapt_expectation(plan):
    """nccl-tests computes nothing between operations, so a slow GPU is late in its transfers (S2 of the GPU) as much as at their beginning
    (S1): where a plan expects S1 of it, both are right. Returns a line that says so, or None."""
    expect = plan.expect
    if expect is None or "S1" not in expect.classes or "S2" in expect.classes or not any(fault.kind == "slow_clock" for fault in plan.faults):
        return None
    plan.expect = expect._replace(classes=expect.classes + ("S2",))
    return "nothing is computed between operations, so that S2 of the slow GPU is right, too"


def program(plan):
    return program_of(plan.workload.get("operation", "allreduce"))


def arguments(plan, shape, check):
    """The command line of nccl-tests for this plan."""
    options = {"bytes_min": DEFAULT_BYTES, "factor": 2, "warm_up": 1,
               "iterations": ITERATIONS_WITH_FAULT if plan.faults else ITERATIONS_HEALTHY}
    options.update({name: value for name, value in plan.workload.items() if name in OPTIONS})
    if plan.faults:
        options["iterations"] = ITERATIONS_WITH_FAULT
    options.setdefault("bytes_max", options["bytes_min"])
    result = ["-t", str(shape.threads), "-g", str(shape.gpus), "-c", "1" if check else "0"]
    for name in sorted(options):
        result += [OPTIONS[name], str(options[name])]
    return result
