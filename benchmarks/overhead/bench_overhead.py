#!/usr/bin/env python3
"""Measures what the probe costs: upstream's own NCCL against ours with the probe off and on, on the CPU device.

Instructions are counted exactly (callgrind), wall time is measured interleaved; host path, threads and reported rounds have
programs of their own. benchmarks/README.md says what is counted and what is not. Run it on a quiet machine.

Exit status: 0 within the bars, 1 not, 2 cannot run, 130 interrupted.
"""
import argparse
import concurrent.futures
import datetime
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

import instructions  # noqa: E402
import threads  # noqa: E402
import wall_time  # noqa: E402
from measured import commit  # noqa: E402
from parts import BASE_ENVIRONMENT, ROOT, BenchError, Parts  # noqa: E402

RANKS = 4
MIB = 1 << 20
SIZES = (1 << 10, 1 << 16, 1 << 20, 4 << 20)
# Operation, algorithm, protocol. Each is counted at every size; all-reduces are timed too.
KINDS = tuple(("allreduce", algorithm, protocol) for algorithm in ("Ring", "Tree") for protocol in ("LL", "LL128", "Simple")) + (
    ("allgather", "Ring", "Simple"), ("reducescatter", "Ring", "LL"), ("broadcast", "Ring", "Simple"), ("sendrecv", "Ring", "Simple"))
QUICK_KINDS = (("allreduce", "Ring", "LL"), ("allreduce", "Tree", "Simple"), ("sendrecv", "Ring", "Simple"))
QUICK_SIZES = (1 << 10, 1 << 20)

# name -> (largest allowed value, or smallest if it is a share that should be high; how it reads)
BARS = {
    "off_instructions_ratio": ("most", 1.001),
    "on_instructions_ratio_1MiB_up": ("most", 1.005),
    "host_path_ns_per_op": ("most", 60.0),
    "thread_core_share_in_flight": ("most", 0.003),
    "thread_core_share_at_rest": ("most", 0.0002),
    "rounds_reported_share": ("least", 0.999),
}


class Progress:
    def __init__(self):
        self._begin = time.monotonic()

    def __call__(self, text):
        print("%6.1f s  %s" % (time.monotonic() - self._begin, text), file=sys.stderr, flush=True)


def run_json(command, environment):
    try:
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)
    except subprocess.TimeoutExpired:
        raise BenchError("%s: not done after 300 s" % os.path.basename(command[0]))
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        raise BenchError("%s: %s" % (os.path.basename(command[0]), lines[-1] if lines else "status %d" % done.returncode))
    return json.loads(done.stdout)


def environment_of(algorithm, protocol):
    return dict(BASE_ENVIRONMENT, NCCL_ALGO=algorithm, NCCL_PROTO=protocol)


def repeats_of(size):
    return 20 if size <= 1 << 16 else 2


# ---- instructions and wall time ---------------------------------------------------------------------------------------


def count_rows(parts, kinds, sizes, repetitions, jobs, show):
    """A row per kind and size: instructions per operation and rank, of each variant. The least of the repetitions counts."""
    variants = parts.variants()
    rows = {}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        waiting = {}
        for kind in kinds:
            for size in sizes:
                for variant in variants:
                    for _ in range(repetitions):
                        operation, algorithm, protocol = kind
                        task = pool.submit(instructions.count, parts.operations, variant, environment_of(algorithm, protocol),
                                           RANKS, operation, size, repeats_of(size))
                        waiting[task] = (kind, size, variant.name)
        done = 0
        try:
            for task in concurrent.futures.as_completed(waiting):
                kind, size, name = waiting[task]
                per_operation = instructions.of_training(task.result()) / repeats_of(size) / RANKS
                rows.setdefault((kind, size), {}).setdefault(name, []).append(per_operation)
                done += 1
                if done % 24 == 0:
                    show("%d of %d instruction counts" % (done, len(waiting)))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    result = []
    for (operation, algorithm, protocol), size in ((kind, size) for kind in kinds for size in sizes):
        counts = rows[(operation, algorithm, protocol), size]
        least = {name: min(values) for name, values in counts.items()}
        result.append({
            "operation": operation, "algorithm": algorithm.lower(), "protocol": protocol.lower(), "bytes": size,
            "instructions": {name: round(value) for name, value in least.items()},
            "instructions_spread": round(max(max(v) / min(v) - 1 for v in counts.values()), 6),
            "off_ratio": round(least["off"] / least["pristine"], 6), "on_ratio": round(least["on"] / least["pristine"], 6)})
    return result


