"""What may go wrong in a job of one communicator, by classes: each variant draws its ranks, channels and rates from a cell.

A variant returns the faults of a plan and what is right to say of them (test/support/faults/README.md).
"""
from case import HOUR_S

CLASSES = ("H1", "H2", "H3", "S1", "S2", "S3")
SLOW = ("S1", "S2", "S3")


def h1_skip(cell):
    rank = cell.any_rank()
    return [{"kind": "skip", "rank": rank, "rounds": 0}], {"ranks": [rank], "rank_components": ["application"]}


def h1_sleep(cell):
    rank = cell.any_rank()
    return [{"kind": "delay", "rank": rank, "ms": HOUR_S * 1000}], {"ranks": [rank], "rank_components": ["application", "process"]}


def h1_stopped(cell):
    cell.truth_from_board = True  # its proxy may not have sent all of the operation before
    rank = cell.any_rank()
    return ([{"kind": "delay", "rank": rank, "ms": HOUR_S * 1000}, {"kind": "sigstop", "rank": rank}],
            {"ranks": [rank], "rank_components": ["process"]})


def h1_killed(cell):
    cell.truth_from_board = True  # its proxy may not have sent all of the operation before
    rank = cell.any_rank()
    return ([{"kind": "delay", "rank": rank, "ms": HOUR_S * 1000}, {"kind": "sigkill", "rank": rank}],
            {"ranks": [rank], "rank_components": ["process"]})


def _h2(cell, **fault):
    rank = cell.any_rank()
    return [dict(fault, rank=rank)], {"ranks": [rank], "rank_components": ["application"]}


def h2_operation(cell):
    return _h2(cell, kind="other_operation", operation=cell.rng.choice(["allgather", "broadcast"]))


def h2_count(cell):
    return _h2(cell, kind="other_count", factor=cell.rng.choice([0.25, 0.5, 0.75]))


def h2_type(cell):
    return _h2(cell, kind="other_type", datatype=cell.rng.choice(["int32", "half", "double"]))


def h2_order(cell):
    cell.workload["operation"] = "mix"
    return _h2(cell, kind="other_order")


def h2_skipped_once(cell):
    cell.workload["operation"] = "mix"
    return _h2(cell, kind="skip", rounds=1)


def _within_operations(cell):
    cell.workload.update(bytes_min="1M" if cell.ranks <= 8 else "512K", compute_ms=0)


def h3_frozen_channel(cell):
    _within_operations(cell)
    rank = cell.any_rank()
    return [{"kind": "freeze_channel", "rank": rank, "channel": cell.rng.randrange(2)}], {"ranks": [rank], "rank_components": ["gpu"]}


def h3_frozen_device(cell):
    # A device that stops between two operations has not begun the next one: both classes say the same of it.
    _within_operations(cell)
    rank = cell.any_rank()
    return [{"kind": "freeze_device", "rank": rank}], {"class": ["H3", "H1"], "ranks": [rank], "rank_components": ["gpu"]}


def h3_cut_link(cell):
    _within_operations(cell)
    cell.namespaces = True
    return [{"kind": "cut_link", "node": cell.rng.randrange(2)}], {"links": [list(link) for link in cell.links.values()], "link_components": ["link", "nic"]}


def h3_stuck_proxy(cell):
    _within_operations(cell)
    rank = cell.rng.choice(cell.proxies)
    return [{"kind": "stuck_proxy", "rank": rank}], {"ranks": [rank], "rank_components": ["proxy"]}


def h3_stopped(cell):
    _within_operations(cell)
    cell.truth_from_board = True
    rank = cell.any_rank()
    return [{"kind": "sigstop", "rank": rank, "in_operation": 1}], {"ranks": [rank], "rank_components": ["process"]}


def h3_killed(cell):
    _within_operations(cell)
    cell.truth_from_board = True
    rank = cell.any_rank()
    return [{"kind": "sigkill", "rank": rank, "in_operation": 1}], {"ranks": [rank], "rank_components": ["process"]}


