"""Are the numbers of a table possible, and did the binary look at all results? Each trouble is one line."""
from collections import namedtuple

# What was asked for: the name of the binary, ranks, sizes in bytes (None: unknown), whether results were to be looked at.
Asked = namedtuple("Asked", "program ranks sizes check")

# Bus bandwidth over algorithm bandwidth, as nccl-tests documents it (doc/PERFORMANCE.md); others are not compared.
BUS_FACTORS = {
    "all_reduce_perf": lambda n: 2 * (n - 1) / n,
    "all_gather_perf": lambda n: (n - 1) / n, "reduce_scatter_perf": lambda n: (n - 1) / n, "alltoall_perf": lambda n: (n - 1) / n,
    "gather_perf": lambda n: (n - 1) / n, "scatter_perf": lambda n: (n - 1) / n,
    "broadcast_perf": lambda n: 1, "reduce_perf": lambda n: 1, "sendrecv_perf": lambda n: 1,
}
# Bandwidths are printed with two decimals, large times without any.
ROUNDING_GB_S = 0.0051
ROUNDING_SHARE = 0.01
# Operations whose in-place results nccl-tests does not look at.
NOT_CHECKED_IN_PLACE = ("sendrecv_perf", "alltoall_perf", "alltoallv_perf", "hypercube_perf")


def close(value, wanted, scale=1.0):
    return abs(value - wanted) <= ROUNDING_GB_S * (1 + scale) + ROUNDING_SHARE * abs(wanted)


def troubles(result, asked):
    """Of a run that ended by itself."""
    found = list(result.failures) + wrong_values(result)
    if not result.finished:
        found.append("the output ends without \"Out of bounds values\" and \"Avg bus bandwidth\"")
    if not result.rows:
        return found + ["the table has no rows"]
    if asked.sizes is not None and len(result.rows) != len(asked.sizes):
        found.append("%d rows for %d sizes" % (len(result.rows), len(asked.sizes)))
    for row in result.rows:
        found += _impossible(row, asked, result.times_of_the_host)
        if asked.check:
            found += _not_checked(row, asked)
    if result.finished:
        found += _last_lines(result)
    return found


def wrong_values(result):
    """Also of a run that was cut short."""
    return ["%d wrong values of %d (%d bytes, %s)" % (measure.wrong, row.count, row.size, how)
            for row in result.rows for how, measure in _measures(row) if measure.wrong]


def _measures(row):
    return [(how, measure) for how, measure in (("out of place", row.out_of_place), ("in place", row.in_place)) if measure is not None]


def _impossible(row, asked, times_of_the_host):
    found = []
    factor = BUS_FACTORS.get(asked.program)
    for how, measure in _measures(row):
        where = "%d bytes, %s" % (row.size, how)
        if measure.time_us <= 0:
            found.append("%s: a time of %g us" % (where, measure.time_us))
            continue
        algbw = row.size / measure.time_us * 1e-3
        if factor and not times_of_the_host and not close(measure.algbw, algbw):
            found.append("%s: algbw is %g GB/s, but size by time is %.2f" % (where, measure.algbw, algbw))
        if factor and not close(measure.busbw, measure.algbw * factor(asked.ranks), factor(asked.ranks)):
            found.append("%s: busbw is %g GB/s, but algbw of %d ranks makes it %.2f" % (
                where, measure.busbw, asked.ranks, measure.algbw * factor(asked.ranks)))
    return found


def _not_checked(row, asked):
    return ["%d bytes, %s: the results were not looked at" % (row.size, how) for how, measure in _measures(row)
            if measure.wrong is None and not (how == "in place" and asked.program in NOT_CHECKED_IN_PLACE)]


def _last_lines(result):
    found = []
    if not result.wrong_ok or result.wrong_total:
        found.append("out of bounds values: %d" % result.wrong_total)
    if not result.bandwidth_ok:
        found.append("the average bus bandwidth of %g GB/s is below what NCCL_TESTS_MIN_BW asks for" % result.bandwidth)
    measures = [measure for row in result.rows for _, measure in _measures(row)]
    mean = sum(measure.busbw for measure in measures) / len(measures)
    if not close(result.bandwidth, mean):
        found.append("Avg bus bandwidth is %g GB/s, but the mean of the table is %.2f" % (result.bandwidth, mean))
    return found
