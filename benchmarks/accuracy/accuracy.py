#!/usr/bin/env python3
"""How often the verdict is right: planted faults in real jobs, and benign but irregular jobs, judged by the default rules and by the paper's.

A case that was run with the same build and the same settings is not run again, nor is one that the result file has of the same sources.
Exit status: 0 all bars met, 1 a bar is missed (a line says which), 2 cannot run, 128 + n ended by signal n.
"""
import argparse
import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(ROOT, "benchmarks"), HERE, os.path.join(ROOT, "test", "support")]

import cases as all_cases  # noqa: E402
import run_case  # noqa: E402
import scoring  # noqa: E402
import table  # noqa: E402
from faults import plan as plans  # noqa: E402
from measured import commit, sources  # noqa: E402
from results import DECIDES, Results  # noqa: E402
from run import network  # noqa: E402
from run.build import Build  # noqa: E402
from run.errors import Interrupted, RunError  # noqa: E402
from run.job import signals_end_the_run  # noqa: E402
from store import Store, version_of_files, write_json  # noqa: E402

THRESHOLDS = os.path.join(HERE, "thresholds.json")


def show(text):
    print(text, flush=True)


def why_not(case):
    """None if this machine can run the case, otherwise one line."""
    if case.plan.get("network") == "namespaces" and network.why_not():
        return network.why_not()
    return None


def attempt(build, case, settings, arguments, show_line):
    """The row of a case; a run that failed for reasons of its own gets a second chance. None: it could not be run."""
    folder = os.path.join(arguments.work, "now-%d" % arguments.shard[0])
    for chance in (1, 2):
        try:
            row = run_case.run(build, case, settings, folder, arguments.live_only)
            break
        except RunError as error:
            show_line("not run: %s" % error)
            if chance == 2:
                return None
    keep_recording(case, row, folder, place(arguments, "recorded", case))
    if not scoring.is_right(row["rules"]["default"]):
        keep = place(arguments, "wrong", case)
        shutil.rmtree(keep, ignore_errors=True)
        shutil.copytree(folder, keep)
        write_json(os.path.join(keep, "plan.json"), dict(case.plan, settings=settings))
        write_json(os.path.join(keep, "row.json"), row)
        if arguments.failures:
            with open(arguments.failures, "a") as file:
                file.write(failure_line(row, keep) + "\n")
    return row


def place(arguments, part, case):
    os.makedirs(os.path.join(arguments.work, part), exist_ok=True)
    return os.path.join(arguments.work, part, case.id.replace("/", "-"))


def keep_recording(case, row, folder, keep):
    """For --replay."""
    shutil.rmtree(keep, ignore_errors=True)
    os.makedirs(keep)
    for name in (run_case.RECORDING, run_case.WATCH):
        if os.path.exists(os.path.join(folder, name)):
            shutil.copy(os.path.join(folder, name), keep)
    write_json(os.path.join(keep, "row.json"), dict(row, plan=case.plan))


def from_recording(build, case, settings, arguments):
    """The row of a case that was recorded before, judged by the service as it is now. None: there is no recording of this plan."""
    folder = place(arguments, "recorded", case)
    try:
        row = plans.read_json(os.path.join(folder, "row.json"))
    except plans.PlanError:
        return None
    if row.pop("plan") != case.plan or not os.path.exists(os.path.join(folder, run_case.RECORDING)):
        return None
    return run_case.judge_recording(build, case, settings, folder, row)


def failure_line(row, folder):
    planted = row["planted"]
    wanted = "silence" if planted is None else "%s ranks %s links %s %s%s" % (
        "/".join(planted["class"]), planted["ranks"], planted["links"], "|".join(planted["components"]),
        " in %s" % planted["comm_name"] if planted["comm_name"] else "")
    return "%s %s: wanted %s; said: %s; make accuracy FULL=1 ONLY='^%s$'; %s" % (
        time.strftime("%H:%M"), row["id"], wanted, row["rules"]["default"]["said"], row["id"], folder)


def run_shards(arguments):
    """Runs the cases in several processes, each every so many; their results are in the store afterwards."""
    shards = [subprocess.Popen([sys.executable, "-B", os.path.realpath(__file__)] + sys.argv[1:] +
                               ["--jobs", "1", "--shard", "%d/%d" % (shard, arguments.jobs), "--out", os.devnull], stdin=subprocess.DEVNULL)
              for shard in range(arguments.jobs)]
    try:
        for shard in shards:
            shard.wait()
    finally:
        for shard in shards:
            if shard.poll() is None:
                shard.send_signal(signal.SIGINT)
        for shard in shards:
            shard.wait()
    arguments.again = False


def shard_text(text):
    """"1/4" -> (1, 4)."""
    try:
        index, count = (int(part) for part in text.split("/"))
    except ValueError:
        raise argparse.ArgumentTypeError("must be INDEX/COUNT, not %s" % text)
    if not 0 <= index < count:
        raise argparse.ArgumentTypeError("the index must be from 0 to the count minus 1, not %s" % text)
    return index, count


