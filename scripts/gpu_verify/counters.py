"""What the probing frames count, against what the algorithms must send: every algorithm and protocol."""
from .errors import OutOfTime, VerifyError
from .layout import ON
from .part import Result
from .ranks_process import RanksProcess, algorithm_environment

RANKS = 4
BUFFER_BYTES = 262144
ANSWER_TIMEOUT_S = 20.0
COMBINATIONS = [(algorithm, protocol) for algorithm in ("Ring", "Tree") for protocol in ("Simple", "LL", "LL128")]
# The expectations are for one channel and buffers of one size.
ENVIRONMENT = {
    "NCCL_MIN_NCHANNELS": "1", "NCCL_MAX_NCHANNELS": "1", "NCCL_NTHREADS": "128", "NCCL_LL128_NTHREADS": "128",
    "NCCL_BUFFSIZE": str(BUFFER_BYTES), "NCCL_LL_BUFFSIZE": str(BUFFER_BYTES), "NCCL_LL128_BUFFSIZE": str(BUFFER_BYTES),
}


def problem_of(algorithm, protocol, row):
    who = "all ranks" if row["rank"] < 0 else "rank %d" % row["rank"]
    return "%s %s %s of %d, %s: %d steps sent and %d received, expected %d and %d" % (
        algorithm, protocol, row["operation"], row["count"], who, row["sent"], row["received"], row["expected_sent"], row["expected_received"])


def run(context):
    context.need_frame_files()
    problems, not_run, rows = [], [], []
    for algorithm, protocol in COMBINATIONS:
        if context.allowance.is_over():
            not_run.append("%s %s" % (algorithm, protocol))
            continue
        context.show("%s %s" % (algorithm, protocol))
        more = dict(ENVIRONMENT, **algorithm_environment(algorithm, protocol))
        try:
            with RanksProcess(context.layout, ON, RANKS, context.frames, more, context.allowance) as process:
                answer = process.ask("counters %s %s %d" % (algorithm, protocol, BUFFER_BYTES), ANSWER_TIMEOUT_S)
            if "left_out" in answer:
                raise VerifyError(answer["left_out"])
        except OutOfTime:
            not_run.append("%s %s" % (algorithm, protocol))
            continue
        except VerifyError as error:
            problems.append("%s %s: %s" % (algorithm, protocol, error))
            continue
        rows += [dict(row, algorithm=algorithm, protocol=protocol) for row in answer["rows"]]
        problems += [problem_of(algorithm, protocol, row) for row in answer["rows"] if not row["right"]]
    right = sum(row["right"] for row in rows)
    return Result({"ranks": RANKS, "rows": rows}, problems, not_run, "%d of %d totals as expected" % (right, len(rows)))
