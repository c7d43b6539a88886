#!/usr/bin/env python3
"""Recorded cases of slowness, and of healthy jobs: what the service received in runs of benchmarks/accuracy, and how the rules of today judge it.

    slow_cases.py check            replay all: wrong must be those of cases/known_wrong.txt, and no others
    slow_cases.py list [REGEX]     what is said of each
    slow_cases.py accept           write cases/known_wrong.txt anew; look at the difference before committing it
    slow_cases.py add FOLDER --seed N [--only REGEX]    take recordings from the work folder of an accuracy run with that seed

Exit status: 0 fine, 1 a case is wrong that was right or the other way round, 2 cannot run.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import re
import subprocess
import sys
from collections import namedtuple

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(ROOT, "benchmarks", "accuracy"), os.path.join(ROOT, "test", "support")]

import run_case  # noqa: E402
import scoring  # noqa: E402
import table  # noqa: E402
from faults.plan import PlanError, read_json  # noqa: E402
from run.build import Build  # noqa: E402
from run.errors import RunError  # noqa: E402

FOLDER = os.path.join(HERE, "cases")
INDEX = os.path.join(FOLDER, "cases.json")
KNOWN_WRONG = os.path.join(FOLDER, "known_wrong.txt")
KNOWN_WRONG_HEAD = "# Cases of which the rules do not say the truth, one a line. `slow_cases.py accept` writes this file.\n"
PARTS = ("chosen", "judged")

# `part`: rules and settings are chosen with one half and judged with the other. `watch`: when the fault was planted, until when it counted, and
# the rank of each process; None: no fault.
Case = namedtuple("Case", "id part suite fault_class variant algorithm protocol ranks plan watch")


def part_of(case_id):
    """Depends on the name alone, so that nobody chooses which half a case comes into."""
    return PARTS[hashlib.sha256(case_id.encode()).digest()[0] % 2]


def recording_of(case):
    return os.path.join(FOLDER, case.id.replace("/", "-") + ".ccldrec")


def read_index(only=None):
    """{id: case}, in the order of the file."""
    cases = [Case(**entry) for entry in read_json(INDEX)] if os.path.exists(INDEX) else []
    return {case.id: case for case in cases if only is None or re.search(only, case.id)}


def write_index(cases):
    with open(INDEX, "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(case._asdict()) for case in cases) + "\n]\n")


def known_wrong():
    if not os.path.exists(KNOWN_WRONG):
        return set()
    with open(KNOWN_WRONG) as file:
        return {line.strip() for line in file if line.strip() and not line.startswith("#")}


def judge(build, case, changes=None):
    """The score (scoring.py) of the case by the default rules with the recorded settings; `changes`: {setting: text} in their place."""
    return run_case.judge(case, run_case.replay(build, recording_of(case), changes or {}, "default"), case.watch)


def judge_all(build, cases, jobs):
    """{id: score}."""
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        return dict(zip((case.id for case in cases), pool.map(lambda case: judge(build, case), cases)))


def wrong_ids(scores):
    return {case_id for case_id, score in scores.items() if not scoring.is_right(score)}


def line(case, score):
    if case.watch is None:
        return "%s: %s, said: %s" % (case.id, "right" if scoring.is_right(score) else "WRONG", score["said"])
    expect = case.plan["expect"]
    right = "right" if scoring.is_right(score) else "WRONG (%s)" % ", ".join(table.wrong_aspects(score))
    return "%s: %s, planted %s ranks %s links %s, said: %s" % (
        case.id, right, expect["class"], expect.get("ranks", []), expect.get("links", []), score["said"])


def summary(cases, scores):
    """One line for each half and each class."""
    rows = [("part", "cases", "right", "class right", "rank right", "component right", "right by class")]
    for part in PARTS:
        members = [case for case in cases if case.part == part]
        faulty = [case for case in members if case.watch is not None]
        by_class = []
        for name in sorted({case.fault_class or "healthy" for case in members}):
            of_class = [case for case in members if (case.fault_class or "healthy") == name]
            by_class.append("%s %d of %d" % (name, sum(scoring.is_right(scores[case.id]) for case in of_class), len(of_class)))
        rows.append((part, str(len(members)), str(sum(scoring.is_right(scores[case.id]) for case in members))) +
                    tuple("%d of %d" % (sum(scores[case.id][aspect] for case in faulty), len(faulty)) for aspect in scoring.ASPECTS) +
                    (", ".join(by_class),))
    return table.aligned(rows)


def differences(cases, scores, known):
    """Lines that say what has changed since the list of wrong cases was written; empty: nothing."""
    wrong, lines = wrong_ids(scores), []
    for case in cases:
        if case.id in wrong - known:
            lines.append("became wrong: " + line(case, scores[case.id]))
        elif case.id in known - wrong:
            lines.append("became right: remove the line \"%s\" from %s" % (case.id, os.path.relpath(KNOWN_WRONG, ROOT)))
    unknown = known - {case.id for case in cases}
    return lines + ["there is no such case: remove the line \"%s\" from %s" % (case_id, os.path.relpath(KNOWN_WRONG, ROOT)) for case_id in sorted(unknown)]


def check(build, jobs):
    cases = list(read_index().values())
    scores = judge_all(build, cases, jobs)
    print(summary(cases, scores))
    lines = differences(cases, scores, known_wrong())
    print("\n".join(lines) if lines else "the %d wrong ones are the known ones" % len(wrong_ids(scores)))
    return 1 if lines else 0


def show(build, jobs, only):
    cases = list(read_index(only).values())
    scores = judge_all(build, cases, jobs)
    for case in cases:
        print(line(case, scores[case.id]))
    print(summary(cases, scores))
    return 0


def accept(build, jobs):
    cases = list(read_index().values())
    wrong = wrong_ids(judge_all(build, cases, jobs))
    before = known_wrong()
    for case_id in sorted(wrong ^ before):
        print("%s: %s" % (case_id, "became wrong" if case_id in wrong else "became right"))
    with open(KNOWN_WRONG, "w") as file:
        file.write(KNOWN_WRONG_HEAD + "".join(case.id + "\n" for case in cases if case.id in wrong))
    print("%d of %d cases are wrong" % (len(wrong), len(cases)))
    return 0


def names_of_this_machine():
    """What must not be in a recording that everybody gets: where things lie here."""
    top = ROOT.split(os.sep)[1]
    return [os.sep + top + os.sep, os.path.expanduser("~") + os.sep, "/tmp/"]


def zstd(data, *options):
    done = subprocess.run(["zstd", "-cq"] + list(options), input=data, capture_output=True)
    if done.returncode != 0:
        raise RunError("zstd: %s" % done.stderr.decode().strip())
    return done.stdout


def packed(recording):
    """(bytes of the same recording, block by block, with better compression; its content). The format: decision/recording/format.h."""
    out, content, offset = recording[:16], b"", 16
    while offset + 12 <= len(recording):
        size = int.from_bytes(recording[offset + 4:offset + 8], "little")
        block = zstd(recording[offset + 12:offset + 12 + size], "-d")
        frame = zstd(block, "-19", "--check", "--stream-size=%d" % len(block))  # with content size and checksum, as readers want it
        out += recording[offset:offset + 4] + len(frame).to_bytes(4, "little") + (len(frame) ^ 0xffffffff).to_bytes(4, "little") + frame
        content += block
        offset += 12 + size
    return out, content


def take(build, source, case):
    """Puts the case's recording into the repository; returns its size. Raises RunError if it should not be there."""
    with open(source, "rb") as file:
        recording, content = packed(file.read())
    found = [text for text in names_of_this_machine() if text.encode() in content or text in json.dumps(case._asdict())]
    if found:
        raise RunError("%s names places of this machine: %s" % (case.id, ", ".join(found)))
    with open(recording_of(case), "wb") as file:
        file.write(recording)
    if judge(build, case) != run_case.judge(case, run_case.replay(build, source, {}, "default"), case.watch):
        raise RunError("%s: the packed recording is judged in another way" % case.id)
    return len(recording)


