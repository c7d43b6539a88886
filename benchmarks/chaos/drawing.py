"""What one seed draws: a job, how the service runs, what happens to it and when, and at most one fault of the job.

    draw(17) -> a document of plain values (JSON); equal seeds draw equal documents

The faults of the job are those of the accuracy benchmark. Nothing here looks at the machine, the clock or a file.
"""
import random

import cases
from case import HOUR_S, JOB, Cell, environment, layout_name, rank_count_of, short_name
from variants import VARIANTS

# What happens to the service, its network, its disk and the files of the job: (weight, shortest and longest duration in seconds).
EVENTS = {
    "kill": (4, 0.0, 8.0),            # kill -9, started again after that
    "stop": (3, 2.0, 14.0),           # SIGSTOP, SIGCONT
    "move": (3, 1.0, 6.0),            # kill -9, started elsewhere; the name gives the old address meanwhile
    "unnamed": (2, 1.0, 6.0),         # likewise, and the name has no address meanwhile
    "redirect": (2, 1.0, 5.0),        # likewise, and `ccld tune` tells the processes another name
    "impostor": (2, 2.0, 6.0),        # kill -9, something that answers garbage has its port
    "disk_full": (3, 2.0, 6.0),       # no room in the state folder
    "read_only": (2, 2.0, 5.0),       # started again with a state folder that cannot be written, then again as before
    "records_full": (2, 2.0, 5.0),    # no room where --record writes
    "shm_full": (2, 2.0, 5.0),        # no room in the ranks' /dev/shm, and where frames are
    "frames_cut": (2, 2.0, 5.0),      # a process of the same user truncates the frames of a rank
    "frames_gone": (2, 2.0, 5.0),     # removes them
    "frames_replaced": (2, 2.0, 5.0), # puts others in their place
    "bytes": (2, 2.0, 6.0),           # a stranger sends bytes that are no ZeroMQ to the telemetry port
    "garbage": (2, 2.0, 6.0),         # a stranger sends ZeroMQ messages that are no telemetry
    "claims": (3, 2.0, 6.0),          # a stranger sends telemetry of a job that does not exist
    "connections": (2, 2.0, 6.0),     # a stranger holds 200 connections to each port
    "http": (2, 2.0, 6.0),            # a stranger asks the HTTP port what it must refuse
    "clock": (2, 2.0, 5.0),           # the calendar of the service jumps, and back
    "rank_clock": (2, 2.0, 5.0),      # that of the ranks of one node
}
# In these the service is killed and started again while they last, once in three times.
MAY_HOLD_A_KILL = ("disk_full", "shm_full", "bytes", "garbage", "claims", "connections", "http", "clock")
CLOCK_JUMPS_S = (-7200, -600, -5, 5, 600, 7200)

# How often a class is planted; None: nothing is.
CLASS_WEIGHTS = {None: 40, "H1": 20, "H2": 6, "H3": 22, "S1": 12}
# Of variants.py; links are left out (they need network namespaces), and of slowness the strong ones stay.
VARIANT_NAMES = {
    "H1": ("skip", "sleep", "stopped", "killed"), "H2": ("operation", "count", "type"),
    "H3": ("frozen_channel", "frozen_device", "stuck_proxy", "stopped", "killed"), "S1": ("slow_clock", "late_host"),
}
# It happens once: a service that was killed after it had heard of it, and before it said so, cannot know.
ONLY_AFTERWARDS = ("H2",)
# What hides a rank: neither it nor another one must be named for that, and a planted fault could stay unknown.
HIDES_A_RANK = ("frames_cut",)

SMALL_LAYOUTS = ({"tp": 1, "pp": 2, "dp": 1}, {"tp": 2, "pp": 2, "dp": 1}, {"tp": 1, "pp": 4, "dp": 1}, {"tp": 1, "pp": 2, "dp": 2})
LAYOUT_FAULTS_IN_ALL = ("frozen_device", "stopped_process", "killed_process")


def _plain_job(rng, fault_class):
    """(workload, environment, ranks, faults, expectation) of a job of one communicator."""
    ranks = 8 if fault_class == "S1" else rng.choice([4, 6, 8] if fault_class == "H2" else [2, 4, 6, 8])
    algorithm, protocol = rng.choice(["Ring", "Tree"]), rng.choice(["Simple", "LL", "LL128"])
    cell = Cell(algorithm, protocol, ranks, rng)
    cell.workload["check"] = 1
    if fault_class is None:
        cell.workload.update(bytes_min=rng.choice(["16K", "128K", "512K"]), operation=rng.choice(["allreduce", "mix"]),
                             compute_ms=rng.choice([2, 5, 10]))
        if rng.random() < 0.15:
            cell.workload.update(irregular=True, idle_s=2, bytes_min="128K")
        return cell, [], None
    names = VARIANT_NAMES[fault_class]
    variant = rng.choice([each for each in VARIANTS[fault_class] if short_name(each) in names])
    faults, expect = variant(cell)
    if short_name(variant) in ("stopped", "killed"):
        expect["class"] = ["H3", "H1"]  # where in an operation it was is not asked here
    return cell, faults, dict({"class": fault_class}, **expect)


