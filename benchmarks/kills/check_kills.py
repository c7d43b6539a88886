#!/usr/bin/env python3
"""Kills `ccld serve` with SIGKILL in the middle of incidents, again and again on one state folder, and compares what it reported with
what the next one knows: no revision may be lost, doubled or different. Nor may the last processes of the service have more open files, threads or
memory than the first ones.

Exit status: 0 none is, 1 one is, 2 cannot run.
"""
import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "benchmarks"))

from measured import commit  # noqa: E402

TEST = "However often the service is killed*"  # a comma would begin another name
SECONDS_PER_KILL = 20  # on a busy machine


def run(program, kills):
    """What the test counted, and whether it was content; None: it did not come so far."""
    with tempfile.TemporaryDirectory() as folder:
        counts = os.path.join(folder, "kills.json")
        environment = dict(os.environ, CCLD_TEST_KILLS=str(kills), CCLD_TEST_KILLS_OUT=counts)
        done = subprocess.run([program, TEST], env=environment, timeout=60 + SECONDS_PER_KILL * kills)
        if not os.path.exists(counts):
            return None, False
        with open(counts) as file:
            return json.load(file), done.returncode == 0


def main():
    parser = argparse.ArgumentParser(prog="check_kills.py", description=__doc__.split("\n")[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "dev"), metavar="FOLDER", help="the build tree")
    parser.add_argument("--kills", type=int, default=100, metavar="N")
    parser.add_argument("--out", metavar="FILE", help="write the numbers to this JSON file")
    arguments = parser.parse_args()
    program = os.path.join(arguments.build, "test", "integration", "serve", "ccld_serve_tests")
    if not os.access(program, os.X_OK):
        print("check_kills.py: %s is missing: build it with make build" % program, file=sys.stderr)
        return 2
    begun = time.monotonic()
    counts, content = run(program, arguments.kills)
    if counts is None:
        print("check_kills.py: the test ended before it had counted", file=sys.stderr)
        return 2
    counts["seconds"] = round(time.monotonic() - begun, 1)
    print("%(kills)d kills in %(seconds).0f s: %(incidents)d incidents, %(revisions_reported)d revisions reported, %(revisions_stored)d stored; "
          "%(lost)d lost, %(doubled)d doubled, %(differing)d different" % counts)
    print("the first processes of the service and the last ones: open files %(files_first)d, %(files_last)d; threads %(threads_first)d, "
          "%(threads_last)d; RSS %(rss_kb_first)d kB, %(rss_kb_last)d kB; start %(start_ms_first)d ms, %(start_ms_last)d ms; files that do not belong there %(files_unknown)d" % counts)
    if arguments.out:
        counts.update(machine={"cores": len(os.sched_getaffinity(0)), "kernel": platform.release()}, commit=commit(),
                      date=datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"))
        with open(arguments.out, "w") as file:
            json.dump(counts, file, indent=1, sort_keys=True)
            file.write("\n")
    return 0 if content else 1


if __name__ == "__main__":
    sys.exit(main())
