#!/usr/bin/env python3
"""Golden recordings: what the service received in real runs with real faults, and what it has to say about it.

    golden.py check [NAME...]      replay: the verdict lines must be those committed, to the byte, and right for the planted fault
    golden.py refresh [NAME...]    replay: write the verdict lines anew; says which changed, and which are not right
    golden.py record [NAME...]     run the plans again with NCCL and record them; then refresh
    golden.py list                 the names

Exit status: 0 fine, 1 a verdict differs or is not right, 2 cannot run, 77 needs root for a link and there is none.
"""
import argparse
import difflib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
SUPPORT = os.path.join(os.path.dirname(HERE), "support")
PLANS = os.path.join(SUPPORT, "faults", "plans")
sys.path.insert(0, SUPPORT)

from faults import inject, plan as plans  # noqa: E402
from run import network  # noqa: E402
from run.build import Build  # noqa: E402
from run.errors import Interrupted, RunError  # noqa: E402
from run.job import Job, signals_end_the_run  # noqa: E402
from run.processes import wait_for  # noqa: E402
from run.verdicts import VerdictFile, describe, is_confirmed, is_located, why_wrong  # noqa: E402

INDEX = os.path.join(HERE, "golden.json")
BYTES_MAX = 300 << 10  # of one recording: they are in the repository
AFTER_VERDICT_S = 1.0  # a verdict that is right for an instant only is not right
ATTEMPTS = 3
# On a busy machine ranks take long to connect to each other; nobody should call that a hang.
TIMEOUTS = {"hang_confirm_s": "20"}


class Golden:
    """`plan`: path below the plans; `planted`: seconds since the epoch, None for a healthy run."""

    def __init__(self, name, entry):
        self.name, self.plan_name, self.planted = name, entry["plan"], entry.get("planted")
        self.recording = os.path.join(HERE, "recordings", name + ".ccldrec")
        self.verdicts = os.path.join(HERE, "recordings", name + ".jsonl")

    def plan(self):
        thresholds = dict(plans.read_json(os.path.join(PLANS, "thresholds.json")), **TIMEOUTS)
        return plans.load(os.path.join(PLANS, self.plan_name + ".json"), thresholds)

    def why_wrong(self, lines_path):
        verdicts = VerdictFile(lines_path)
        verdicts.poll()
        expect = self.plan().expect
        if expect is None:
            return "; ".join("a false alarm: %s" % describe(verdict) for verdict in verdicts.incidents()) or None
        return why_wrong(verdicts, expect, self.planted)


def read_index():
    with open(INDEX) as file:
        return {name: Golden(name, entry) for name, entry in json.load(file).items()}


def write_index(goldens):
    entries = {golden.name: {"plan": golden.plan_name, "planted": golden.planted} for golden in goldens.values()}
    with open(INDEX, "w") as file:
        json.dump(entries, file, indent=2)
        file.write("\n")


