#!/usr/bin/env python3
"""Measures what the decision service needs for many ranks: time for each round record, memory, time to locate a hang.

Each size runs in a process of its own (ccld-bench-scale). benchmarks/README.md says what is counted and what is not.

Exit status: 0 within the bars, 1 not, 2 cannot run, 130 interrupted.
"""
import argparse
import datetime
import json
import os
import platform
import subprocess
import sys

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "benchmarks"))

from measured import commit  # noqa: E402

# Ranks -> tenths of a second of traffic, hangs planted.
SIZES = {1024: (40, 20), 4096: (30, 20), 16384: (20, 16), 65536: (20, 10), 131072: (20, 10)}
QUICK_SIZES = {1024: (20, 6), 4096: (20, 4)}

RECORDS_PER_S_BAR = 3e6
DECODE_NS_BAR = 100
WIRE_BYTES_BAR = 16
BYTES_BAR = 4096
# How much more memory a rank may take than at the smallest size, and time a record than at the smallest of which what
# the service knows is more than a processor's cache holds: 12 MiB of 1,024 ranks are, 48 of 4,096 are not.
GROWTH_BAR = 1.5
UNCACHED_RANKS = 4096
# How many times as many records two threads on two processors take in as one does; for these sizes.
TWO_THREADS_BAR = 1.7
THREADS_RANKS = (4096, 16384, 131072)
# Questions about a job: the first answer about a snapshot, the largest answer, and, of jobs from ANSWER_MEMORY_RANKS on, the service's memory
# meanwhile. Answers take the same few megabytes whatever the job is; this benchmark asks from within, and holds the client's copy too.
FIRST_ANSWER_MS_BAR = 100
ANSWER_BYTES_BAR = 1 << 20
ANSWER_MEMORY_BAR = 1.2
ANSWER_MEMORY_RANKS = 65536


class BenchError(Exception):
    pass


def locate_bar_ms(ranks):
    """10 ms up to 4,096 ranks and 250 ms at 131,072; between them in proportion."""
    return max(10.0, 250.0 * ranks / 131072)


def missed(rows):
    lines = []
    for row in rows:
        ranks = row["ranks"]

        def line(text, *values):
            lines.append("%d ranks: %s" % (ranks, text % values))
        if row["records_per_s_per_core"] < RECORDS_PER_S_BAR:
            line("%.2f million records per second and core, the bar is at least 3", row["records_per_s_per_core"] / 1e6)
        if row["ns_per_record"]["decode"] > DECODE_NS_BAR:
            line("%.0f ns to decode a record, the bar is at most %d", row["ns_per_record"]["decode"], DECODE_NS_BAR)
        if row["bytes_per_record_on_the_wire"] > WIRE_BYTES_BAR:
            line("%.1f bytes for each record on the wire, the bar is at most %d", row["bytes_per_record_on_the_wire"], WIRE_BYTES_BAR)
        if row["bytes_per_rank_communicator"] > BYTES_BAR:
            line("%.0f bytes for each rank and communicator, the bar is at most %d", row["bytes_per_rank_communicator"], BYTES_BAR)
        if row["locate_ms_p50"] > locate_bar_ms(ranks):
            line("%.1f ms to locate, the bar is at most %.1f", row["locate_ms_p50"], locate_bar_ms(ranks))
        if row["located_right"] != row["trials"]:
            line("%d of %d hangs located right", row["located_right"], row["trials"])
        if not row["quiet"]:
            line("an incident on a healthy job")
        times = row.get("two_threads", {}).get("times")
        if times is not None and times < TWO_THREADS_BAR:
            line("two threads take in %.2f times as many records as one, the bar is at least %.1f", times, TWO_THREADS_BAR)
        status = row["status"]
        if status["first_answer_ms"] > FIRST_ANSWER_MS_BAR:
            line("%.0f ms to the first answer of /v1/status, the bar is at most %d", status["first_answer_ms"], FIRST_ANSWER_MS_BAR)
        for name in ("first_answer_bytes", "ranks_answer_bytes", "page_bytes_max"):
            if status[name] > ANSWER_BYTES_BAR:
                line("%s is %d, the bar is at most %d", name, status[name], ANSWER_BYTES_BAR)
        if status["memory_ratio"] > ANSWER_MEMORY_BAR and ranks >= ANSWER_MEMORY_RANKS:
            line("%.2f times the memory while answering, the bar is at most %.1f", status["memory_ratio"], ANSWER_MEMORY_BAR)
    uncached = [row for row in rows if row["ranks"] >= UNCACHED_RANKS]
    return (lines + grown("time for each record", uncached, lambda row: row["ns_per_record"]["all"]) +
            grown("memory for each rank", rows, lambda row: row["bytes_per_rank_communicator"]))


def grown(name, rows, value):
    lines = []
    for row in rows[1:]:
        growth = value(row) / value(rows[0])
        if growth > GROWTH_BAR:
            lines.append("%d ranks: %s is %.2f times that of %d ranks, the bar is at most %.1f" %
                         (row["ranks"], name, growth, rows[0]["ranks"], GROWTH_BAR))
    return lines


