#!/usr/bin/env python3
"""Tests the hardware of running jobs again and again (`ccld validate --in-job`): is every result right, does training go on with right values
whatever happens in the middle, and for how long does a job hold?

Jobs, communicators, slow GPUs and disturbances are drawn from a seed. A disturbance is that who asked for the test is killed, or that a
rank is stopped for a while; then only the job is judged.

Exit status: 0 all is right, 1 it is not (a line for each), 2 cannot run, 128 + n ended by signal n.
"""
import argparse
import datetime
import json
import os
import platform
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(ROOT, "benchmarks"), os.path.join(ROOT, "test", "support")]

from faults import inject  # noqa: E402
from faults.plan import Plan  # noqa: E402
from measured import commit  # noqa: E402
from run.build import Build  # noqa: E402
from run.errors import Interrupted, RunError  # noqa: E402
from run.job import Job, signals_end_the_run  # noqa: E402
from run.processes import Child, wait_for  # noqa: E402

TESTS_OF_A_JOB = 10
# Ranks, and the traffic: one communicator, or those of a layout.
SHAPES = (
    (2, {"operation": "allreduce", "bytes_min": "256K", "compute_ms": 5}),
    (4, {"operation": "mix", "bytes_min": "64K", "compute_ms": 5}),
    (4, {"tp": 2, "dp": 2, "bytes_min": "64K", "compute_ms": 2}),
    (8, {"tp": 2, "pp": 2, "dp": 2, "bytes_min": "64K", "compute_ms": 2}),
)
CLOCK_FACTORS = (10.0, 15.0, 20.0)
# Of a test; mostly nothing happens.
DISTURBANCES = ("nothing", "nothing", "nothing", "nothing", "killed", "stopped")
GOES_ON_ROUNDS, GOES_ON_S = 5, 60.0


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Tests:
    """The tests of one job."""

    def __init__(self, job, build, rng, slow_rank, hold_s):
        self.job, self.build, self.rng, self.slow_rank, self.hold_s = job, build, rng, slow_rank, hold_s
        self.stopped = set()  # processes

    def communicators(self):
        done = subprocess.run([self.build.service, "status", "--http", self.job.service.http, "--json"], capture_output=True, text=True, check=True)
        return json.loads(done.stdout)["communicators"]

    def with_collectives(self):
        """Those of at least two ranks, once the service has heard of them; a pipeline's have Send and Recv only."""
        found = []

        def heard():
            found[:] = [row for row in self.communicators() if row["rank_count"] > 1 and not (row["comm_name"] or "").startswith("pp")]
            return found
        wait_for(heard, 30)
        return found

    def goes_on(self):
        before = self.job.board.slots()
        return wait_for(lambda: all(now.completed_round >= was.completed_round + GOES_ON_ROUNDS
                                    for now, was in zip(self.job.board.slots(), before)), GOES_ON_S)

    def run(self, row, number):
        """One test of a communicator that has collectives."""
        disturbance = self.rng.choice(DISTURBANCES)
        child = Child("validate", [self.build.service, "validate", "--in-job", "--http", self.job.service.http, "--communicator", row["communicator"],
                                   "--meet", "127.0.0.1:%d" % free_port(), "--hold-s", str(self.hold_s), "--json"],
                      os.path.join(self.job.folder, "validate-%d" % number))
        victim = self.rng.randrange(row["rank_count"])
        if disturbance != "nothing":
            time.sleep(self.rng.uniform(0.1, 2.5))  # anywhere between the question and the end
        if disturbance == "killed":
            child.signal(signal.SIGKILL)
        elif disturbance == "stopped":
            process = self.job.children[victim]
            self.stopped.add(process.pid)
            process.signal(signal.SIGSTOP)
            time.sleep(self.rng.uniform(0.2, 2.0))
            process.signal(signal.SIGCONT)
        status = child.wait(120)
        result = {"communicator": row["comm_name"] or "world", "ranks": row["rank_count"], "disturbance": disturbance, "status": status}
        with open(child.log_path, encoding="utf-8") as file:
            said = file.read()
        result["goes_on"] = bool(self.goes_on())
        result["wrong_results"] = sum(slot.wrong_results for slot in self.job.board.slots())
        if disturbance == "nothing":
            document = json.loads(said) if said.startswith("{") else None
            result["right"], result["said"] = self.judged(document, said)
            result["finished"] = bool(document) and not document["failure"]
            result["held_s"] = round(document["held_s"], 2) if document and document["held_s"] else None
        return result

    def judged(self, document, said):
        """(right, what was said)."""
        if document is None:
            return False, said.strip()
        named = sorted({(c["component"], c["pid"], c["rank"]) for i in document["incidents"] for c in i["culprits"]})
        truth = self.job.board.slot(self.slow_rank).pid if self.slow_rank is not None else None
        there = truth in [m["pid"] for m in document["members"]]
        right = [(component, pid) for component, pid, _ in named] == ([("gpu", truth)] if there else [])
        # A slow GPU may use up the time before all links are tested.
        if not there:
            right = right and document["verdict"] == "healthy"
        return right, "%s; %s" % (document["failure"] or document["verdict"], named)


