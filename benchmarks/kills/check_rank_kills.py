#!/usr/bin/env python3
"""Kills ranks of real jobs with SIGKILL, job after job under one service, then ends the others as a launcher does.

Each time the service must name the killed ranks, as processes, and nobody else: neither while the others wait or end by an error, nor while they are ended.
Only who ends within a moment of the kill may be named, too: nobody can tell which of them was first. In the end nothing may be left: no process, no open
incident, after `ccld frames --clean` no file in /dev/shm, and the service may not take more than at first.

Exit status: 0 all is well, 1 it is not (a line says why), 2 cannot run.
"""
import argparse
import datetime
import glob
import json
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "benchmarks"), os.path.join(ROOT, "test", "support")]

from faults.plan import Plan  # noqa: E402
from measured import commit  # noqa: E402
from run.build import Build  # noqa: E402
from run.errors import Interrupted, RunError  # noqa: E402
from run.job import Job, signals_end_the_run  # noqa: E402
from run.processes import NCCL_SEGMENTS, SharedMemory, resources_of, state_of, wait_for  # noqa: E402
from run.service import Service  # noqa: E402
from run.verdicts import describe  # noqa: E402

# Files of processes that are gone are kept for so long, as evidence; ten minutes by default.
KEPT_S = 2
VERDICT_WITHIN_S = 60  # on a busy machine; how long it took is in the results
SAME_MOMENT_S = 0.4    # losses_apart_s of the service, and how often a process's frame says that it lives
QUIET_S = 4            # no further incident for so long after all ranks have ended
CLOSED_WITHIN_S = 300  # all incidents, after the last job
MORE = {"files": 16, "threads": 2, "rss_kb": 64 << 10}  # of the service after the last job, to after the first ones
FIRST_JOBS = 5
WORKLOADS = (
    {"operation": "allreduce", "bytes_min": "256K"}, {"operation": "allgather", "bytes_min": "64K"}, {"operation": "reducescatter", "bytes_min": "64K"},
    {"operation": "broadcast", "bytes_min": "256K"}, {"tp": 2, "pp": 2, "dp": 2, "micro_batches": 4}, {"tp": 2, "dp": 4}, {"pp": 4, "dp": 2, "micro_batches": 4},
)
ENDINGS = ("killed at once", "killed one by one", "terminated")


def draw(number, seed):
    """What happens to the job of this number."""
    chance = random.Random("%d/%d" % (seed, number))
    workload = chance.choice(WORKLOADS)
    ranks = 8 if "tp" in workload or "pp" in workload else chance.choice((4, 8))  # nobody sees when the only process of a node leaves
    killed = sorted(chance.sample(range(ranks), 2 if chance.random() < 0.25 else 1))
    return {"ranks": ranks, "killed": killed, "after_s": round(chance.uniform(0.1, 2), 2), "ending": chance.choice(ENDINGS), "ends_for_s": round(chance.uniform(0.2, 3), 2),
            "workload": dict(workload, compute_ms=chance.choice((1, 5, 20)), seconds=600)}


class SegmentsOfNccl(SharedMemory):
    """What the job removes in its end: not the probe's files, of which nothing may be left anyway."""

    def left_behind(self):
        return [path for path in super().left_behind() if NCCL_SEGMENTS.match(path)]


class JobOfService(Job):
    """A job under a service that was there before."""

    def __init__(self, build, plan, folder, service):
        super().__init__(build, plan, folder)
        self.service = service
        self._shared_memory = SegmentsOfNccl()
        self._may_end = set(range(plan.rank_count))

    def _start_service(self):
        pass


def end_others(job, drawn):
    others = [child for rank, child in enumerate(job.children) if rank not in drawn["killed"]]
    for child in others:
        child.signal(signal.SIGTERM if drawn["ending"] == "terminated" else signal.SIGKILL)
        if drawn["ending"] == "killed one by one":
            time.sleep(drawn["ends_for_s"] / len(others))
    for child in others:
        if child.wait(10) is None:
            child.end()


def incidents_of(service, name):
    service.check_alive()
    service.verdicts.poll()
    return [line for line in service.verdicts.incidents() if line["job"] == name]


def run(build, service, folder, number, seed):
    """The row of one job."""
    drawn = draw(number, seed)
    name = "kills-%d" % number
    plan = Plan({"name": name, "title": "ranks are killed", "ranks": drawn["ranks"], "workload": drawn["workload"],
                 "environment": {"NCCL_PROBE_STALE_KEEP_S": KEPT_S}}, name)
    row = {"number": number, "drawn": drawn, "complaints": []}
    with JobOfService(build, plan, os.path.join(folder, name), service) as job:
        job.wait_ready()
        pids = [child.pid for child in job.children]
        time.sleep(drawn["after_s"])
        for rank in drawn["killed"]:
            job.children[rank].signal(signal.SIGKILL)
        killed, begun = {pids[rank] for rank in drawn["killed"]}, time.monotonic()
        same_moment = set(killed)

        def named():
            if time.monotonic() - begun < SAME_MOMENT_S:
                same_moment.update(child.pid for child in job.children if child.exit_status() is not None)
            blames = blamed([line for line in incidents_of(service, name) if line["state"] == "confirmed"])
            return killed <= blames <= same_moment
        if wait_for(named, VERDICT_WITHIN_S, 0.02):
            row["found_s"] = round(time.monotonic() - begun, 2)
        end_others(job, drawn)
        wait_for(lambda: len(incidents_of(service, name)) > 1, QUIET_S, 0.1)
    row["complaints"] += complaints_of(incidents_of(service, name), killed, same_moment, "found_s" in row)
    row["complaints"] += ["process %d of the job is left" % pid for pid in pids if state_of(pid) is not None]
    row["pids"] = pids
    return row


