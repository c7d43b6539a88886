"""A data-parallel job of which one GPU becomes slow, and which reads how many micro-batches each replica takes from a file while it runs."""
import json
import os
import subprocess
import time

from faults import plan as plans
from run.errors import RunError
from run.job import Job
from run.processes import wait_for

REPLICAS, EACH, SLOW_RANK = 4, 16, 2
ROUNDS = 12  # of a measurement
TIMEOUT_S = 90.0


class MitigableJob(Job):
    def micro_batch_file(self):
        return os.path.join(self.folder, "micro-batches.json")

    def in_place(self, node, command):
        return super().in_place(node, command + ["--micro-batches-file", self.micro_batch_file()])


def plan_of(factor, thresholds, source, **settings):
    return plans.Plan({
        "name": "advise-%g" % factor, "title": "GPU clock of rank %d divided by %g" % (SLOW_RANK, factor), "ranks": REPLICAS,
        "workload": {"dp": REPLICAS, "micro_batches": EACH, "compute_ms": 2.0, "iterations": 100000, "check": 0},
        "settings": {"layout_tp": "1", "layout_pp": "1", "layout_dp": str(REPLICAS), "advise_micro_batches": str(REPLICAS * EACH),
                     "slow_window_s": "4", **settings},
        "faults": [{"kind": "slow_clock", "rank": SLOW_RANK, "factor": float(factor), "after_round": 30}],
        "expect": {"class": "S1", "ranks": [SLOW_RANK]}}, source, thresholds)


def completed(job):
    job.check_alive()
    return min(slot.completed_round for slot in job.board.slots())


def wait_round(job, number):
    if not wait_for(lambda: completed(job) >= number, TIMEOUT_S, 0.001):
        raise RunError("round %d does not end" % number)


def iteration_ms(job):
    begin = completed(job) + 1
    wait_round(job, begin)
    started = time.monotonic()
    wait_round(job, begin + ROUNDS)
    return (time.monotonic() - started) * 1e3 / ROUNDS


def confirmed(job):
    """The number of the incident, once it says what iterations take."""
    found = {}

    def sure():
        job.check_alive()
        for verdict in job.service.verdicts.poll() or job.service.verdicts.incidents():
            gain = verdict.get("gain") or {}
            if verdict["state"] == "confirmed" and verdict["kind"] == "SLOW" and gain.get("of") == "iteration":
                found["id"] = verdict["incident"]
        return bool(found)
    if not wait_for(sure, TIMEOUT_S, 0.05):
        raise RunError("no confirmed incident of iterations; see %s" % job.folder)
    return found["id"]


def of_service(build, job, command, incident):
    done = subprocess.run([build.service, command, str(incident), "--http", job.service.http, "--json"], capture_output=True, text=True, timeout=30)
    if done.returncode != 0:
        raise RunError("ccld %s: %s" % (command, done.stderr.strip()))
    return json.loads(done.stdout)


def advised(build, job, incident):
    """What the service says of micro-batches."""
    return next(s for s in of_service(build, job, "advise", incident)["strategies"] if s["action"] == "micro_batches")