def replay(service, golden, path, changes=None):
    """`changes`: {setting: text} in place of the recorded ones."""
    command = [service, "replay", golden.recording, "--verdicts", path]
    for name, value in (changes or {}).items():
        command += ["--set", "%s=%s" % (name, value)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise RunError("%s: %s" % (golden.name, (done.stderr or done.stdout).strip().split("\n")[-1]))
    return done.stderr.strip()


def show_difference(golden, path):
    with open(golden.verdicts) as old, open(path) as new:
        for line in difflib.unified_diff(old.readlines(), new.readlines(), os.path.basename(golden.verdicts), "replayed", n=0):
            print(line.rstrip("\n"))


def same(one, other):
    with open(one, "rb") as first, open(other, "rb") as second:
        return first.read() == second.read()


def check(service, golden):
    with tempfile.TemporaryDirectory(prefix="ccld-golden-") as folder:
        path = os.path.join(folder, "verdicts.jsonl")
        print(replay(service, golden, path))
        fine = True
        if not os.path.exists(golden.verdicts):
            print("%s: there are no verdict lines; golden.py refresh writes them" % golden.name)
            fine = False
        elif not same(golden.verdicts, path):
            show_difference(golden, path)
            print("%s: the verdict lines differ; golden.py refresh accepts the new ones" % golden.name)
            fine = False
        reason = golden.why_wrong(path)
        if reason:
            print("%s: not right: %s" % (golden.name, reason))
        return fine and not reason


def refresh(service, golden):
    path = golden.verdicts + ".new"
    try:
        replay(service, golden, path)
        changed = not os.path.exists(golden.verdicts) or not same(golden.verdicts, path)
        os.replace(path, golden.verdicts)
    finally:
        if os.path.exists(path):
            os.unlink(path)
    reason = golden.why_wrong(golden.verdicts)
    print("%-20s %s, %s" % (golden.name, "changed" if changed else "as before", "not right: %s" % reason if reason else "right"), flush=True)
    return not reason


def run_plan(build, plan, folder, recording):
    """Returns when the fault was planted, in seconds since the epoch; None for a healthy run."""
    with Job(build, plan, folder, recording) as job:
        job.wait_ready()
        planted = None
        if plan.faults:
            planted = inject.plant(plan, job) + time.time() - time.monotonic()

            def decided():
                job.service.check_alive()
                job.service.verdicts.poll()
                return any(is_confirmed(verdict) and is_located(verdict) for verdict in job.service.verdicts.incidents())
            if wait_for(decided, plan.within_s + float(TIMEOUTS["hang_confirm_s"]), 0.02):
                wait_for(lambda: decided() and False, AFTER_VERDICT_S, 0.02)
        else:
            job.wait_finished(plan.within_s)
            wait_for(job.service.verdicts.poll, plan.settle_s, 0.02)
        job.service.end()  # before the ranks, whose end is nobody's business
        job.service.verdicts.poll()
    return planted


def record(build, golden):
    """One run, kept only if its verdict is right, the file is small, and the replay says what the live service said."""
    plan = golden.plan()
    reason = network.why_not() if plan.namespaces else None
    if reason:
        print("golden.py: %s: %s" % (golden.name, reason), file=sys.stderr)
        sys.exit(77)
    folder = tempfile.mkdtemp(prefix="ccld-golden-run-")
    os.chmod(folder, 0o755)
    for attempt in range(ATTEMPTS):
        # Job empties its folder.
        run_folder, recording = os.path.join(folder, "run"), os.path.join(folder, "%d.ccldrec" % attempt)
        planted = run_plan(build, plan, run_folder, recording)
        candidate = Golden(golden.name, {"plan": golden.plan_name, "planted": planted})
        candidate.recording, candidate.verdicts = recording, os.path.join(run_folder, "verdicts.jsonl")
        problem = candidate.why_wrong(candidate.verdicts)
        size = os.path.getsize(recording)
        if not problem and size > BYTES_MAX:
            problem = "%d bytes are too many" % size
        replayed = os.path.join(folder, "replayed.jsonl")
        replay(build.service, candidate, replayed)
        if not same(candidate.verdicts, replayed):
            raise RunError("%s: the replay differs from the live run; see %s" % (golden.name, folder))
        if not problem:
            shutil.move(recording, golden.recording)
            os.chmod(golden.recording, 0o644)
            golden.planted = planted
            print("%-20s recorded, %d bytes" % (golden.name, size), flush=True)
            shutil.rmtree(folder)
            return True
        print("%-20s attempt %d: %s" % (golden.name, attempt + 1, problem), flush=True)
    print("%-20s given up; the older recording stays (%s)" % (golden.name, folder), flush=True)
    return False


def main():
    parser = argparse.ArgumentParser(prog="golden.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("check", "refresh", "record", "list"))
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    parser.add_argument("--build", default=os.path.join(os.path.dirname(os.path.dirname(HERE)), "build", "dev"), metavar="FOLDER", help="build tree (build/dev)")
    arguments = parser.parse_args()
    goldens = read_index()
    unknown = [name for name in arguments.names if name not in goldens]
    if unknown:
        parser.error("%s is not known; 'golden.py list' names them" % unknown[0])
    chosen = [goldens[name] for name in arguments.names or goldens]
    if arguments.command == "list":
        print("\n".join(golden.name for golden in chosen))
        return 0
    fine = True
    if arguments.command == "record":
        build = Build(arguments.build).check()
        for golden in chosen:
            fine = record(build, golden) and refresh(build.service, golden) and fine
            write_index(goldens)
        return 0 if fine else 1
    service = Build(arguments.build).service
    if not os.path.exists(service):
        raise RunError("%s is missing: build it first with 'make build'" % service)
    for golden in chosen:
        fine = (check if arguments.command == "check" else refresh)(service, golden) and fine
    return 0 if fine else 1


if __name__ == "__main__":
    try:
        with signals_end_the_run():
            sys.exit(main())
    except (RunError, plans.PlanError, OSError) as error:
        print("golden.py: %s" % error, file=sys.stderr)
        sys.exit(2)
    except Interrupted as signal_seen:
        sys.exit(128 + signal_seen.signal_number)
