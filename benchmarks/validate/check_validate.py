#!/usr/bin/env python3
"""Plants slow GPUs, paths and network devices, and asks `ccld-validate` on the CPU device: is each named, are healthy machines cleared, and
does the number of passes stay the same from 2 to 16 ranks?

Exit status: 0 all is right, 1 it is not (a line for each), 2 cannot run, 77 needs root and there is none, 128 + n ended by signal n.
"""
import argparse
import datetime
import json
import os
import platform
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(ROOT, "benchmarks"), HERE, os.path.join(ROOT, "test", "support")]

import planted  # noqa: E402
from fabric import Fabric  # noqa: E402
from measured import commit  # noqa: E402
from run.build import Build  # noqa: E402
from run.errors import Interrupted, RunError  # noqa: E402
from run.job import signals_end_the_run  # noqa: E402
from run.network import why_not  # noqa: E402
from validation import Validation  # noqa: E402

QUICK_CASES = 1
ATTEMPTS = 3  # where the machine is too busy to tell, the test is repeated, as its user would
PASS_SHAPES = ((2, 1), (3, 1), (4, 1), (2, 2), (2, 4), (4, 2), (2, 8), (4, 4))  # hosts, GPUs of each


def validate(build, case, rate_mbit=None):
    """(exit status, document, lines on standard error). `rate_mbit`: of the slow connection; None: there is none."""
    with tempfile.TemporaryDirectory(prefix="ccld-fabric-") as logs, Fabric(case.hosts, logs) as fabric:
        if rate_mbit is not None:
            case.plant(fabric, "%dkbit" % (1000 * rate_mbit))
        with Validation(build, fabric, case.gpus, case.slow_gpus) as validation:
            return validation.result()


def run(build, case):
    """The row of a case."""
    begun = time.monotonic()
    fault, rate_mbit = case.fault, None
    if case.rate_mbit is not None:
        _, before, errors = validate(build, case)
        if before is None or before["failure"]:
            raise RunError("%s cannot be measured before anything is planted: %s" % (case.id, "; ".join(errors[-3:])))
        rate_mbit = planted.rate_to_plant_mbit(case, before)
        fault += " at %.1f Mbit/s" % rate_mbit
    for attempt in range(1, ATTEMPTS + 1):
        status, document, errors = validate(build, case, rate_mbit)
        if document is None or document["failure"] or document["verdict"] != "not_measured":
            break
    why = planted.why_wrong(case, status, document)
    row = {"id": case.id, "hosts": case.hosts, "ranks": case.hosts * case.gpus, "planted": fault, "attempts": attempt, "right": why is None,
           "seconds": round(time.monotonic() - begun, 1)}
    if document is not None:
        row["passes"] = document["passes"]
        row["runs"] = max([line["runs"] for line in document["rows"]] or [0])
    if why is not None:
        row["why_wrong"] = why
        row["errors"] = errors[-3:]
    return row


def passes(build):
    """How many passes healthy machines of these shapes need."""
    rows = []
    for hosts, gpus in PASS_SHAPES:
        row = run(build, planted.healthy("passes/%dx%d" % (hosts, gpus), hosts, gpus))
        rows.append({"hosts": hosts, "ranks": row["ranks"], "passes": row.get("passes", {}).get("ring_and_tree"), "seconds": row["seconds"]})
        print("%2d ranks on %d hosts: %s passes" % (row["ranks"], hosts, rows[-1]["passes"]), flush=True)
    return rows


def check(build, arguments):
    """Kinds take turns, so that all have equally many when the time is over."""
    rows, end = [], time.monotonic() + 60 * arguments.minutes
    for number in range(arguments.cases):
        if time.monotonic() > end:
            break
        for kind in planted.KINDS:
            row = run(build, planted.draw(kind, number, arguments.seed))
            rows.append(dict(row, kind=kind))
            print("%-12s %2d ranks  %-46s %5.1f s  %s" % (row["id"], row["ranks"], row["planted"], row["seconds"],
                                                         "right" if row["right"] else "WRONG: " + row["why_wrong"]), flush=True)
    summary = {kind: {"cases": sum(row["kind"] == kind for row in rows), "right": sum(row["kind"] == kind and row["right"] for row in rows)}
               for kind in planted.KINDS}
    return rows, summary


def main():
    parser = argparse.ArgumentParser(prog="check_validate.py", description=__doc__.split("\n")[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "dev"), metavar="FOLDER", help="the build tree")
    parser.add_argument("--cases", type=int, default=40, metavar="N", help="of each kind (40)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="equal seeds draw equal cases (1)")
    parser.add_argument("--minutes", type=float, default=60, metavar="N", help="no case begins after so many (60)")
    parser.add_argument("--quick", action="store_true", help="one case of each kind, and no passes")
    parser.add_argument("--out", metavar="FILE", help="write the numbers to this JSON file")
    arguments = parser.parse_args()
    if why_not():
        print("check_validate.py: %s" % why_not(), file=sys.stderr)
        return 77
    if arguments.quick:
        arguments.cases = QUICK_CASES
    begun = time.monotonic()
    try:
        build = Build(arguments.build)
        if not os.access(os.path.join(build.folder, "bin", "ccld-validate"), os.X_OK):
            raise RunError("%s/bin/ccld-validate is missing: build it with make build" % build.folder)
        with signals_end_the_run():
            counted = [] if arguments.quick else passes(build)
            rows, summary = check(build, arguments)
    except RunError as error:
        print("check_validate.py: %s" % error, file=sys.stderr)
        return 2
    except Interrupted as signal:
        return 128 + signal.number
    for kind, counts in summary.items():
        print("%-8s %d of %d right" % (kind, counts["right"], counts["cases"]))
    if arguments.out:
        document = {"seed": arguments.seed, "load": os.getloadavg()[0], "commit": commit(), "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                    "machine": {"cores": len(os.sched_getaffinity(0)), "kernel": platform.release()}, "seconds": round(time.monotonic() - begun, 1),
                    "summary": summary, "passes": counted, "cases": rows}
        with open(arguments.out, "w") as file:
            json.dump(document, file, indent=1, sort_keys=True)
            file.write("\n")
    return 0 if all(row["right"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
