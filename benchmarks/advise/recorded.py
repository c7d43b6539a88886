#!/usr/bin/env python3
"""What the model of delays promises for recorded slow jobs, beside what their iterations took before the fault.

Usage: benchmarks/advise/recorded.py [--build build/dev] [--out FILE] [--only REGEX]

Replays the recordings of test/golden/cases and takes the newest confirmed revision of each slow incident whose iterations had been
measured while they were healthy: became at least 1.5 times as long since. `ratio` is what an iteration would take without the
cause, by the model, to what it took before: 1 is right, more promises too little.
"""
import argparse
import concurrent.futures
import glob
import json
import os
import re
import subprocess
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", ".."))
LONGER_MIN = 1.5


def verdicts_of(ccld, path):
    done = subprocess.run([ccld, "replay", path, "--verdicts", "-"], capture_output=True, text=True, timeout=300)
    if done.returncode != 0:
        sys.exit("recorded.py: %s: %s" % (os.path.basename(path), done.stderr.strip()))
    return [json.loads(line) for line in done.stdout.splitlines()]


def newest_confirmed(verdicts):
    newest = {v["incident"]: v for v in verdicts if v["kind"] == "SLOW" and v["state"] == "confirmed"}
    return list(newest.values())


def row_of(case, verdict):
    """None: nobody knows what a healthy iteration of it takes."""
    gain, usual = verdict["gain"], verdict["stage"]["iteration_usual_ms"]
    if gain is None or gain["of"] != "iteration" or not usual or gain["now_ms"] < LONGER_MIN * usual:
        return None
    return {"case": case, "class": verdict["class"], "now_ms": gain["now_ms"], "before_ms": usual, "without_ms": gain["without_ms"],
            "ratio": round(gain["without_ms"] / usual, 2)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "dev"), metavar="FOLDER")
    parser.add_argument("--out", default=os.path.join(ROOT, "benchmarks", "results", "advise.json"), metavar="FILE")
    parser.add_argument("--only", default="", metavar="REGEX", help="only cases whose names match")
    arguments = parser.parse_args()
    ccld = os.path.join(arguments.build, "bin", "ccld")
    if not os.access(ccld, os.X_OK):
        parser.error("--build: there is no %s" % ccld)
    try:
        only = re.compile(arguments.only)
    except re.error as error:
        parser.error("--only: %s" % error)
    paths = [p for p in sorted(glob.glob(os.path.join(ROOT, "test", "golden", "cases", "*.ccldrec"))) if only.search(os.path.basename(p))]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda p: newest_confirmed(verdicts_of(ccld, p)), paths))
    rows = [row_of(os.path.basename(p)[: -len(".ccldrec")], v) for p, verdicts in zip(paths, found) for v in verdicts]
    known = sorted((r for r in rows if r), key=lambda r: r["ratio"])
    document = {"recordings": len(paths), "slow_incidents": len(rows), "healthy_time_known": len(known), "cases": known}
    os.makedirs(os.path.dirname(os.path.abspath(arguments.out)), exist_ok=True)
    with open(arguments.out, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1)
        file.write("\n")
    for r in known:
        print("%-60s now %7.1f  before %7.1f  without %7.1f  ratio %.2f" % (r["case"], r["now_ms"], r["before_ms"], r["without_ms"], r["ratio"]))
    print("%d of %d slow incidents of %d recordings" % (len(known), len(rows), len(paths)))


if __name__ == "__main__":
    main()
