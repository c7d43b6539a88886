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


def missed(rows):
    """A line for each row and variant above its bar. A row: {"bytes", "title", "overhead": {variant: overhead()}}"""
    lines = []
    for row in rows:
        bar = bar_of(row["bytes"])
        for variant, figures in row["overhead"].items():
            if bar is not None and figures["median"] > bar[0]:
                lines.append("%s, probe %s: %+.2f %% (bar %.2f %%)" % (row["title"], variant, figures["median"] * 100, bar[0] * 100))
    return lines


def beyond_aim(rows):
    """How many judged figures are within the bar and not within the aim."""
    count = 0
    for row in rows:
        bar = bar_of(row["bytes"])
        for figures in row["overhead"].values():
            count += bar is not None and bar[1] < figures["median"] <= bar[0]
    return count


def size_text(size):
    for unit, text in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size % unit == 0:
            return "%d %s" % (size // unit, text)
    return "%d B" % size
