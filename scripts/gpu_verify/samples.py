"""Overhead out of interleaved samples, and the bars. Pure.

Variants are measured in turns, so that the clock of the card, its temperature and its neighbours meet all of them alike. A turn gives one
ratio of medians, and the median of all turns' ratios is the overhead: a turn in which something else happened is one turn.
"""
import statistics

MIB = 1 << 20
BARS = (  # smallest size, largest size, bar, aim: shares of upstream's time
    (8, 8, 0.02, 0.005),
    (64 * MIB, 1024 * MIB, 0.0045, 0.001),
)
# Called one by one, small operations take as long as their launches: the host's time, which varies by more than the bar. From graphs, and above this size, it
# is the time of the kernels.
CALLED_DOUBTFUL_MAX = 64 << 10
WITHIN, MISSED, CANNOT_BE_TOLD = "within the bar", "missed", "cannot be told"


def quartiles(values):
    """(first quarter, median, three quarters)"""
    if not values:
        raise ValueError("no samples")
    if len(values) == 1:
        return (values[0],) * 3
    return tuple(statistics.quantiles(values, n=4, method="inclusive"))


def overhead(base_turns, turns):
    """Each argument: a list of samples for each turn. {"median", "quarter", "three_quarters"}: shares more than the base (0.01: 1 %)."""
    if len(base_turns) != len(turns):
        raise ValueError("%d turns of the base, %d of the variant" % (len(base_turns), len(turns)))
    ratios = [statistics.median(these) / statistics.median(base) - 1 for base, these in zip(base_turns, turns)]
    quarter, median, three_quarters = quartiles(ratios)
    return {"median": round(median, 6), "quarter": round(quarter, 6), "three_quarters": round(three_quarters, 6)}


def summary_us(turns):
    quarter, median, three_quarters = quartiles([sample for turn in turns for sample in turn])
    return {"median_us": round(median, 3), "quarter_us": round(quarter, 3), "three_quarters_us": round(three_quarters, 3)}


def bar_of(size):
    """(bar, aim) for an operation of that many bytes; None: it is reported, not judged."""
    for smallest, largest, bar, aim in BARS:
        if smallest <= size <= largest:
            return bar, aim
    return None


def outcome(row, figures):
    """Of one variant of a row {"bytes", "launch"}: WITHIN, MISSED, CANNOT_BE_TOLD; None: not judged."""
    bar = bar_of(row["bytes"])
    if bar is None:
        return None
    if row["launch"] == "call" and row["bytes"] <= CALLED_DOUBTFUL_MAX and figures["three_quarters"] - figures["quarter"] > bar[0]:
        return CANNOT_BE_TOLD
    return MISSED if figures["median"] > bar[0] else WITHIN


def judged(rows, wanted):
    """(row, variant, figures) of the outcome that is wanted. A row: {"bytes", "launch", "title", "overhead": {variant: overhead()}}"""
    return [(row, variant, figures) for row in rows for variant, figures in row["overhead"].items() if outcome(row, figures) == wanted]


def missed(rows):
    """A line for each figure above its bar."""
    return ["%s, probe %s: %+.2f %% (bar %.2f %%)" % (row["title"], variant, figures["median"] * 100, bar_of(row["bytes"])[0] * 100)
            for row, variant, figures in judged(rows, MISSED)]


def cannot_be_told(rows):
    """A line for each figure whose turns lie too far apart to judge it."""
    return ["%s, probe %s: the middle half of the turns is %.2f %% wide (bar %.2f %%)" % (
        row["title"], variant, (figures["three_quarters"] - figures["quarter"]) * 100, bar_of(row["bytes"])[0] * 100)
            for row, variant, figures in judged(rows, CANNOT_BE_TOLD)]


def beyond_aim(rows):
    """How many judged figures are within the bar and not within the aim."""
    return sum(figures["median"] > bar_of(row["bytes"])[1] for row, _, figures in judged(rows, WITHIN))


def size_text(size):
    for unit, text in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size % unit == 0:
            return "%d %s" % (size // unit, text)
    return "%d B" % size