def time_rows(parts, kinds, sizes, rows, rounds, show):
    """Adds wall times to the rows of all-reduces."""
    by_key = {(row["operation"], row["algorithm"], row["protocol"], row["bytes"]): row for row in rows}
    for operation, algorithm, protocol in kinds:
        if operation != "allreduce":
            continue
        show("timing %s %s" % (algorithm, protocol))
        samples = wall_time.measure(parts.operations, parts.variants(), environment_of(algorithm, protocol), RANKS, sizes,
                                    operation, rounds, lambda text: None)
        for size in sizes:
            row = by_key[operation, algorithm.lower(), protocol.lower(), size]
            row["wall_time"] = {name: wall_time.summary(values) for name, values in samples[size].items()}


# ---- report -----------------------------------------------------------------------------------------------------------


def machine():
    model = "unknown"
    try:
        with open("/proc/cpuinfo") as file:
            model = next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return {"processor": model, "cores": len(os.sched_getaffinity(0)), "kernel": platform.release()}


def missed(report):
    lines = []
    for name, (kind, bar) in BARS.items():
        value = report[name]
        if value > bar if kind == "most" else value < bar:
            lines.append("%s is %.6g, the bar is at %s %g" % (name, value, kind, bar))
    return lines


def print_rows(rows):
    print("%-14s %-5s %-7s %9s  %14s %9s %9s  %s" % ("operation", "algo", "proto", "bytes", "instructions", "off", "on", "median us: pristine, off, on"))
    for row in rows:
        times = row.get("wall_time")
        print("%-14s %-5s %-7s %9d  %14d %+8.3f%% %+8.3f%%  %s" % (
            row["operation"], row["algorithm"], row["protocol"], row["bytes"], row["instructions"]["pristine"],
            (row["off_ratio"] - 1) * 100, (row["on_ratio"] - 1) * 100,
            ", ".join("%.0f" % times[name]["median_us"] for name in ("pristine", "off", "on")) if times else ""))


