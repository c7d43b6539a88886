#!/usr/bin/env python3
"""Chaos from a seed: a job of real NCCL on the CPU device, a decision service, and what happens to both.

Judged are the results of training, the verdict, what is left behind, and the speed of the job. Equal seeds draw equal plans.
Exit status: 0 all is well, 1 it is not (a line says why), 2 cannot run, 77 needs root and there is none, 128 + n ended by signal n.
"""
import argparse
import datetime
import json
import os
import platform
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(ROOT, "benchmarks"), HERE, os.path.join(ROOT, "benchmarks", "accuracy"), os.path.join(ROOT, "test", "support")]

import drawing  # noqa: E402
import judging  # noqa: E402
import place  # noqa: E402
from chaos_run import ChaosRun  # noqa: E402
from faults.plan import PlanError, read_json  # noqa: E402
from measured import commit  # noqa: E402
from run.build import Build  # noqa: E402
from run.errors import Interrupted, RunError  # noqa: E402
from run.job import signals_end_the_run  # noqa: E402

SETTINGS = os.path.join(HERE, "settings.json")
QUICK_SEEDS = 2


def show(text):
    print(text, flush=True)


def one(build, seed, arguments, settings):
    """The row of a seed. What ends a run early is a complaint like any other."""
    document = drawing.draw(seed, arguments.quick)
    folder = os.path.join(arguments.work, "seed-%d" % seed)
    progress = (lambda text: show("  " + text)) if arguments.verbose else (lambda text: None)
    row = {"seed": seed, "commit": arguments.commit, "drawn": drawing.describe(document), "planted": document["fault"] and document["fault"]["class"]}
    try:
        row.update(ChaosRun(build, document, folder, settings, progress).run())
    except RunError as error:
        row.update(right=False, complaints=["it could not go on: %s" % error])
    return row


def line(row):
    text = "right" if row["right"] else "WRONG: %s" % "; ".join(row["complaints"])
    more = ["%.0f s" % row["seconds"]] if "seconds" in row else []
    if row.get("found_s") is not None:
        more.append("found after %.1f s" % row["found_s"])
    if row.get("speed_ratio") is not None:
        more.append("speed %.2f" % row["speed_ratio"])
    return "%4d  %s: %s%s" % (row["seed"], row["drawn"], text, " (%s)" % ", ".join(more) if more else "")


def median(values):
    values = sorted(values)
    return values[len(values) // 2] if values else None


def summary(rows):
    def of(name):
        return [row[name] for row in rows if row.get(name) is not None]
    revisions = [row["revisions"] for row in rows if "revisions" in row]
    speeds = sorted(of("speed_ratio"))
    found = {name: [row["found_s"] for row in rows if row.get("found_s") is not None and (row["planted"] or "").startswith(name)] for name in "HS"}
    return {
        "seeds": len(rows), "right": sum(row["right"] for row in rows), "planted": len(of("planted")), "rounds": sum(of("rounds")),
        "checked_results": sum(of("checked_results")), "starts_of_the_service": sum(of("starts")),
        "revisions": {name: sum(each[name] for each in revisions) for name in ("reported", "stored", "lost", "doubled", "differing")},
        "found_s": {{"H": "hangs", "S": "slowness"}[name]: {"median": median(each), "most": max(each, default=None)} for name, each in found.items()},
        "speed_ratio": {"median": median(speeds), "least": speeds[0] if speeds else None,
                        "quartiles": [speeds[len(speeds) // 4], speeds[len(speeds) * 3 // 4]] if speeds else None},
        "speed_ratio_by_event": by_event(rows),
        "left_behind": sum(len(each) for each in of("left_behind")),
    }


def by_event(rows):
    """Median over the runs of the speed while this happened to the speed in calm."""
    ratios = {}
    for row in rows:
        if row.get("speed_ratio") is None:
            continue
        for window in row["windows"]:
            if window["what"] != "calm" and window["seconds"] >= 1:
                ratios.setdefault(window["what"], []).append(window["rounds"] / window["seconds"] / row["rounds_a_second"])
    return {name: {"windows": len(each), "median": round(median(each), 3)} for name, each in sorted(ratios.items())}


def known(path):
    """Rows that the file has already, by seed."""
    try:
        with open(path) as file:
            return {row["seed"]: row for row in json.load(file)["rows"]}
    except (OSError, ValueError, KeyError):
        return {}


def write(path, rows, arguments, settings):
    rows = [row for _, row in sorted({**known(path), **{row["seed"]: row for row in rows}}.items())]
    document = {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "machine": {"cores": len(os.sched_getaffinity(0)), "kernel": platform.release()}, "settings": settings, "limits": judging.LIMITS,
                "quick": arguments.quick, "summary": summary(rows), "rows": rows}
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path + ".part", "w") as file:
        json.dump(document, file, indent=1, sort_keys=True)
        file.write("\n")
    os.rename(path + ".part", path)


def positive(text):
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError("must be a whole number from 1 on, not '%s'" % text)
    return int(text)


class Parser(argparse.ArgumentParser):
    def error(self, message):
        print("chaos: %s" % message, file=sys.stderr)
        sys.exit(2)


def main():
    parser = Parser(prog="chaos", description=__doc__.split("\n\n")[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "dev"), metavar="FOLDER", help="build tree (build/dev)")
    parser.add_argument("--seeds", type=positive, default=10, metavar="N", help="how many runs (10)")
    parser.add_argument("--first-seed", type=positive, default=1, metavar="M", help="the first one's seed (1)")
    parser.add_argument("--seed", type=positive, metavar="S", help="this one alone, with what happens as it happens")
    parser.add_argument("--quick", action="store_true", help="%d small jobs and one event each, in less than a minute" % QUICK_SEEDS)
    parser.add_argument("--plan", action="store_true", help="show what is drawn as JSON, and end")
    parser.add_argument("--work", default=os.path.join(ROOT, "build", "chaos"), metavar="FOLDER", help="logs and verdicts of each run (build/chaos)")
    parser.add_argument("--out", metavar="FILE", help="write the rows to this JSON file; those of other seeds that it has stay")
    arguments = parser.parse_args()
    arguments.work = os.path.abspath(arguments.work)
    arguments.verbose = arguments.seed is not None
    seeds = [arguments.seed] if arguments.seed else list(range(arguments.first_seed, arguments.first_seed + (QUICK_SEEDS if arguments.quick else arguments.seeds)))
    if arguments.plan:
        for seed in seeds:
            show(json.dumps(drawing.draw(seed, arguments.quick), indent=1))
        return 0
    if place.why_not():
        print("chaos: %s" % place.why_not(), file=sys.stderr)
        return 77
    build, settings = Build(arguments.build).check(), read_json(SETTINGS)
    arguments.commit = commit()
    rows = []
    for seed in seeds:
        rows.append(one(build, seed, arguments, settings))
        show(line(rows[-1]))
        if arguments.out:
            write(arguments.out, rows, arguments, settings)
    wrong = [row["seed"] for row in rows if not row["right"]]
    show("%d of %d right%s" % (len(rows) - len(wrong), len(rows), "; again: make chaos SEED=%d" % wrong[0] if wrong else ""))
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        with signals_end_the_run():
            sys.exit(main())
    except (RunError, PlanError) as error:
        print("chaos: %s" % error, file=sys.stderr)
        sys.exit(2)
    except Interrupted as signal_seen:
        print("chaos: interrupted; everything it started has been removed", file=sys.stderr)
        sys.exit(128 + signal_seen.signal_number)
