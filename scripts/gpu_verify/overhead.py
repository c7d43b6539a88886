"""What the probe costs by size, for every algorithm and protocol: upstream's own, ours with the probe off, ours with it on, in turns."""
from . import samples
from .layout import OFF, ON, PRISTINE
from .part import Result
from .timing import RANKS, measure_rows

COMBINATIONS = [(algorithm, protocol) for protocol in ("Simple", "LL", "LL128") for algorithm in ("Ring", "Tree")]
KIB, MIB = 1 << 10, 1 << 20
SIZES = (8, KIB, 64 * KIB, MIB, 16 * MIB, 64 * MIB, 256 * MIB, 1024 * MIB)
QUICK_SIZES = (8, 64 * KIB)
GRAPH_SIZE_MAX = 64 * KIB  # above, launching is hidden behind the kernel anyway
TURNS, QUICK_TURNS = 15, 3


def run(context):
    quick = context.quick
    rows, problems, not_run = measure_rows(
        context, (PRISTINE, OFF, ON), PRISTINE, COMBINATIONS[:1] if quick else COMBINATIONS, lambda _: QUICK_SIZES if quick else SIZES,
        lambda size: ("call", "graph") if size <= GRAPH_SIZE_MAX else ("call",), QUICK_TURNS if quick else TURNS)
    facts = {"ranks": RANKS, "rows": rows}
    if not context.on_gpu:
        return Result(facts, problems, not_run, "%d rows timed; the CPU device has no speed to judge" % len(rows))
    missed = samples.missed(rows)
    judged = sum(samples.bar_of(row["bytes"]) is not None for row in rows) * 2
    return Result(facts, missed + problems, not_run, "%d of %d judged figures within the bar, %d of these beyond the aim" % (
        judged - len(missed), judged, samples.beyond_aim(rows)))
