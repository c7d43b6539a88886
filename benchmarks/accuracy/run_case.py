"""Runs one case: a job with the service, the fault, the live verdict, and the paper's rules over the recording."""
import json
import os
import subprocess
import time

from faults import inject
from faults.plan import LAYOUT_OPTIONS, Plan
from run.errors import RunError
from run.job import Job
from run.processes import wait_for
from run.verdicts import is_confirmed, is_located

import scoring
from store import write_json
from truth import classes_of_stop

HANG_WITHIN_S = 8.0    # after hang_confirm_s: how long the service may take; the bars ask for much less
FROM_START_S = 60.0    # in which slowness without a past must be found, and slowness that only a pipeline sees
START_WITHIN_S = 180.0  # 16 ranks with five communicators each, on a machine that does something else, too
SETTLE_S = 0.7         # how long a verdict must stay
STOPPED_LOOK_S = 1.0   # after which the board tells where a stopped rank stood
CLEAR_S = 2.0          # after a benign job's end
RECORDING = "recording.ccld"
WATCH = "watch.json"   # when and whom, to judge the recording once more
# The paper has one threshold for hangs, the duration of an operation. It gets that of suspicion, or it would need a longer look.
PAPER = {"hang_suspect_s": "2", "hang_confirm_s": "2"}


def watch_times(case, settings):
    """(least, longest) seconds to look after planting. The paper's rules need the windows, too, so nobody stops at the first verdict."""
    if case.fault_class.startswith("H"):
        return 5.0, float(settings["hang_confirm_s"]) + HANG_WITHIN_S
    windows = float(settings["slow_window_s"])
    repeat = int(settings.get("slow_repeat", 3))
    longest = FROM_START_S if case.suite in ("start", "pipeline") else 30.0
    return (repeat + 1) * windows, max(longest, (repeat + 3) * windows)


def run(build, case, settings, folder, live_only=False, progress=lambda text: None):
    """Returns the row. Raises RunError if the case could not be run."""
    plan = Plan(case.plan, case.id, settings)
    recording = None if live_only else os.path.join(folder, RECORDING)
    begin = time.monotonic()
    row = {"id": case.id, "suite": case.suite, "fault_class": case.fault_class, "algorithm": case.algorithm, "protocol": case.protocol,
           "ranks": case.ranks, "repetition": case.repetition, "variant": case.variant, "rules": {}}
    row.update((_run_benign if case.suite == "benign" else _run_fault)(build, case, plan, settings, folder, recording, progress))
    row["seconds"] = round(time.monotonic() - begin, 1)
    return row


def layout_of(plan):
    """The groups of the job's communicators; None: it has one communicator."""
    return {name: plan.workload.get(name, 1) for name in LAYOUT_OPTIONS} if plan.has_layout() else None


def _run_fault(build, case, plan, settings, folder, recording, progress):
    least_s, longest_s = watch_times(case, settings)
    with Job(build, plan, folder, recording) as job:
        job.wait_ready(START_WITHIN_S)
        planted_at = inject.plant(plan, job)
        planted = planted_at + time.time() - time.monotonic()
        progress("planted: %s" % plan.title)
        expect = plan.expect
        if case.truth_from_board:
            time.sleep(STOPPED_LOOK_S)
            rank = plan.faults[0].rank
            classes = classes_of_stop(rank, job.board.slots(), job.stopped_in_kernel.get(rank, False))
            expect = expect._replace(fault_class=classes[0], classes=classes)
        verdicts = job.service.verdicts

        def decided():
            job.service.check_alive()
            verdicts.poll()
            early = time.monotonic() - planted_at < least_s
            return not early and any(is_confirmed(verdict) and (is_located(verdict) or verdict["candidates"]) for verdict in verdicts.incidents())
        if wait_for(decided, longest_s - (time.monotonic() - planted_at), 0.02):
            wait_for(lambda: decided() and False, SETTLE_S, 0.05)
        until = time.time()
        rank_of_pid = {slot.pid: rank for rank, slot in enumerate(job.board.slots())}
        job.service.end()  # before the ranks, whose end is nobody's business
        verdicts.poll()
    truth = {"class": list(expect.classes), "ranks": sorted(expect.ranks), "links": [list(link) for link in expect.links],
             "components": sorted(expect.rank_components | expect.link_components), "comm_name": expect.comm_name or None,
             "faults": [dict(fault.arguments, kind=fault.kind, rank=fault.rank, node=fault.node) for fault in plan.faults]}
    layout = layout_of(plan)
    rules = {"default": scoring.score(verdicts.lines, expect, planted, until, rank_of_pid, layout)}
    if recording:
        rules["paper"] = scoring.score(replay(build, recording, settings), expect, planted, until, rank_of_pid, layout)
        write_json(os.path.join(folder, WATCH), {"planted": planted, "until": until, "ranks": rank_of_pid, "class": expect.classes})
    # The class that the case counts for: of a stopped process it may differ from the one of its cell.
    return {"fault_class": expect.fault_class, "planted": truth, "rules": rules}


def _run_benign(build, case, plan, settings, folder, recording, progress):
    with Job(build, plan, folder, recording) as job:
        job.wait_ready(START_WITHIN_S)
        ready = time.monotonic()
        progress("irregular traffic for %.0f s" % plan.workload["seconds"])
        job.wait_finished(plan.within_s)
        seconds = time.monotonic() - ready
        rounds = min(slot.completed_round for slot in job.board.slots())
        wait_for(job.service.verdicts.poll, CLEAR_S, 0.05)
        job.service.end()
        job.service.verdicts.poll()
    rules = {"default": scoring.score_benign(job.service.verdicts.lines)}
    if recording:
        rules["paper"] = scoring.score_benign(replay(build, recording, settings))
    return {"healthy_s": round(seconds, 1), "rounds": rounds, "planted": None, "rules": rules}


def replay(build, recording, settings, rules="paper"):
    """The verdict lines that a rule set gives for the recording."""
    command = [build.service, "replay", recording, "--rules=%s" % rules, "--verdicts", "-"]
    changed = dict(settings, **PAPER) if rules == "paper" and "hang_suspect_s" in settings else settings  # not where hangs have defaults
    for name, value in changed.items():
        command += ["--set", "%s=%s" % (name, value)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise RunError("%s failed: %s" % (" ".join(command[:3]), (done.stderr or done.stdout).strip().split("\n")[-1]))
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def judge(case, lines, watch):
    """What the verdict lines of a case are worth. `watch`: what its WATCH file holds; of a case without a fault it does not matter."""
    if case.suite == "benign":
        return scoring.score_benign(lines)
    plan = Plan(case.plan, case.id)
    expect = plan.expect._replace(classes=tuple(watch["class"]))
    ranks = {int(pid): rank for pid, rank in watch["ranks"].items()}
    return scoring.score(lines, expect, watch["planted"], watch["until"], ranks, layout_of(plan))


def judge_recording(build, case, settings, folder, row):
    """The row of a case again, with what both rule sets make of its recording now."""
    recording, watch = os.path.join(folder, RECORDING), None
    if case.suite != "benign":
        with open(os.path.join(folder, WATCH)) as file:
            watch = json.load(file)
    return dict(row, rules={name: judge(case, replay(build, recording, settings, name), watch) for name in ("default", "paper")})