def s1_slow_clock(cell):
    cell.workload["compute_ms"] = 10
    rank = cell.any_rank()
    return [{"kind": "slow_clock", "rank": rank, "factor": cell.rng.choice([15, 20, 25])}], {"ranks": [rank], "rank_components": ["gpu"]}


def s1_late_host(cell):
    rank = cell.any_rank()
    return ([{"kind": "delay", "rank": rank, "ms": cell.rng.randrange(150, 250), "rounds": 0}],
            {"ranks": [rank], "rank_components": ["process", "application"]})


def s1_pauses(cell):
    rank = cell.any_rank()
    return ([{"kind": "pauses", "rank": rank, "ms": cell.rng.randrange(250, 350), "share": 0.4}],
            {"ranks": [rank], "rank_components": ["process", "application"]})


def s1_cpu_quota(cell):
    # Where no network proxy of the process is under the quota, too: that would be slow communication in addition.
    rank = cell.rank_without_proxy()
    return [{"kind": "cpu_quota", "rank": rank, "share": cell.rng.choice([0.08, 0.1, 0.12])}], {"ranks": [rank], "rank_components": ["process", "host"]}


def _slow_bytes(cell):
    return ("512K", 512 << 10) if cell.ranks <= 8 else ("256K", 256 << 10)


def s2_throttled(cell):
    fault, link = cell.throttled(*_slow_bytes(cell))
    return [fault], {"links": [link], "link_components": ["link", "nic"]}


def s2_slow_proxy(cell):
    cell.workload["bytes_min"] = _slow_bytes(cell)[0]
    rank = cell.rng.choice(cell.proxies)
    return [{"kind": "slow_proxy", "rank": rank, "held_ms": 75, "period_ms": 80}], {"ranks": [rank], "rank_components": ["proxy"]}


def _with_throttle(cell, fault, components, size=None):
    throttle, link = cell.throttled(*(size or _slow_bytes(cell)))
    rank = cell.rng.choice([rank for rank in range(cell.ranks) if rank not in cell.proxies])
    return [dict(fault, rank=rank), throttle], {"ranks": [rank], "links": [link], "rank_components": components, "link_components": ["link", "nic"]}


def s3_slow_clock_and_link(cell):
    # Steps pass the slow GPU and the link at the same time: only the slower of the two costs any. It must be the link, so
    # the GPU copies little; and the GPU must be late by a fair part of what the link takes.
    cell.workload["compute_ms"] = 10 if cell.ranks > 8 else 15
    cell.round_s = 0.35
    return _with_throttle(cell, {"kind": "slow_clock", "factor": cell.rng.choice([10, 15])}, ["gpu"], size=("256K", 256 << 10))


# Behind a link that is busy all the time a host may be late and cost nothing: in a tree by half of what the link takes. So
# that both cost something the link must not take much longer than the host is late.
_SHORT_ROUND_S = 0.2


def s3_late_host_and_link(cell):
    cell.round_s = _SHORT_ROUND_S
    return _with_throttle(cell, {"kind": "delay", "ms": cell.rng.randrange(150, 250), "rounds": 0}, ["process", "application"])


def s3_cpu_quota_and_link(cell):
    # Late by half a period on average. An iteration that takes whole periods would fall into step with them and lose nothing.
    cell.round_s = _SHORT_ROUND_S
    return _with_throttle(cell, {"kind": "cpu_quota", "share": 0.06, "period_ms": 400, "jitter": 0.4}, ["process", "host"])


VARIANTS = {
    "H1": (h1_skip, h1_sleep, h1_stopped, h1_killed),
    "H2": (h2_operation, h2_count, h2_type, h2_order, h2_skipped_once),
    "H3": (h3_frozen_channel, h3_frozen_device, h3_cut_link, h3_stuck_proxy, h3_stopped, h3_killed),
    "S1": (s1_slow_clock, s1_late_host, s1_pauses, s1_cpu_quota),
    "S2": (s2_throttled, s2_slow_proxy),
    "S3": (s3_slow_clock_and_link, s3_late_host_and_link, s3_cpu_quota_and_link),
}