def run_job(build, number, seed, tests, hold_s):
    rng = random.Random("%d in job %d" % (seed, number))
    ranks, traffic = rng.choice(SHAPES)
    slow_rank = rng.randrange(ranks) if rng.random() < 0.5 else None
    document = {"name": "in_job", "title": "in_job", "ranks": ranks, "workload": dict(traffic, check=1, seconds=3600, seed=rng.randrange(1, 1000)),
                "environment": {"NCCL_PROBE_VALIDATE": "1"}}
    if slow_rank is not None:
        document["faults"] = [{"kind": "slow_clock", "rank": slow_rank, "factor": rng.choice(CLOCK_FACTORS), "after_round": 10}]
        document["expect"] = {"class": "S1", "ranks": [slow_rank]}
    rows = []
    with tempfile.TemporaryDirectory(prefix="ccld-in-job-") as folder, Job(build, Plan(document, "in_job"), os.path.join(folder, "job")) as job:
        job.wait_ready()
        if slow_rank is not None:
            inject.plant(job.plan, job)
        of = Tests(job, build, rng, slow_rank, hold_s)
        held = of.with_collectives()
        for test in range(tests):
            row = of.run(rng.choice(held), test)
            rows.append(dict(row, job=number, shape=traffic, slow_rank=slow_rank))
            print("job %2d  %-6s %d ranks  %-8s  %s" % (number, row["communicator"], row["ranks"], row["disturbance"], why_wrong(row) or
                                                      "right%s" % (", held %.1f s" % row["held_s"] if row.get("held_s") else "")), flush=True)
        job.service.verdicts.poll()
        # That a process is stopped is a fault, and told.
        hangs = [v["class"] for v in job.service.verdicts.incidents() if v["class"].startswith("H")
                 and not {culprit["pid"] for culprit in v["culprits"]} & of.stopped]
        longest_s = max(slot.longest_round_ns for slot in job.board.slots()) / 1e9
    print("job %2d  longest round %.1f s, other hangs told: %s" % (number, longest_s, ", ".join(hangs) or "none"), flush=True)
    return rows, {"job": number, "longest_round_s": round(longest_s, 2), "hangs": hangs}


def why_wrong(row):
    """None if the test is right, else one line."""
    if not row["goes_on"]:
        return "WRONG: the job does not get on"
    if row["wrong_results"]:
        return "WRONG: %d wrong results" % row["wrong_results"]
    return None if row.get("right", True) else "WRONG: %s" % row["said"]


def main():
    parser = argparse.ArgumentParser(prog="check_in_job.py", description=__doc__.split("\n")[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "dev"), metavar="FOLDER", help="the build tree")
    parser.add_argument("--tests", type=int, default=200, metavar="N", help="in all, %d of each job (200)" % TESTS_OF_A_JOB)
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="equal seeds draw equal tests (1)")
    parser.add_argument("--hold-s", type=float, default=5, metavar="SECONDS", help="no rank holds longer than that (5)")
    parser.add_argument("--out", metavar="FILE", help="write the numbers to this JSON file")
    arguments = parser.parse_args()
    begun, rows, jobs = time.monotonic(), [], []
    try:
        build = Build(arguments.build).check()
        with signals_end_the_run():
            for number in range((arguments.tests + TESTS_OF_A_JOB - 1) // TESTS_OF_A_JOB):
                tests = min(TESTS_OF_A_JOB, arguments.tests - len(rows))
                more, job = run_job(build, number, arguments.seed, tests, arguments.hold_s)
                rows += more
                jobs.append(job)
    except RunError as error:
        print("check_in_job.py: %s" % error, file=sys.stderr)
        return 2
    except Interrupted as interrupt:
        return 128 + interrupt.number
    wrong = [row for row in rows if why_wrong(row)] + [job for job in jobs if job["hangs"]]
    held = sorted(row["held_s"] for row in rows if row.get("held_s"))
    summary = {"tests": len(rows), "right": sum(why_wrong(row) is None for row in rows), "judged": sum("right" in row for row in rows),
               "finished": sum(bool(row.get("finished")) for row in rows), "longest_round_s": max(job["longest_round_s"] for job in jobs),
               "disturbed": sum(row["disturbance"] != "nothing" for row in rows), "held_s_middle": held[len(held) // 2] if held else None,
               "held_s_most": held[-1] if held else None, "jobs_with_a_hang_told": sum(bool(job["hangs"]) for job in jobs)}
    print(json.dumps(summary, indent=1))
    if arguments.out:
        document = {"seed": arguments.seed, "hold_s": arguments.hold_s, "load": os.getloadavg()[0], "commit": commit(),
                    "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                    "machine": {"cores": len(os.sched_getaffinity(0)), "kernel": platform.release()},
                    "seconds": round(time.monotonic() - begun, 1), "summary": summary, "jobs": jobs, "tests": rows}
        with open(arguments.out, "w", encoding="utf-8") as file:
            json.dump(document, file, indent=1, sort_keys=True)
            file.write("\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
