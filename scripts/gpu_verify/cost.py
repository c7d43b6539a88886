"""What the probe costs by size, for every algorithm and protocol: upstream's own, ours with the probe off, ours with it on, in turns.

And where: libraries with a part of the probe's device code each, measured in the same way.
"""
import time

from . import samples
from .errors import OutOfTime, VerifyError
from .layout import BEGIN_AND_END, OFF, ON, PRISTINE, STEPS
from .part import Result
from .ranks_process import RanksProcess, algorithm_environment
from .schedule import Allowance, Schedule
from .timing import RANKS, measure_rows

COMBINATIONS = [(algorithm, protocol) for protocol in ("Simple", "LL", "LL128") for algorithm in ("Ring", "Tree")]
KIB, MIB = 1 << 10, 1 << 20
SIZES = {"cuda": (8, KIB, 64 * KIB, MIB, 16 * MIB, 64 * MIB, 256 * MIB, 1024 * MIB), "cpu": (8, 64 * KIB)}
QUICK_SIZES = (8, 64 * KIB)
GRAPH_SIZE_MAX = 64 * KIB  # above, launching is hidden behind the kernel anyway
TURNS, CPU_TURNS = 15, 3
PROCESSES = 3  # that measure small sizes for each variant, one after the other

PLACE_VARIANTS = (PRISTINE, BEGIN_AND_END, STEPS, ON)
PLACE_COMBINATIONS = [("Ring", "Simple"), ("Ring", "LL"), ("Ring", "LL128")]
PLACE_SIZES = {"cuda": (8, 64 * KIB, 16 * MIB, 256 * MIB), "cpu": (64 * KIB,)}
# What the frame of each library has to show: whether kernels write their times, and their steps.
SHOWN = {BEGIN_AND_END: {"times": True, "steps": False}, STEPS: {"times": False, "steps": True}, ON: {"times": True, "steps": True}}
# Shares of the part's time: the judged rows, and where the cost is.
SHARES = (("judged", 5), ("places", 1))


def judged_rows(context):
    quick, device = context.quick, context.layout.device
    turns, processes = (TURNS, PROCESSES) if context.on_gpu and not quick else (CPU_TURNS, 1)
    return measure_rows(context, (PRISTINE, OFF, ON), PRISTINE, COMBINATIONS[:1] if quick else COMBINATIONS,
                        lambda _: QUICK_SIZES if quick else SIZES[device], lambda size: ("call", "graph") if size <= GRAPH_SIZE_MAX else ("call",),
                        turns, processes)


def check_shown(context):
    """Lines: a library that does not write what it is named after measures something else."""
    problems = []
    for variant, wanted in SHOWN.items():
        with RanksProcess(context.layout, variant, RANKS, context.frames, algorithm_environment("Ring", "Simple"), context.allowance) as process:
            process.ask("check AllReduce f32 sum 70001 0 0 0")
            shown = process.ask("shown")
        if shown != wanted:
            problems.append("%s: the frame shows %s, expected %s" % (variant, shown, wanted))
    return problems


def place_rows(context):
    """(rows, problems, what there was no time for)"""
    quick = context.quick
    try:
        problems = [] if context.layout.frames_refused else check_shown(context)
    except OutOfTime:
        return [], [], ["%s %s" % combination for combination in PLACE_COMBINATIONS]
    except VerifyError as error:
        return [], ["where the cost is: %s" % error], []
    if problems:
        return [], problems, []
    return measure_rows(context, PLACE_VARIANTS, PRISTINE, PLACE_COMBINATIONS[:1] if quick else PLACE_COMBINATIONS,
                        lambda _: PLACE_SIZES["cpu" if quick else context.layout.device], lambda size: ("graph",) if size <= GRAPH_SIZE_MAX else ("call",),
                        TURNS if context.on_gpu and not quick else CPU_TURNS)


def run(context):
    shares = Schedule(SHARES, context.allowance.limit(float("inf")), time.monotonic)
    rows, problems, not_run = judged_rows(context.within(Allowance(shares, "judged")))
    places, place_problems, place_not_run = place_rows(context.within(Allowance(shares, "places")))
    problems += place_problems
    not_run += ["where the cost of %s is" % title for title in place_not_run]
    facts = {"ranks": RANKS, "rows": rows, "places": places}
    if not context.on_gpu:
        return Result(facts, problems, not_run, "%d rows timed, %d by parts of the probe; the CPU device has no speed to judge" % (len(rows), len(places)))
    for row in rows:
        row["outcome"] = {variant: samples.outcome(row, figures) for variant, figures in row["overhead"].items()}
    missed, doubtful, within = samples.missed(rows), samples.cannot_be_told(rows), samples.judged(rows, samples.WITHIN)
    facts["cannot_be_told"] = doubtful
    return Result(facts, missed + problems, not_run, "%d of %d judged figures within the bar, %d of these beyond the aim; %d cannot be told; %d rows by parts of the probe" % (
        len(within), len(within) + len(missed), samples.beyond_aim(rows), len(doubtful), len(places)))
