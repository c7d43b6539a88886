"""Two ways to publish steps in the Simple protocol: by the thread that posts, as the product does, or by the one that waited.

Behind the first a fence of system scope follows, which waits for the store to host memory; behind the second there is none.
"""
from .layout import ON, PRISTINE, WAITS
from .part import Result, Skip
from .timing import RANKS, measure_rows

KIB, MIB = 1 << 10, 1 << 20
# A slice of the small ones takes less time than a store needs to get to the host: a fence may have to wait for it.
SIZES = (64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 256 * MIB)
# Up to here the kernels take less time than the host needs to launch them one by one.
GRAPH_SIZE_MAX = MIB
TURNS = 12


def run(context):
    if not context.layout.has(WAITS):
        raise Skip("there is no build of the other way: the CPU device has no fences that wait for stores")
    rows, problems, not_run = measure_rows(context, (PRISTINE, ON, WAITS), PRISTINE, [("Ring", "Simple"), ("Tree", "Simple")], lambda _: SIZES,
                                 lambda size: ("graph",) if size <= GRAPH_SIZE_MAX else ("call",), TURNS)
    cheaper = sum(row["overhead"][WAITS]["median"] < row["overhead"][ON]["median"] for row in rows)
    return Result({"ranks": RANKS, "rows": rows}, problems, not_run, "publishing in waits is the cheaper one in %d of %d rows" % (cheaper, len(rows)))
