"""Two ways to publish steps in the Simple protocol: by the thread that posts, as the product does, or by the one that waited."""
from .layout import ON, PRISTINE, WAITS
from .part import Result, Skip
from .timing import RANKS, measure_rows

MIB = 1 << 20
SIZES = (MIB, 16 * MIB, 64 * MIB, 256 * MIB)
TURNS = 12


def run(context):
    if not context.layout.has(WAITS):
        raise Skip("there is no build of the other way (it is made for GPUs only)")
    rows, problems, not_run = measure_rows(context, (PRISTINE, ON, WAITS), PRISTINE, [("Ring", "Simple"), ("Tree", "Simple")], lambda _: SIZES,
                                 lambda _: ("call",), TURNS)
    cheaper = sum(row["overhead"][WAITS]["median"] < row["overhead"][ON]["median"] for row in rows)
    return Result({"ranks": RANKS, "rows": rows}, problems, not_run, "publishing in waits is the cheaper one in %d of %d rows" % (cheaper, len(rows)))
