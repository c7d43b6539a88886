#!/usr/bin/env python3
"""Acts on what `ccld advise` says, and compares what it promised with what is measured then.

Usage: benchmarks/advise/acted.py [--build build/dev] [--out FILE] [--factors 2,3,...] [--check]

A job of real NCCL on the CPU device, data-parallel with four replicas; the clock of one GPU is divided by a factor while it runs. When the
incident is confirmed the job gets the micro-batches that the service advises. Iterations are timed before, with the fault and after.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "test", "support"))

from faults import inject  # noqa: E402
from faults import plan as plans  # noqa: E402
from run.build import Build  # noqa: E402
from run.errors import RunError  # noqa: E402
from run.job import signals_end_the_run  # noqa: E402
from run.mitigable import EACH, REPLICAS, MitigableJob, advised, confirmed, iteration_ms, plan_of, wait_round  # noqa: E402

HOOK = os.path.join(ROOT, "scripts", "deploy", "act", "hooks", "micro-batches")
FASTER_MIN = 1.2


def act(job, strategy):
    """As scripts/deploy/act does, but from a round on. The new numbers."""
    from_round = max(slot.entered_round for slot in job.board.slots()) + 3
    done = subprocess.run([HOOK], input=json.dumps({"action": strategy["action"], "strategy": strategy}), capture_output=True, text=True, timeout=30,
                          env={**os.environ, "CCLD_MICRO_BATCHES_FILE": job.micro_batch_file(), "CCLD_FROM_ROUND": str(from_round)})
    if done.returncode != 0:
        raise RunError("hook: %s" % done.stderr.strip())
    wait_round(job, from_round + 1)
    with open(job.micro_batch_file(), encoding="utf-8") as file:
        return json.load(file)["micro_batches"]


def run(build, factor, thresholds, folder):
    plan = plan_of(factor, thresholds, "acted.py")
    with MitigableJob(build, plan, folder) as job:
        job.wait_ready()
        wait_round(job, 10)
        before = iteration_ms(job)
        inject.plant(plan, job)
        incident = confirmed(job)
        slow = iteration_ms(job)
        strategy = advised(build, job, incident)
        row = {"factor": factor, "before_ms": round(before, 1), "slow_ms": round(slow, 1)}
        if not strategy["possible"]:
            return {**row, "why_not": strategy["why_not"]}
        counts = act(job, strategy)
        after = iteration_ms(job)
    return {**row, "micro_batches": counts, "expected_ms": strategy["expected_ms"], "low_ms": strategy["low_ms"], "high_ms": strategy["high_ms"],
            "after_ms": round(after, 1), "error": round(strategy["expected_ms"] / after - 1, 3),
            "within_interval": strategy["low_ms"] <= after <= strategy["high_ms"], "throughput_times": round(slow / after, 2)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "dev"), metavar="FOLDER")
    parser.add_argument("--out", default=os.path.join(ROOT, "benchmarks", "results", "advise-acted.json"), metavar="FILE")
    parser.add_argument("--check", action="store_true", help="exit status 1 unless acting made every job faster by a fifth")
    parser.add_argument("--factors", default="1.5,1.75,2,2.5,3,3.5,4,5,6,8", help="by which the clock is divided, one job each (1.5 to 8, ten of them)")
    arguments = parser.parse_args()
    try:
        factors = [float(f) for f in arguments.factors.split(",")]
    except ValueError:
        parser.error("--factors: '%s' is not a list of numbers" % arguments.factors)
    build = Build(arguments.build).check()
    thresholds = plans.read_json(os.path.join(ROOT, "test", "support", "faults", "plans", "thresholds.json"))
    rows = []
    with signals_end_the_run():
        for factor in factors:
            folder = tempfile.mkdtemp(prefix="ccld-logs-")
            rows.append(run(build, factor, thresholds, folder))
            shutil.rmtree(folder)  # logs of a run that failed stay
            print(json.dumps(rows[-1]), flush=True)
    os.makedirs(os.path.dirname(os.path.abspath(arguments.out)), exist_ok=True)
    with open(arguments.out, "w", encoding="utf-8") as file:
        json.dump({"replicas": REPLICAS, "micro_batches_each": EACH, "processors": os.cpu_count(), "cases": rows}, file, indent=1)
        file.write("\n")
    if arguments.check and any(row.get("throughput_times", 0) < FASTER_MIN for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    try:
        main()
    except RunError as error:
        sys.exit("acted.py: %s" % error)
