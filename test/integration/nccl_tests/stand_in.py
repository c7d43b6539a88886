"""The stand-in for nccl-tests in the build tree, and scripts/nccl-tests-faults on it."""
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "test", "support"))

from run.processes import NCCL_SEGMENTS, segments_of  # noqa: E402

FRAME = re.compile(r"/dev/shm/ccld-\d+[-.]")
BUILD = os.environ["CCLD_BUILD"]
BINARIES = os.path.join(BUILD, "nccl-tests")
TOOL = os.path.join(ROOT, "scripts", "nccl-tests-faults")
MPIRUN = os.path.join(ROOT, "test", "support", "nccl_tests", "mpirun_stand_in.py")
# NCCL on few cores.
SETTINGS = {"NCCL_MAX_NCHANNELS": "1", "NCCL_NTHREADS": "128", "NCCL_LL128_NTHREADS": "128", "NCCL_PAT_ENABLE": "0", "NCCL_DEBUG": "NONE",
            "NCCL_PROBE_ENABLE": "0"}


def main():
    if not os.path.exists(os.path.join(BINARIES, "all_reduce_perf")):
        print("skipped: no nvcc with a shared libcudart, so there is no program compiled by it")
        sys.exit(77)
    unittest.main(verbosity=2)


def run_binary(program, *arguments, **environment):
    """Beside no service, on the CPU device."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("NCCL_", "CCLD_", "CUDA_VISIBLE"))}
    inherited.update(SETTINGS, LD_LIBRARY_PATH=os.path.join(BUILD, "nccl", "lib"), **environment)
    return subprocess.run([os.path.join(BINARIES, program)] + list(arguments), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=300, env=inherited)


def processes():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def nobodys(paths, jobs):
    """Segments of NCCL that no living process has, and frames of these jobs: there may be others on this machine."""
    held = set().union(*map(segments_of, processes()))
    return {path for path in paths if (NCCL_SEGMENTS.match(path) and path not in held) or (FRAME.match(path) and is_of(path, jobs))}


def is_of(path, jobs):
    try:
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        return False
    return any(job.encode() in content for job in jobs)


def running_binaries():
    found = set()
    for pid in processes():
        try:
            path = os.readlink("/proc/%d/exe" % pid)
        except OSError:
            continue
        if os.path.dirname(path) == os.path.realpath(BINARIES):
            found.add("process %d" % pid)
    return found


class Tool:
    """One run of nccl-tests-faults with its report."""

    def __init__(self, *arguments, plan=None):
        with tempfile.TemporaryDirectory() as folder:
            arguments = ["--dir", BINARIES, "--build", BUILD, "--out", os.path.join(folder, "out")] + list(arguments)
            if plan:
                path = os.path.join(folder, "plan.json")
                with open(path, "w") as file:
                    json.dump(plan, file)
                arguments += ["--plan", path]
            before = set(glob.glob("/dev/shm/*"))
            done = subprocess.run([sys.executable, "-B", TOOL] + arguments, stdin=subprocess.DEVNULL, capture_output=True, text=True)
            self.status, self.output, self.errors = done.returncode, done.stdout, done.stderr
            self.runs = []
            report = os.path.join(folder, "out", "report.json")
            if os.path.exists(report):
                with open(report) as file:
                    self.runs = json.load(file)["runs"]
            self.left_behind = nobodys(set(glob.glob("/dev/shm/*")) - before, [run["name"] for run in self.runs]) | running_binaries()

    def __str__(self):
        return "status %d\n%s%s" % (self.status, self.output, self.errors)