def measure(parts, arguments, show):
    quick = arguments.quick
    kinds, sizes = (QUICK_KINDS, QUICK_SIZES) if quick else (KINDS, SIZES)
    repetitions, seconds = (1, 5) if quick else (2, 20)
    report = dict.fromkeys(BARS)
    load_before = wall_time.load_average()

    show("the host path")
    on = parts.variants()[2].environment({})
    host = run_json([parts.host_path, "100" if quick else "1000"], on)
    report["host_path_ns_per_op"] = next(row["ns"] for row in host["rows"] if row["call"] == "collective")

    show("threads in flight, %d s" % seconds)
    in_flight = threads.shares(parts, BASE_ENVIRONMENT, threads.IN_FLIGHT, seconds)
    show("threads at rest, %d s" % seconds)
    at_rest = threads.shares(parts, BASE_ENVIRONMENT, threads.AT_REST, seconds)
    report["thread_core_share_in_flight"] = in_flight["diagnostic"]
    report["thread_core_share_at_rest"] = at_rest["diagnostic"]
    sleeper = float(subprocess.run([parts.sleeper, "1000", str(5 if quick else 10)], stdout=subprocess.PIPE, text=True, check=True).stdout)

    show("rounds reported")
    rounds = run_json([parts.rounds, "16", "1000", str(5 if quick else 20)], on)
    report["rounds_reported_share"] = rounds["reported"] / rounds["operations"]
    rounds["accounted_for"] = rounds["reported"] + rounds["lapped"] == rounds["operations"]
    show("short kernels back to back")
    short = run_json([parts.rounds, "1", "200000", str(5 if quick else 20)], on)

    show("counting instructions")
    rows = count_rows(parts, kinds, sizes, repetitions, arguments.jobs, show)
    if not quick:
        time_rows(parts, kinds, sizes, rows, 12, show)
    large = [row for row in rows if row["bytes"] >= MIB]

    def mean(name, of):
        return round(sum(row[name] for row in of) / len(of), 6)
    # Over all rows: g++'s registers and branch layout move single rows by more than the bar, up and down; the worst is named beside it.
    report["off_instructions_ratio"] = mean("off_ratio", rows)
    report["on_instructions_ratio_1MiB_up"] = max(row["on_ratio"] for row in large)
    report["rows"] = rows
    report["off_instructions_ratio_worst"] = max(row["off_ratio"] for row in rows)
    report["off_instructions_ratio_least"] = min(row["off_ratio"] for row in rows)
    report["off_instructions_ratio_1MiB_up"] = max(row["off_ratio"] for row in large)
    report["on_instructions_ratio"] = max(row["on_ratio"] for row in rows)
    report["on_instructions_ratio_1MiB_up_mean"] = mean("on_ratio", large)
    report["instructions_spread"] = max(row["instructions_spread"] for row in rows)
    report["host_path"] = host
    report["frame_bytes"] = host["frame_bytes"]
    report["threads"] = {"in_flight": in_flight, "at_rest": at_rest, "seconds": seconds, "sleeper_of_1_ms": sleeper}
    report["agent_period_us"] = in_flight["period_us"]
    report["rounds"] = dict(rounds, written_by="a thread that stands in for NCCL and its kernels; real frames, diagnostic thread and socket")
    report["short_kernels"] = dict(short, written_by="the same thread: a kernel every 5 us")
    report["machine"] = machine()
    report["load_before"] = round(load_before, 2)
    report["commit"] = commit()
    report["date"] = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    report["repetitions"] = repetitions
    report["ranks"] = RANKS
    report["settings"] = BASE_ENVIRONMENT
    report["quick"] = quick
    report["missed"] = missed(report)
    if not rounds["accounted_for"]:
        report["missed"].append("reported and lapped rounds are not all operations: %d + %d of %d" %
                                (rounds["reported"], rounds["lapped"], rounds["operations"]))
    if not short["nothing_lost"]:
        report["missed"].append("steps or times of short kernels are in no round and in no sum: %d + %d of %d kernels" %
                                (short["counted"], short["summed"], short["operations"]))
    return report


def main():
    parser = argparse.ArgumentParser(prog="bench_overhead.py", description=__doc__.split("\n")[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "dev"), metavar="FOLDER", help="the tree that has our library")
    parser.add_argument("--pristine", default=os.path.join(ROOT, "build", "pristine"), metavar="FOLDER", help="the tree that has upstream's own")
    parser.add_argument("--out", metavar="FILE", help="write the results to this JSON file")
    parser.add_argument("--quick", action="store_true", help="a subset, in about two minutes")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="instruction counts at the same time")
    arguments = parser.parse_args()
    if arguments.jobs < 1:
        raise BenchError("--jobs %d: must be at least 1" % arguments.jobs)
    if shutil.which("valgrind") is None:
        raise BenchError("valgrind is missing, which counts instructions; as root: apt-get install valgrind")
    parts = Parts(arguments.build, arguments.pristine)
    parts.check()
    # Most of the processes end without ceremony: their frames go with this folder, and none of other processes lies in it.
    frames = tempfile.mkdtemp(prefix="ccld-bench-", dir="/dev/shm")
    os.environ["NCCL_PROBE_FRAMES_DIR"] = frames
    try:
        report = measure(parts, arguments, Progress())
    finally:
        shutil.rmtree(frames, ignore_errors=True)
    print_rows(report["rows"])
    for name in BARS:
        print("%-32s %.6g" % (name, report[name]))
    print("%-32s %.6g to %.6g" % ("off, of single rows", report["off_instructions_ratio_least"], report["off_instructions_ratio_worst"]))
    if arguments.out:
        os.makedirs(os.path.dirname(os.path.abspath(arguments.out)), exist_ok=True)
        with open(arguments.out, "w") as file:
            file.write(json.dumps(report, indent=1) + "\n")
    for line in report["missed"]:
        print("bench-overhead: missed: " + line)
    if not report["missed"]:
        print("bench-overhead: all bars are met")
    return 1 if report["missed"] else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BenchError as error:
        print("bench-overhead: %s" % error, file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        print("bench-overhead: %s: %s" % (error.filename, error.strerror), file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