def run_all(arguments):
    build = Build(arguments.build).check()
    thresholds = plans.read_json(THRESHOLDS)
    every = all_cases.full(arguments.seed) if arguments.full else all_cases.sample(arguments.seed)
    only = re.compile(arguments.only) if arguments.only else None
    wanted = [case for case in every if only is None or only.search(case.id)]
    if not wanted:
        raise RunError("--only %s: no case has such a name (--list shows them)" % arguments.only)
    if arguments.list:
        for case in wanted:
            show(case.id)
        return 0
    version = version_of_files([build.service, build.workload, os.path.join(build.library_folder, "libnccl.so.2")])
    store = Store(os.path.join(arguments.work, "done"), [commit(), version, arguments.live_only])
    summed_up = arguments.out != os.devnull  # not of a shard: its starter sums up
    header = {"sources": sources(*DECIDES), "seed": arguments.seed, "settings": thresholds, "paper_settings": run_case.PAPER}
    results = Results(arguments.out, every, header, commit()) if summed_up else None
    run, not_run = 0, 0
    begin = time.monotonic()
    if arguments.jobs > 1:
        run_shards(arguments)
    for index, case in enumerate(wanted):
        if index % arguments.shard[1] != arguments.shard[0]:
            continue
        settings = thresholds[case.settings]
        name = "%3d/%d %s" % (index + 1, len(wanted), case.id)
        reason = None if arguments.replay else why_not(case)
        row = None
        if not (reason or arguments.again or arguments.replay):
            row = store.get(case, settings) or (results.known(case) if summed_up else None)
        known = row is not None
        if arguments.replay:
            row = from_recording(build, case, settings, arguments)
            reason = "not recorded"
        elif not known and not reason:
            row = attempt(build, case, settings, arguments, lambda text, name=name: show("%s: %s" % (name, text)))
            if row is not None:
                store.put(case, settings, row)
        if row is None:
            not_run += 1
            if summed_up:
                results.leave_out(case.id, reason or "it failed twice")
            if not arguments.replay:
                show("%s: not run%s" % (name, ": " + reason if reason else ""))
            continue
        run += 1
        if summed_up:
            results.add(row if known else dict(row, replayed=arguments.replay))
        show("%s: %s" % (name, table.line(row) + (", as before" if known else "")))
    if not run and arguments.replay:
        raise RunError("nothing was recorded in %s" % arguments.work)
    if not summed_up:
        return 0
    document = results.write()
    rows = document["rows"]
    show("")
    show(table.summary(document["rules"]))
    missed = scoring.missed_bars(document["rules"]["default"], rows) if rows else []
    for line in missed:
        show("accuracy: " + line)
    show("%d cases in %.0f s, %d not run; results of %d in %s" % (run, time.monotonic() - begin, not_run, len(rows), os.path.relpath(arguments.out)))
    return 1 if missed or not run else 0


def main():
    parser = argparse.ArgumentParser(prog="accuracy", description=__doc__.split("\n\n")[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "dev"), metavar="FOLDER", help="build tree (build/dev)")
    parser.add_argument("--full", action="store_true", help="all cases; otherwise one of each class, a layout and a minute without a fault")
    parser.add_argument("--seed", type=int, default=1, help="of ranks, channels, rounds, rates and variants (1)")
    parser.add_argument("--only", metavar="REGEX", help="only the cases with such a name")
    parser.add_argument("--list", action="store_true", help="show the names and end")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="jobs at a time (1): more need more processors, or slow cases are not fair")
    parser.add_argument("--shard", type=shard_text, default=(0, 1), metavar="I/N", help="only every Nth case, from the Ith on")
    parser.add_argument("--again", action="store_true", help="run cases that are done once more")
    parser.add_argument("--replay", action="store_true", help="run nothing: judge the recordings of earlier runs again, with the service as it is now")
    parser.add_argument("--live-only", action="store_true", help="do not record: the default rules alone")
    parser.add_argument("--failures", metavar="FILE", help="a line for each wrong case is added here")
    parser.add_argument("--work", default=os.path.join(ROOT, "build", "accuracy"), metavar="FOLDER", help="results so far, and what went wrong (build/accuracy)")
    parser.add_argument("--out", metavar="FILE", help="results (build/accuracy.json, of --full benchmarks/results/accuracy.json)")
    arguments = parser.parse_args()
    if arguments.out is None:
        part = not arguments.full or arguments.only or arguments.replay
        name = "accuracy-replayed.json" if arguments.replay else "accuracy.json"
        arguments.out = os.path.join(ROOT, "build", name) if part else os.path.join(ROOT, "benchmarks", "results", "accuracy.json")
    arguments.work = os.path.abspath(arguments.work)
    if arguments.list or arguments.replay:
        return run_all(arguments)
    os.makedirs(arguments.work, exist_ok=True)
    with open(os.path.join(arguments.work, ".lock-%d-%d" % arguments.shard), "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RunError("another run is using %s; --work takes another folder" % arguments.work)
        return run_all(arguments)


if __name__ == "__main__":
    try:
        with signals_end_the_run():
            sys.exit(main())
    except (RunError, plans.PlanError) as error:
        print("accuracy: %s" % error, file=sys.stderr)
        sys.exit(2)
    except Interrupted as signal_seen:
        print("accuracy: interrupted; cases that are done are kept", file=sys.stderr)
        sys.exit(128 + signal_seen.signal_number)