def add(build, jobs, source, seed, only):
    """Cases that are there already are left alone: recordings never change in the repository."""
    cases, new = read_index(), {}
    os.makedirs(FOLDER, exist_ok=True)
    for name in sorted(os.listdir(os.path.join(source, "recorded"))):
        folder = os.path.join(source, "recorded", name)
        row = read_json(os.path.join(folder, "row.json"))
        case_id = "%s@%d" % (row["id"], seed)
        if case_id in cases or (only and not re.search(only, case_id)):
            continue
        watch = None if row["suite"] == "benign" else read_json(os.path.join(folder, run_case.WATCH))
        new[os.path.join(folder, run_case.RECORDING)] = Case(
            case_id, part_of(case_id), row["suite"], row["fault_class"], row["variant"], row["algorithm"], row["protocol"], row["ranks"], row["plan"], watch)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        size = sum(pool.map(lambda item: take(build, *item), new.items()))
    cases = list(cases.values()) + list(new.values())
    write_index(sorted(cases))
    print("%d cases added, %.1f MiB; %d cases in all" % (len(new), size / (1 << 20), len(cases)))
    return 0


def main():
    parser = argparse.ArgumentParser(prog="slow_cases.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "dev"), metavar="FOLDER", help="build tree (build/dev)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N", help="replays at a time (one for each processor)")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("check", help="what ctest does")
    commands.add_parser("accept", help="write the list of wrong cases anew")
    of_list = commands.add_parser("list", help="what is said of each case")
    of_list.add_argument("only", nargs="?", metavar="REGEX", help="only cases with such a name")
    of_add = commands.add_parser("add", help="take recordings from the work folder of an accuracy run")
    of_add.add_argument("source", metavar="FOLDER")
    of_add.add_argument("--seed", type=int, required=True, help="that the accuracy run had")
    of_add.add_argument("--only", metavar="REGEX", help="only cases with such a name")
    arguments = parser.parse_args()
    build = Build(arguments.build)
    if not os.path.exists(build.service):
        raise RunError("%s is missing: build it first with 'make build'" % build.service)
    if arguments.command == "add":
        return add(build, arguments.jobs, arguments.source, arguments.seed, arguments.only)
    if arguments.command == "list":
        return show(build, arguments.jobs, arguments.only)
    return (check if arguments.command == "check" else accept)(build, arguments.jobs)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (RunError, PlanError, OSError) as error:
        print("slow_cases.py: %s" % error, file=sys.stderr)
        sys.exit(2)
