"""What single things of the probe's device code cost: libraries with one thing changed each (benchmarks/gpu/trials), in turns with the product's.

A few at a time, because each is a process with a CUDA context: twenty of them at once leave the driver without memory. Upstream's library and ours take
part in every group; in the first one twice, as two processes each: what these differ by says how much a figure is worth.
"""
from .layout import OFF, ON, ON_AGAIN, PRISTINE, PRISTINE_AGAIN
from .part import Result, Skip
from .timing import measure_rows

COMBINATIONS = [("Ring", "LL"), ("Ring", "LL128"), ("Ring", "Simple"), ("Tree", "LL")]
SIZE = 8
TURNS, FEW_TURNS = 60, 3  # a single thing costs less than turns differ by: four times as many as elsewhere
PROCESSES = 2  # one after the other, as memory comes to lie elsewhere in each
TRIALS_AT_ONCE = 5  # and two beside them: seven processes were well


def groups(trials):
    yield [PRISTINE, PRISTINE_AGAIN, OFF, ON, ON_AGAIN]
    for begin in range(0, len(trials), TRIALS_AT_ONCE):
        yield [PRISTINE, ON] + trials[begin:begin + TRIALS_AT_ONCE]


def run(context):
    trials = context.layout.trials()
    if not trials:
        raise Skip("no trial is built (CCLD_GPU_TRIALS)")
    quick = context.quick or not context.on_gpu
    turns, processes = (FEW_TURNS, 1) if quick else (TURNS, PROCESSES)
    rows, problems, not_run = [], [], []
    for combination in COMBINATIONS[:1] if quick else COMBINATIONS:
        for variants in groups(trials):
            more = measure_rows(context, variants, PRISTINE, [combination], lambda _: (SIZE,), lambda _: ("graph",),
                                turns, processes)
            for all_of_them, these in zip((rows, problems, not_run), more):
                all_of_them.extend(these)
    return Result({"rows": rows}, problems, not_run, "%d libraries, each with one thing changed, in %d rows" % (len(trials), len(rows)))
