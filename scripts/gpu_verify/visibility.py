"""What a reader outside the GPU sees of frames while kernels write them: nothing torn, and the end of a kernel as soon as its stream says so."""
from .errors import OutOfTime, VerifyError
from .layout import ON
from .part import Result
from .ranks_process import RanksProcess, algorithm_environment
from .samples import quartiles, size_text

RANKS = 2
KIB, MIB = 1 << 10, 1 << 20
# The sizes make kernels of many steps that last long enough to be looked at.
CASES = (("Ring", "Simple", 4 * MIB), ("Ring", "LL", 256 * KIB), ("Ring", "LL128", MIB), ("Tree", "Simple", 4 * MIB))
OPERATIONS = {"cuda": 1000, "cpu": 60}
QUICK_OPERATIONS = 10
# The diagnostic thread looks once in a millisecond. A tenth of that is never noticed.
LATE_US = 100.0
ANSWER_TIMEOUT_S = 60.0


def title_of(algorithm, protocol, size):
    return "AllReduce %s %s %s" % (algorithm, protocol, size_text(size))


def problems_of(title, answer):
    problems = ["%s: %s" % (title, line) for line in answer["wrong"]]
    if answer["wrong_total"] > len(answer["wrong"]):
        problems.append("%s: %d more of these" % (title, answer["wrong_total"] - len(answer["wrong"])))
    late = sum(delay > LATE_US for delay in answer["ends_us"])
    if late:
        problems.append("%s: the end of %d of %d kernels was seen more than %g us after that of their stream" % (title, late, answer["operations"], LATE_US))
    if not answer["accepted"] or not answer["running"]:
        problems.append("%s: nothing was seen while kernels ran" % title)
    return problems


def row_of(title, answer):
    quarter, median, three_quarters = quartiles(answer["ends_us"])
    row = {name: answer[name] for name in ("looks", "accepted", "refused", "running", "skipped", "wrong_total", "operations")}
    return dict(row, title=title, end_seen_us={"median": round(median, 1), "quarter": round(quarter, 1), "three_quarters": round(three_quarters, 1),
                                               "most": round(max(answer["ends_us"]), 1)})


def run(context):
    context.need_frame_files()
    rows, problems, not_run = [], [], []
    operations = QUICK_OPERATIONS if context.quick else OPERATIONS[context.layout.device]
    for algorithm, protocol, size in CASES[:1] if context.quick else CASES:
        title = title_of(algorithm, protocol, size)
        if context.allowance.is_over():
            not_run.append(title)
            continue
        context.show(title)
        try:
            with RanksProcess(context.layout, ON, RANKS, context.frames, algorithm_environment(algorithm, protocol), context.allowance) as process:
                answer = process.ask("visibility %d %d" % (size, operations), ANSWER_TIMEOUT_S)
        except OutOfTime:
            not_run.append(title)
        except VerifyError as error:
            problems.append("%s: %s" % (title, error))
        else:
            rows.append(row_of(title, answer))
            problems += problems_of(title, answer)
    accepted, refused = sum(row["accepted"] for row in rows), sum(row["refused"] for row in rows)
    return Result({"ranks": RANKS, "cases": rows}, problems, not_run, "%d records read while kernels ran, %d torn ones refused, %d wrong" % (
        accepted, refused, sum(row["wrong_total"] for row in rows)))