def blamed(incidents):
    """The processes that they name; ranks are those of a communicator."""
    return {culprit["pid"] for line in incidents for culprit in line["culprits"]}


def complaints_of(incidents, killed, same_moment, found):
    """`killed`: process ids. Of two at a time each may have an incident of its own: they may have no communicator in common."""
    said = "; ".join(map(describe, incidents)) or "no verdict"
    if not found:
        return ["not named: %s" % said]
    complaints = ["%d incidents for %d deaths: %s" % (len(incidents), len(killed), said)] if len(incidents) > len(killed) else []
    if not killed <= blamed(incidents) <= same_moment or any(line["class"] not in ("H1", "H3") for line in incidents):
        complaints.append("last words: %s" % said)
    wrong = {culprit["component"] for line in incidents for culprit in line["culprits"]} - {"process"}
    return complaints + (["component %s" % ", ".join(sorted(wrong))] if wrong else [])


def left_in_shared_memory(pids):
    return sorted(path for pid in pids for path in glob.glob("/dev/shm/ccld-%d[-.]*" % pid))


def check(build, kills, seed, folder):
    """(rows, numbers of the whole)."""
    service, rows, samples = Service(build, folder, {}, history=True), [], []
    try:
        service.wait_ready()
        for number in range(1, kills + 1):
            row = run(build, service, folder, number, seed)
            samples.append(resources_of(service.child.pid))
            rows.append(row)
            if row["complaints"]:
                print("%4d  %s: WRONG: %s" % (number, row["drawn"], "; ".join(row["complaints"])), flush=True)
            else:
                shutil.rmtree(os.path.join(folder, "kills-%d" % number), ignore_errors=True)
        open_incidents = lambda: [line for line in service.verdicts.incidents() if line["state"] in ("suspected", "confirmed")]  # noqa: E731
        wait_for(lambda: (service.check_alive(), service.verdicts.poll(), not open_incidents())[2], CLOSED_WITHIN_S, 0.5)
        pids = [pid for row in rows for pid in row.pop("pids")]
        # Of the last job nobody is left who would remove them.
        subprocess.run([build.service, "frames", "--clean"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)
        found = sorted(row["found_s"] for row in rows if "found_s" in row)
        ends = {name: max(each[name] for each in samples[-FIRST_JOBS:]) - max(each[name] for each in samples[:FIRST_JOBS]) for name in MORE}
        return rows, {
            "jobs": kills, "ranks_killed": sum(len(row["drawn"]["killed"]) for row in rows), "wrong": sum(bool(row["complaints"]) for row in rows),
            "found_s": {"median": found[len(found) // 2], "most": found[-1]} if found else None, "incidents_open": len(open_incidents()),
            "files_left": len(left_in_shared_memory(pids)), "service_more": ends,
        }
    finally:
        service.end()


def main():
    parser = argparse.ArgumentParser(prog="check_rank_kills.py", description=__doc__.split("\n")[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "dev"), metavar="FOLDER", help="the build tree (build/dev)")
    parser.add_argument("--kills", type=int, default=100, metavar="N", help="jobs (100)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", metavar="FILE", help="write the numbers to this JSON file")
    arguments = parser.parse_args()
    begun = time.monotonic()
    folder = tempfile.mkdtemp(prefix="ccld-kills-")
    rows, numbers = check(Build(arguments.build).check(), arguments.kills, arguments.seed, folder)
    more = ["%s of the service: %d more" % (name, count) for name, count in numbers["service_more"].items() if count > MORE[name]]
    content = not (numbers["wrong"] or numbers["incidents_open"] or numbers["files_left"] or more)
    print("%(jobs)d jobs, %(ranks_killed)d ranks killed: %(wrong)d verdicts wrong, %(incidents_open)d incidents left open, %(files_left)d files left in /dev/shm" % numbers)
    print("\n".join(more) if more else "the service takes no more than at first", flush=True)
    if content:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print("logs: %s" % folder)
    if arguments.out:
        numbers.update(seed=arguments.seed, seconds=round(time.monotonic() - begun, 1), wrong_jobs=[row for row in rows if row["complaints"]], commit=commit(),
                       machine={"cores": len(os.sched_getaffinity(0)), "kernel": platform.release()},
                       date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"))
        with open(arguments.out, "w") as file:
            json.dump(numbers, file, indent=1, sort_keys=True)
            file.write("\n")
    return 0 if content else 1


if __name__ == "__main__":
    try:
        with signals_end_the_run():
            sys.exit(main())
    except RunError as error:
        print("check_rank_kills.py: %s" % error, file=sys.stderr)
        sys.exit(2)
    except Interrupted as signal_seen:
        sys.exit(128 + signal_seen.signal_number)