def _layout_job(rng, fault_class):
    layout = dict(rng.choice([each for each in cases.LAYOUTS if rank_count_of(each) <= 8] + ([] if fault_class == "S1" else list(SMALL_LAYOUTS))))
    ranks = rank_count_of(layout)
    cell = Cell("Ring", "Simple", ranks, rng)
    cell.workload = dict(layout, compute_ms=2, overlap=True, check=1, seconds=HOUR_S, seed=rng.randrange(1, 1 << 30))
    if fault_class is None:
        return cell, [], None
    chosen = [(faults, dict({"class": of_class}, **expect)) for name, of_class, faults, expect in cases.layout_faults(layout, rng)
              if (name in LAYOUT_FAULTS_IN_ALL or layout["tp"] > 1 and layout["dp"] > 1) and of_class == fault_class]
    return (cell,) + rng.choice(chosen) if chosen else None


def _job(rng, ranks_max):
    while True:
        fault_class = rng.choices(list(CLASS_WEIGHTS), list(CLASS_WEIGHTS.values()))[0]
        drawn = (_layout_job if rng.random() < 0.35 else _plain_job)(rng, fault_class)
        if drawn is not None and drawn[0].ranks <= ranks_max:
            return (fault_class,) + drawn


def _events(rng, kinds, count, longest_s):
    events = []
    for kind in rng.sample(list(kinds), count):
        _, least_s, most_s = EVENTS[kind]
        event = {"kind": kind, "hold_s": round(min(rng.uniform(least_s, most_s), longest_s), 1), "calm_s": round(rng.uniform(2, 4), 1),
                 "seed": rng.randrange(1, 1 << 30)}
        if kind in MAY_HOLD_A_KILL and rng.random() < 1 / 3:
            event["kill"] = True
        if kind in ("clock", "rank_clock"):
            event["jump_s"] = rng.choice(CLOCK_JUMPS_S)
        if kind == "rank_clock":
            event["node"] = rng.randrange(2)
        if kind.startswith("frames_"):
            event["rank_share"] = round(rng.random(), 3)  # of the ranks, so that it does not depend on their number
        events.append(event)
    return events


def _weighted(rng, kinds, count):
    """`count` different kinds, by weight."""
    left, chosen = list(kinds), []
    while len(chosen) < count:
        kind = rng.choices(left, [EVENTS[each][0] for each in left])[0]
        left.remove(kind)
        chosen.append(kind)
    return chosen


def draw(seed, quick=False):
    """quick: a small job and one event that is over soon, for a test that ends within seconds."""
    rng = random.Random("%d chaos" % seed)
    fault_class, cell, faults, expect = _job(rng, 2 if quick else 8)
    kinds = [kind for kind in EVENTS if not (faults and kind in HIDES_A_RANK)]
    service = {
        "keys": rng.random() < 0.25,
        "record": rng.random() < 0.5,
        "files_max": rng.choice([None, None, 128]),
        "memory_max": rng.choice([None, None, "160M"]),
        "frames_without_room": rng.random() < 0.15,
    }
    if service["frames_without_room"]:
        kinds = [kind for kind in kinds if not kind.startswith("frames_") and kind != "redirect"]  # no file, no `ccld tune --pid`
    if cell.workload.get("irregular"):
        kinds.remove("shm_full")  # its new communicators need NCCL's own segments
    if not service["record"]:
        kinds.remove("records_full")
    count = 1 if quick else rng.choice([2, 2, 3, 3, 4])
    events = _events(rng, _weighted(rng, kinds, count), count, 2.0 if quick else 20.0)
    plan = {"name": JOB, "title": "chaos", "ranks": cell.ranks, "workload": cell.workload,
            "environment": environment(cell.algorithm, cell.protocol), "within_s": 60}
    document = {"seed": seed, "lead_s": round(rng.uniform(3, 5), 1), "service": service, "events": events, "plan": plan, "fault": None}
    if faults:
        plan.update(faults=[dict(fault, after_round=rng.randrange(42, 50) if fault_class == "S1" else rng.randrange(10, 20)) for fault in faults],
                    expect=expect)
        # In front of an event, while it lasts (a part of its duration), or after all of them.
        at = count if fault_class in ONLY_AFTERWARDS else rng.randrange(count + 1)
        # By a calendar that jumps nobody can tell what was said before.
        at = max([at] + [number + 1 for number, each in enumerate(events) if each["kind"] == "clock"])
        document["fault"] = {"class": fault_class, "event": at, "part": round(rng.choice([0, rng.uniform(0.1, 0.9)]), 2) if at < count else 0}
    return document


def describe(document):
    """One line."""
    plan, fault = document["plan"], document["fault"]
    layout = {name: plan["workload"][name] for name in ("tp", "pp", "dp", "ep") if name in plan["workload"]}
    events = ", ".join("%s%s %.0f s" % (each["kind"], "+kill" if each.get("kill") else "", each["hold_s"]) for each in document["events"])
    job = "%d ranks %s" % (plan["ranks"], layout_name(layout) if layout else "%s %s" % (
        plan["environment"]["NCCL_ALGO"].split(":")[-1], plan["environment"]["NCCL_PROTO"]))
    planted = "nothing planted" if fault is None else "%s %s" % (fault["class"], "+".join(each["kind"] for each in plan["faults"]))
    return "%s; %s; %s" % (job, events, planted)
