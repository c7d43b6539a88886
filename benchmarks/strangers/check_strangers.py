#!/usr/bin/env python3
"""Strangers at the ports of `ccld serve`: thousands of connections, slow clients, telemetry of what does not exist. Is a fault of a
real job found as soon as without them, within --memory-max, and is nothing left when they have gone?

Exit status: 0 within the bars, 1 not, 2 cannot run, 130 interrupted.
"""
import argparse
import datetime
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
from crowd import HALF_A_MESSAGE, Crowd, SlowClients
from planted import PlantedJob
from watched_service import ServiceError, WatchedService

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "benchmarks"))

from measured import commit  # noqa: E402

# As short as a job that does ten operations a second allows; a pause that was a fault teaches no longer timeout.
SETTINGS = {"hang_suspect_s": 2, "hang_warmup_suspect_s": 2, "hang_confirm_s": 4, "hang_gap_factor": 1, "forget_s": 60}
MEMORY_MAX = "256M"
MEMORY_MAX_BYTES = 256 << 20
CLAIMS_PER_S = 1000
HOLDERS, HOLDERS_PER_S = 200, 25
# The same machine as the job, and another one that invents machines.
ANNOUNCERS = (("127.0.0.1", 1), ("127.0.0.2", 1_000_000))

RATIO_BAR = 1.25        # of the times to a verdict, medians
HEALTH_MS_BAR = 1000    # 99 of 100 answers
IDLE_CORES_BAR = 0.2    # while strangers only hold connections
CUT_CORES_BAR = 0.5     # while they open them again as soon as they are cut; without cutting it was a whole core
LEFT_DESCRIPTORS_BAR = 8  # HTTP connections that end just now
LEAVE_S = 30


def raise_own_limit(wished):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < wished:
        raise ServiceError("this needs %d open files, the hard limit (ulimit -Hn) is %d" % (wished, hard))
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wished), hard))


