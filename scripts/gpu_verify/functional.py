"""Every collective with our library: right values, nothing written outside its buffer, and the same bits as upstream's own."""
from .errors import OutOfTime, VerifyError
from .layout import OFF, ON, PRISTINE
from .part import Result
from .ranks_process import RanksProcess, algorithm_environment

RANKS = 4
COMBINATIONS = [(algorithm, protocol) for algorithm in ("Ring", "Tree") for protocol in ("Simple", "LL", "LL128")]
QUICK_COMBINATIONS = [("Ring", "LL"), ("Tree", "Simple")]
# What a restricted build for GPUs has (nccl/cmake/functions.cmake); what a library leaves out is reported and does not count.
TYPES = {
    "AllReduce": ("f32", "f16", "bf16", "i32", "u32", "i64"), "ReduceScatter": ("f32", "bf16"), "Reduce": ("f32",),
    "AllGather": ("f32", "i8", "f64"), "Broadcast": ("f32", "i8", "f64"), "SendRecv": ("f32", "i8"), "AlltoAll": ("f32", "i8"),
}
TREE_HAS = ("AllReduce",)
COUNTS = {"cuda": (1, 1031, 70001, 1 << 20), "cpu": (1031, 70001)}
LARGE_COUNT = 16 << 20  # on a GPU
CHECKED_COUNTS = (1031, 70001)  # by value, which takes the host a while; of larger ones the bits are compared
OFFSETS = ((0, 0), (1, 3))


def cases(algorithm, device, quick):
    """(collective, type, count, root)"""
    for collective, types in TYPES.items():
        if algorithm == "Tree" and collective not in TREE_HAS:
            continue
        for kind in types[:1] if quick else types:
            for count in COUNTS[device][:2] if quick else COUNTS[device]:
                yield collective, kind, count, 1 if collective in ("Broadcast", "Reduce") else 0
    if not quick and device == "cuda":
        yield "AllReduce", "f32", LARGE_COUNT, 0


def name_of(algorithm, protocol, case):
    return "%s %s %s, %d x %s" % (algorithm, protocol, case[0], case[2], case[1])


class Tally:
    def __init__(self):
        self.values = self.digests = 0
        self.left_out, self.problems, self.not_run = [], [], []


def check_values(ours, title, case, tally):
    collective, kind, count, root = case
    for send_offset, recv_offset in OFFSETS:
        answer = ours.ask("check %s %s sum %d %d %d %d" % (collective, kind, count, send_offset, recv_offset, root))
        if "left_out" in answer:
            return
        tally.values += 1
        tally.problems += ["%s: %s" % (title, line) for line in answer["wrong"]]


def compare_bits(processes, title, case, seed, tally):
    collective, kind, count, root = case
    command = "digest %s %s sum %d %d %d" % (collective, kind, count, root, seed)
    # Ours first: it refuses what its build leaves out, where upstream's runs a kernel that does nothing.
    answers = {}
    for process in reversed(processes):
        answers[process.variant] = process.ask(command)
        if "left_out" in answers[process.variant]:
            tally.left_out.append(title)
            return
    tally.digests += 1
    base = answers[PRISTINE]["digests"]
    for variant, answer in answers.items():
        different = [rank for rank, (one, other) in enumerate(zip(base, answer["digests"])) if one != other]
        if different:
            tally.problems.append("%s: other bits than upstream's with the probe %s, on rank %s" % (title, variant, ", ".join(map(str, different))))


def check_combination(context, algorithm, protocol, tally):
    todo = list(enumerate(cases(algorithm, context.layout.device, context.quick), 1))
    processes = []
    try:
        for variant in (PRISTINE, OFF, ON):
            processes.append(RanksProcess(context.layout, variant, RANKS, context.frames, algorithm_environment(algorithm, protocol), context.allowance))
        while todo:
            seed, case = todo[0]
            title = name_of(algorithm, protocol, case)
            compare_bits(processes, title, case, 1000 * seed, tally)
            if case[2] in CHECKED_COUNTS:
                check_values(processes[-1], title, case, tally)
            todo.pop(0)
    except OutOfTime:
        tally.not_run += [name_of(algorithm, protocol, case) for _, case in todo]
    except VerifyError as error:
        tally.problems.append("%s %s: %s" % (algorithm, protocol, error))
    finally:
        for process in processes:
            process.end()


def run(context):
    tally = Tally()
    for algorithm, protocol in QUICK_COMBINATIONS if context.quick else COMBINATIONS:
        if context.allowance.is_over():
            tally.not_run.append("%s %s" % (algorithm, protocol))
            continue
        context.show("%s %s" % (algorithm, protocol))
        check_combination(context, algorithm, protocol, tally)
    summary = "%d results equal to upstream's bit for bit, %d checked by value, %d left out of the build" % (
        tally.digests, tally.values, len(tally.left_out))
    if tally.problems:
        summary = "%d problems in %d results" % (len(tally.problems), tally.digests + tally.values)
    if not tally.digests and not tally.not_run and not tally.problems:
        tally.problems.append("the library has none of the functions that are checked")
    return Result({"ranks": RANKS, "compared": tally.digests, "checked_by_value": tally.values, "left_out": tally.left_out},
                  tally.problems, tally.not_run, summary)
