#!/usr/bin/env python3
"""Runs one fault plan and says whether the verdict is right; for the integration tests and for working by hand.

Exit status: 0 right (or healthy and silent), 1 not, 2 cannot run, 77 needs root and there is none, 128 + n ended by signal n.
"""
import argparse
import json
import os
import sys
import tempfile

sys.dont_write_bytecode = True
SUPPORT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
sys.path.insert(0, SUPPORT)

from faults import plan as plans  # noqa: E402
from run import network  # noqa: E402
from run.build import Build  # noqa: E402
from run.errors import Interrupted, RunError  # noqa: E402
from run.job import signals_end_the_run  # noqa: E402
from run.outcome import run_fault, run_healthy  # noqa: E402
from run.verdicts import describe  # noqa: E402


def show(text):
    print(text, flush=True)


def run_one(build, plan, folder):
    if plan.faults:
        outcome = run_fault(build, plan, folder, show)
        show(json.dumps(outcome.report(), indent=2))
        show("right" if outcome.right else "wrong: %s (logs in %s)" % (outcome.why_wrong, folder))
        return 0 if outcome.right else 1
    healthy = run_healthy(build, plan, folder, show)
    for alarm in healthy.alarms:
        show("false alarm: %s" % describe(alarm))
    show("%(rounds)d rounds in %(seconds).1f s, %(false_alarms)d false alarms" % healthy.report())
    if healthy.wrong_results:
        show("%d wrong results (logs in %s)" % (healthy.wrong_results, folder))
    return 1 if healthy.alarms or healthy.wrong_results else 0


def main():
    parser = argparse.ArgumentParser(prog="run_plan", description=__doc__.split("\n\n")[0])
    parser.add_argument("plan", help="the plan, a JSON file (test/support/faults/README.md)")
    parser.add_argument("--build", default="build/dev", metavar="FOLDER", help="build tree (build/dev)")
    parser.add_argument("--out", metavar="FOLDER", help="where logs and verdicts go; emptied first (default: a new folder in /tmp)")
    parser.add_argument("--default-thresholds", action="store_true", help="run the service with its own thresholds, not those of plans/thresholds.json")
    arguments = parser.parse_args()
    thresholds = {} if arguments.default_thresholds else plans.read_json(os.path.join(SUPPORT, "faults", "plans", "thresholds.json"))
    plan = plans.load(arguments.plan, thresholds)
    reason = network.why_not() if plan.namespaces else None
    if reason:
        print("run_plan: %s: %s" % (plan.name, reason), file=sys.stderr)
        return 77
    return run_one(Build(arguments.build).check(), plan, os.path.abspath(arguments.out or tempfile.mkdtemp(prefix="ccld-logs-")))


if __name__ == "__main__":
    try:
        with signals_end_the_run():
            sys.exit(main())
    except (RunError, plans.PlanError) as error:
        print("run_plan: %s" % error, file=sys.stderr)
        sys.exit(2)
    except Interrupted as signal_seen:
        print("run_plan: interrupted; everything it started has been removed", file=sys.stderr)
        sys.exit(128 + signal_seen.signal_number)
