#!/usr/bin/env python3
"""Kills, stops and ends nodes of a cluster, one at a time, while faults come and go, and compares what they told and what each of them
remembers: no incident may be lost, doubled or different.

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

SECONDS_PER_FAILOVER = 60  # on a busy machine


def run(program, test, environment, timeout):
    """What the test counted, and whether it was content; None: it did not come so far."""
    with tempfile.TemporaryDirectory() as folder:
        counts = os.path.join(folder, "counts.json")
        done = subprocess.run([program, test], env=dict(os.environ, CCLD_TEST_CLUSTER_OUT=counts, **environment), timeout=timeout)
        if not os.path.exists(counts):
            return None, False
        with open(counts) as file:
            return json.load(file), done.returncode == 0


def main():
    parser = argparse.ArgumentParser(prog="check_cluster.py", description=__doc__.split("\n")[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "dev"), metavar="FOLDER", help="the build tree")
    parser.add_argument("--failovers", type=int, default=100, metavar="N")
    parser.add_argument("--at-once", type=int, default=100, metavar="N", help="incidents for each failover, and a few more")
    parser.add_argument("--seed", type=int, default=1, metavar="N")
    parser.add_argument("--ranks", type=int, default=16384, metavar="N", help="of the job whose telemetry is relayed")
    parser.add_argument("--out", metavar="FILE", help="write the numbers to this JSON file")
    arguments = parser.parse_args()
    program = os.path.join(arguments.build, "test", "integration", "cluster", "ccld_cluster_integration_tests")
    if not os.access(program, os.X_OK):
        print("check_cluster.py: %s is missing: build it with make build" % program, file=sys.stderr)
        return 2
    begun = time.monotonic()
    soak, content = run(program, "[soak]", {"CCLD_TEST_FAILOVERS": str(arguments.failovers), "CCLD_TEST_INCIDENTS_AT_ONCE": str(arguments.at_once),
                                           "CCLD_TEST_SEED": str(arguments.seed)},
                        120 + SECONDS_PER_FAILOVER * arguments.failovers)
    if soak is None:
        print("check_cluster.py: the test ended before it had counted", file=sys.stderr)
        return 2
    soak["seconds"] = round(time.monotonic() - begun, 1)
    print("%(failovers)d failovers in %(seconds).0f s: %(incidents)d incidents, %(revisions)d revisions; %(lost)d lost, %(doubled)d doubled, "
          "%(differing)d different, %(without_line)d without a line" % soak)
    print("told again after %(failover_ms_median)d ms, at most %(failover_ms_longest)d ms" % soak)
    relay, relayed = run(program, "[relay]", {"CCLD_TEST_RANKS": str(arguments.ranks), "CCLD_TEST_SECONDS": "20"}, 300)
    if relay is not None:
        print("%(ranks)d ranks: %(relayed_per_s).0f messages/s to the others; %(not_sent)d not sent, %(dropped)d dropped" % relay)
    if arguments.out:
        counts = {"soak": soak, "relay": relay, "machine": {"cores": len(os.sched_getaffinity(0)), "kernel": platform.release()},
                  "commit": commit(), "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")}
        with open(arguments.out, "w") as file:
            json.dump(counts, file, indent=1, sort_keys=True)
            file.write("\n")
    return 0 if content and relayed else 1


if __name__ == "__main__":
    sys.exit(main())