class Scenario:
    """One service, first alone with its job, then with strangers, then alone again."""

    def __init__(self, build, name, connections, descriptors_max, seconds, trials):
        self.row = {"scenario": name, "connections_wished": connections, "descriptors_max": descriptors_max, "seconds": seconds}
        self._program = os.path.join(build, "bin", "ccld-bench-strangers")
        self._ccld = os.path.join(build, "bin", "ccld")
        self._connections, self._descriptors_max = connections, descriptors_max
        self._seconds, self._trials = seconds, trials

    def run(self, folder):
        self._service = WatchedService(self._ccld, folder, MEMORY_MAX, self._descriptors_max, SETTINGS)
        try:
            self._run()
        finally:
            self.row["exit_status"] = self._service.end()
            self.row["warnings"] = sorted({line.split(" ccld warning ", 1)[1] for line in self._service.log().splitlines() if " ccld warning " in line})[:20]
        return self.row

    def _run(self):
        job = PlantedJob(self._program, self._service.endpoint, self._service.verdict_path)
        time.sleep(1.5)  # some operations
        self.row["without"] = self._measure(job, self._trials, 0)
        before = {"descriptors": self._service.descriptors(), "threads": self._service.threads()}
        crowd = Crowd(self._service.port, self._connections, address="127.0.0.3")
        crowd.start()
        self._wait(lambda: crowd.open >= min(self._connections, self._descriptors_max - 200) or crowd.closed_by_service > 100, 60)
        cpu_s, begun = self._service.cpu_s(), time.monotonic()
        time.sleep(2)
        self.row["idle"] = {"connections": crowd.open, "memory_bytes": self._service.memory_bytes(),
                            "cores": round((self._service.cpu_s() - cpu_s) / (time.monotonic() - begun), 3)}
        slow = SlowClients(*self._service.http_address, 40)
        slow.start()
        # All of them together hold more than the service may have.
        holders = Crowd(self._service.port, HOLDERS, "127.0.0.4", HOLDERS_PER_S, (HALF_A_MESSAGE,))
        holders.start()
        announcers = [subprocess.Popen([self._program, "announce", "--endpoint", self._service.endpoint, "--per-s", str(CLAIMS_PER_S), "--from",
                                        address, "--machines", str(machines)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                      for address, machines in ANNOUNCERS]
        try:
            self.row["with"] = self._measure(job, self._trials, self._seconds)
        finally:
            sent = [int(a.communicate()[0] or 0) for a in announcers]
            slow.end()
            holders.end()
            crowd.end()
        self.row["strangers"] = {"batches": sum(sent), "connections_opened": crowd.opened, "connections_cut": crowd.closed_by_service,
                                 "connections_refused": crowd.refused, "slow_clients": slow.connected,
                                 "messages_that_stop": holders.opened, "of_these_cut": holders.closed_by_service}
        begun = time.monotonic()
        gone = self._wait(lambda: self._service.descriptors() <= before["descriptors"] + LEFT_DESCRIPTORS_BAR and
                          self._service.threads() <= before["threads"], LEAVE_S)
        self.row["after"] = {"descriptors": self._service.descriptors(), "descriptors_before": before["descriptors"],
                             "threads": self._service.threads(), "threads_before": before["threads"],
                             "seconds": round(time.monotonic() - begun, 1) if gone else None}
        status = self._service.status()
        self.row["status"] = {"memory": status["memory"], "connections": status["connections"], "late_ticks": status["service"]["late_ticks"],
                              "verdict_lines": status["service"]["verdict_lines"]}
        job.end()

    @staticmethod
    def _wait(true, seconds):
        until = time.monotonic() + seconds
        while not true():
            if time.monotonic() > until:
                return False
            time.sleep(0.1)
        return True

    def _measure(self, job, trials, seconds):
        """At least so many faults, and for so long."""
        self._service.take_samples()
        cpu_s, begun = self._service.cpu_s(), time.monotonic()
        times = []
        while len(times) < trials or time.monotonic() - begun < seconds:
            times.append(job.plant(len(times) % 8))
            time.sleep(1.0)  # healthy operations
        lasted = time.monotonic() - begun
        found = [t for t in times if t is not None]
        result = {"faults": len(times), "found": len(found), "seconds": round(lasted, 1),
                  "verdict_s_median": round(statistics.median(found), 3) if found else None,
                  "verdict_s_max": round(max(found), 3) if found else None,
                  "cores": round((self._service.cpu_s() - cpu_s) / lasted, 3)}
        result.update(self._service.take_samples())
        return result


def missed(row, times=True):
    """`times`: also what depends on what else the machine does."""
    name, lines = row["scenario"], []

    def line(text, *values):
        lines.append(name + ": " + text % values)
    without, with_them = row["without"], row["with"]
    for of, what in ((without, "without"), (with_them, "with")):
        if of["found"] != of["faults"]:
            line("%d of %d faults found %s strangers", of["found"], of["faults"], what)
    if without["found"] and with_them["found"]:
        row["verdict_ratio"] = round(with_them["verdict_s_median"] / without["verdict_s_median"], 3)
        if times and row["verdict_ratio"] > RATIO_BAR:
            line("a verdict takes %.2f times as long as without strangers, the bar is %.2f", row["verdict_ratio"], RATIO_BAR)
    if with_them["memory_bytes_max"] > MEMORY_MAX_BYTES:
        line("%.0f MiB of memory, the limit is %s", with_them["memory_bytes_max"] / 2**20, MEMORY_MAX)
    if with_them["health_not_well"] or (times and (with_them["health_ms_p99"] or 0) > HEALTH_MS_BAR):
        line("/healthz: %d of %d not well, 99 %% within %s ms", with_them["health_not_well"], with_them["health_asked"], with_them["health_ms_p99"])
    few = row["descriptors_max"] < row["connections_wished"]
    cores_bar = CUT_CORES_BAR if few else IDLE_CORES_BAR
    if times and row["idle"]["cores"] > cores_bar:
        line("%.2f cores while strangers only %s connections, the bar is %.1f", row["idle"]["cores"], "open" if few else "hold", cores_bar)
    if row["after"]["seconds"] is None:
        line("left behind: %s", row["after"])
    if few and not any("descriptors" in w for w in row["warnings"]):
        line("nothing was said of the descriptors that ran out")
    if row["exit_status"] != 0:
        line("the service ended with status %d", row["exit_status"])
    return lines


def positive(text):
    value = float(text)
    if not 0 < value <= 1440:
        raise argparse.ArgumentTypeError("%s is not a number of minutes up to 1440" % text)
    return value


def main():
    parser = argparse.ArgumentParser(prog="check_strangers.py", description=__doc__.split("\n")[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "dev"), metavar="FOLDER", help="the build tree")
    parser.add_argument("--minutes", type=positive, default=10.0, metavar="N", help="for how long strangers announce")
    parser.add_argument("--connections", type=int, default=10_000, metavar="N")
    parser.add_argument("--quick", action="store_true", help="1,000 connections and some seconds; times and processors are measured, not judged")
    parser.add_argument("--out", metavar="FILE", help="write the results to this JSON file")
    arguments = parser.parse_args()
    for program in ("ccld", "ccld-bench-strangers"):
        if not os.access(os.path.join(arguments.build, "bin", program), os.X_OK):
            raise ServiceError("%s is missing in %s: build it with make build" % (program, arguments.build))
    connections = 1000 if arguments.quick else arguments.connections
    seconds, trials = (4, 2) if arguments.quick else (60 * arguments.minutes, 8)
    few = 256 if arguments.quick else 1024
    raise_own_limit(connections + 500)
    rows = []
    for name, wished, descriptors_max, lasts in (("enough descriptors", connections, connections + 2000, seconds),
                                                 ("too few descriptors", 2 * few, few, min(seconds, 60))):
        with tempfile.TemporaryDirectory() as folder:
            rows.append(Scenario(arguments.build, name, wished, descriptors_max, lasts, trials).run(folder))
        row = rows[-1]
        print("%s: verdict after %s s without and %s s with strangers (at most %s s), %d MiB, %s cores, /healthz p99 %s ms; %s" % (
            name, row["without"]["verdict_s_median"], row["with"]["verdict_s_median"], row["with"]["verdict_s_max"],
            row["with"]["memory_bytes_max"] >> 20, row["with"]["cores"], row["with"]["health_ms_p99"], row["strangers"]), flush=True)
    lines = [line for row in rows for line in missed(row, times=not arguments.quick)]
    if arguments.out:
        report = {"rows": rows, "missed": lines, "memory_max_bytes": MEMORY_MAX_BYTES, "settings": SETTINGS,
                  "bars": {"verdict_ratio": RATIO_BAR, "health_ms_p99": HEALTH_MS_BAR, "idle_cores": IDLE_CORES_BAR, "cut_cores": CUT_CORES_BAR},
                  "machine": {"cores": len(os.sched_getaffinity(0)), "kernel": platform.release()}, "commit": commit(),
                  "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"), "quick": arguments.quick}
        with open(arguments.out, "w") as file:
            file.write(json.dumps(report, indent=1, sort_keys=True) + "\n")
    for line in lines:
        print("check-strangers: missed: " + line)
    if not lines:
        print("check-strangers: all bars are met")
    return 1 if lines else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except ServiceError as error:
        print("check_strangers.py: %s" % error, file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