def two_threads(program, ranks, ticks, one_by_one):
    """Records that one thread and two take in within a second, by the clock on the wall; the better of two runs each. One thread is
    compared at its best, be it with what is given together or one by one."""
    def records_per_s(threads):
        row = measure(program, ranks, ticks, 0, threads)
        return row["records_per_s_per_core"] * row["threads"]
    one, two = (max(records_per_s(threads) for _ in range(2)) for threads in (1, 2))
    one = max(one, one_by_one)
    return {"records_per_s_one": one, "records_per_s_two": two, "times": two / one, "efficiency": two / one / 2}


def measure(program, ranks, ticks, trials, threads=0):
    command = [program, "--ranks", str(ranks), "--ticks", str(ticks), "--trials", str(trials), "--threads", str(threads)]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=3600)
    except subprocess.TimeoutExpired:
        raise BenchError("%d ranks: not done after an hour" % ranks)
    sys.stderr.write(done.stderr)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        raise BenchError("%d ranks: %s" % (ranks, lines[-1] if lines else "status %d" % done.returncode))
    return json.loads(done.stdout)


def machine():
    model = "unknown"
    try:
        with open("/proc/cpuinfo") as file:
            model = next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return {"processor": model, "cores": len(os.sched_getaffinity(0)), "kernel": platform.release()}


HEADINGS = ("ranks", "communicators", "M records/s", "ns: decode", "apply", "advance", "wire bytes", "bytes/rank", "locate ms p50", "p99", "tick ms",
            "status ms", "memory")


def table_row(row):
    ns = row["ns_per_record"]
    return "%7d %13d %12.2f %11.0f %7.0f %8.0f %10.1f %11.0f %14.1f %7.1f %8.1f %9.1f %6.2fx" % (
        row["ranks"], row["communicators"], row["records_per_s_per_core"] / 1e6, ns["decode"], ns["apply"], ns["advance"],
        row["bytes_per_record_on_the_wire"], row["bytes_per_rank_communicator"], row["locate_ms_p50"], row["locate_ms_p99"], row["tick_ms"],
        row["status"]["first_answer_ms"], row["status"]["memory_ratio"])


def main():
    parser = argparse.ArgumentParser(prog="bench_scale.py", description=__doc__.split("\n")[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "dev"), metavar="FOLDER", help="the build tree")
    parser.add_argument("--out", metavar="FILE", help="write the results to this JSON file")
    parser.add_argument("--quick", action="store_true", help="small sizes only, in some seconds")
    parser.add_argument("--ranks", type=int, nargs="+", metavar="N", help="these sizes only, multiples of 64")
    arguments = parser.parse_args()
    program = os.path.join(arguments.build, "bin", "ccld-bench-scale")
    if not os.access(program, os.X_OK):
        raise BenchError("%s is missing: build it with make build" % program)
    sizes = QUICK_SIZES if arguments.quick else SIZES
    if arguments.ranks:
        sizes = {ranks: SIZES.get(ranks, (20, 6)) for ranks in sorted(set(arguments.ranks))}
    print("%7s %13s %12s %11s %7s %8s %10s %11s %14s %7s %8s %9s %7s" % HEADINGS, flush=True)
    rows = []
    for ranks, (ticks, trials) in sizes.items():
        rows.append(measure(program, ranks, ticks, trials))
        print(table_row(rows[-1]), flush=True)
        if ranks in THREADS_RANKS and len(os.sched_getaffinity(0)) >= 2:
            rows[-1]["two_threads"] = two = two_threads(program, ranks, ticks, rows[-1]["records_per_s_per_core"])
            print("%7s two threads: %.2f M records/s, %.2f times one" % ("", two["records_per_s_two"] / 1e6, two["times"]), flush=True)
    report = {
        "rows": rows,
        "bars": {"records_per_s_per_core": RECORDS_PER_S_BAR, "decode_ns": DECODE_NS_BAR, "bytes_per_record_on_the_wire": WIRE_BYTES_BAR,
                 "bytes_per_rank_communicator": BYTES_BAR,
                 "locate_ms": {"4096": locate_bar_ms(4096), "131072": locate_bar_ms(131072)}, "growth": GROWTH_BAR, "two_threads": TWO_THREADS_BAR,
                 "first_answer_ms": FIRST_ANSWER_MS_BAR, "answer_bytes": ANSWER_BYTES_BAR, "answer_memory": ANSWER_MEMORY_BAR},
        "missed": missed(rows),
        "settings": {"baseline_rounds_max": 10, "hang_gap_factor": 1, "rounds_per_s_and_rank": {"world": 10, "tensor": 500, "data": 50},
                     "channels": {"world": 32, "tensor": 32, "data": 8}, "flush_ms": 100, "heartbeat_ms": 1000},
        "machine": machine(),
        "commit": commit(),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "quick": arguments.quick,
    }
    if arguments.out:
        os.makedirs(os.path.dirname(os.path.abspath(arguments.out)), exist_ok=True)
        with open(arguments.out, "w") as file:
            file.write(json.dumps(report, indent=1) + "\n")
    for line in report["missed"]:
        print("bench-scale: missed: " + line)
    if not report["missed"]:
        print("bench-scale: all bars are met")
    return 1 if report["missed"] else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BenchError as error:
        print("bench-scale: %s" % error, file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        print("bench-scale: %s: %s" % (error.filename, error.strerror), file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
