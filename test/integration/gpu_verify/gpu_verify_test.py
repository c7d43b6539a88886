#!/usr/bin/env python3
"""scripts/gpu-verify end to end on the CPU device: the parts run and agree, a part that breaks or hangs stops no other, and a bundle stands
alone. `gpu_verify_test.py BUILD_FOLDER`; upstream's own library is ours here, so that one build tree is enough."""
import glob
import json
import os
import stat
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

sys.dont_write_bytecode = True
ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", ".."))
BUILD = os.path.abspath(sys.argv.pop(1))
sys.path.insert(0, os.path.join(ROOT, "scripts"))

from gpu_verify import sanitizer  # noqa: E402
from gpu_verify.layout import Layout  # noqa: E402
from gpu_verify.part import Context, Skip  # noqa: E402
from gpu_verify.schedule import Allowance, Schedule  # noqa: E402

# Runs the program and claims what it is told to claim: one error with upstream's library, and of memcheck three with ours.
TOOL = """#!/bin/sh
tool=$2; shift 2; [ "$1" = --print-limit ] && shift 2; "$@"
case $LD_LIBRARY_PATH in *pristine*) errors=1 ;; *) errors=1; [ $tool = memcheck ] && errors=3 ;; esac
echo "========= ERROR SUMMARY: $errors errors"
"""
# Answers for a program that is not there: what `digest` says differs from process to process, `counters` ends it, `time` never answers.
BROKEN_PROGRAM = """#!%s
import os, sys, time
print('{"ready": {"device": "none"}}', flush=True)
for line in sys.stdin:
    if line.startswith("check"):
        print('{"wrong": []}', flush=True)
    elif line.startswith("digest"):
        print('{"digests": ["%%d"]}' %% os.getpid(), flush=True)
    elif line.startswith("counters"):
        print("NCCL WARN it is broken", flush=True)
        sys.exit(1)
    else:
        time.sleep(600)
"""


def verify(script, folder, *arguments, environment=None):
    """(exit status, report, what it printed)"""
    done = subprocess.run([sys.executable, "-B", script, "--device", "cpu", "--quick", "--logs", folder] + list(arguments), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, timeout=450, env=dict(os.environ, **(environment or {})))
    try:
        with open(os.path.join(folder, "report.json")) as file:
            return done.returncode, json.load(file), done.stdout
    except FileNotFoundError:
        return done.returncode, None, done.stdout


class GpuVerifyTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = temporary.name
        self.script = os.path.join(ROOT, "scripts", "gpu-verify")

    def statuses(self, report):
        return {name: part["status"] for name, part in report["parts"].items()}

    def test_all_parts_run_on_the_cpu_device_and_are_good(self):
        status, report, output = verify(self.script, self.folder, "--build", BUILD, "--pristine", BUILD)
        self.assertEqual(status, 0, output)
        self.assertEqual(self.statuses(report), {
            "environment": "passed", "registration": "passed", "counters": "passed", "cost": "passed", "fences": "skipped", "visibility": "passed",
            "abort": "passed", "functional": "passed", "faults": "passed", "torch": "passed", "sanitizer": "skipped"}, output)
        self.assertEqual(list(report["parts"]), ["environment", "registration", "counters", "cost", "fences", "visibility", "abort", "functional", "faults",
                                                 "torch", "sanitizer"])
        self.assertEqual({variant for row in report["parts"]["cost"]["places"] for variant in row["time"]}, {"pristine", "only_begin_and_end", "only_steps", "on"})
        self.assertEqual((report["device"], report["transport"]), ("cpu", "direct pointers"))
        self.assertTrue(all(row["right"] for row in report["parts"]["counters"]["rows"]))
        self.assertEqual(glob.glob("/dev/shm/ccld-verify-*"), [])

    def test_parts_that_break_or_hang_are_told_and_stop_no_other(self):
        build = os.path.join(self.folder, "build")
        os.makedirs(os.path.join(build, "bin"))
        for name in ("nccl", "lib"):
            os.symlink(os.path.join(BUILD, name), os.path.join(build, name))
        for name in ("ccld", "ccld-workload"):
            os.symlink(os.path.join(BUILD, "bin", name), os.path.join(build, "bin", name))
        program = os.path.join(build, "bin", "ccld-gpu-ranks")
        with open(program, "w") as file:
            file.write(BROKEN_PROGRAM % sys.executable)
        os.chmod(program, os.stat(program).st_mode | stat.S_IXUSR)
        status, report, output = verify(self.script, self.folder, "--build", build, "--pristine", build, "--deadline-s", "24",
                                        "--only", "functional,counters,cost,fences")
        self.assertEqual(status, 1, output)
        self.assertEqual(self.statuses(report), {"environment": "passed", "counters": "missed", "cost": "not_run", "fences": "skipped", "functional": "missed"}, output)
        self.assertIn("other bits than upstream's", report["parts"]["functional"]["problems"][0])
        self.assertEqual(len(report["parts"]["counters"]["problems"]), 6)
        self.assertIn("NCCL WARN it is broken", report["parts"]["counters"]["problems"][5])
        self.assertIn("AllReduce Ring Simple 8 B", report["parts"]["cost"]["not_run"])
        self.assertIn("cost: no time for", output)
        self.assertLess(report["seconds"], 60)

    def test_a_bundle_stands_alone(self):
        bundle = os.path.join(self.folder, "bundle")
        done = subprocess.run([sys.executable, "-B", self.script, "--device", "cpu", "--build", BUILD, "--pristine", BUILD, "--bundle", bundle],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout)
        with open(os.path.join(bundle, "bundle.json")) as file:
            packed = json.load(file)
        status, report, output = verify(os.path.join(bundle, "scripts", "gpu-verify"), os.path.join(self.folder, "logs"), "--only", "counters,cost")
        self.assertEqual((status, self.statuses(report)), (0, {"environment": "passed", "counters": "passed", "cost": "passed"}), output)
        self.assertEqual(report["commit"], packed["commit"])
        version = subprocess.run([os.path.join(bundle, "bin", "ccld"), "--version"], stdout=subprocess.PIPE, text=True)
        self.assertEqual(version.returncode, 0)

    def test_a_packed_bundle_is_unpacked_run_and_leaves_few_files(self):
        archive = os.path.join(self.folder, "verify.tar.gz")
        done = subprocess.run([sys.executable, "-B", self.script, "--device", "cpu", "--build", BUILD, "--pristine", BUILD, "--bundle", archive],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout)
        taken_away = os.path.join(self.folder, "results")
        before = set(os.listdir(tempfile.gettempdir()))
        status, _, output = verify(self.script, self.folder, "--unpack", archive, "--only", "registration", "--results", taken_away)
        self.assertEqual(status, 0, output)
        self.assertEqual(sorted(os.listdir(taken_away)), ["logs.tar.xz", "report.json", "report.txt"])
        with open(os.path.join(taken_away, "report.json")) as file:
            self.assertEqual(self.statuses(json.load(file)), {"environment": "passed", "registration": "passed"})
        self.assertFalse([name for name in set(os.listdir(tempfile.gettempdir())) - before if name.startswith("ccld-bundle-")])

    def test_where_cuda_refuses_files_the_parts_that_read_frames_are_skipped(self):
        status, report, output = verify(self.script, self.folder, "--build", BUILD, "--pristine", BUILD, "--only", "registration,counters,visibility",
                                        environment={"CCLD_CPU_DEVICE_REFUSE": "registration"})
        self.assertEqual(status, 0, output)
        self.assertEqual(self.statuses(report), {"environment": "passed", "registration": "passed", "counters": "skipped", "visibility": "skipped"}, output)
        self.assertIn("frames have no file on this machine", report["parts"]["counters"]["summary"])

    def sanitizer_context(self):
        pristine = os.path.join(self.folder, "pristine")
        os.symlink(BUILD, pristine)
        allowance = Allowance(Schedule([("sanitizer", 1)], 120, time.monotonic), "sanitizer")
        # The CPU device under the name of a GPU: the ranks are real.
        return Context(Layout("cuda", BUILD, pristine), os.path.join(self.folder, "logs"), tempfile.mkdtemp(dir=self.folder), False, allowance, lambda line: None)

    def put_sanitizer(self, text):
        tool = os.path.join(self.folder, "compute-sanitizer")
        with open(tool, "w") as file:
            file.write(text)
        os.chmod(tool, 0o755)
        return unittest.mock.patch.dict(os.environ, {"PATH": self.folder + ":" + os.environ["PATH"]})

    def test_a_sanitizer_that_refuses_the_device_is_skipped_with_its_words(self):
        with self.put_sanitizer("#!/bin/sh\necho '========= Error: device not supported'\nexit 1\n"):
            with self.assertRaisesRegex(Skip, "refuses this device: Error: device not supported"):
                sanitizer.run(self.sanitizer_context())

    def test_errors_of_the_sanitizer_count_where_upstream_has_fewer(self):
        with self.put_sanitizer(TOOL):
            result = sanitizer.run(self.sanitizer_context())
        self.assertEqual(result.facts["errors"], {"memcheck": {"on": 3, "pristine": 1}, "racecheck": {"on": 1, "pristine": 1}, "synccheck": {"on": 1, "pristine": 1}})
        self.assertEqual(result.problems, ["memcheck: 3 errors with our library, 1 with upstream's"])
        with open(os.path.join(self.folder, "logs", "sanitizer", "memcheck-on.log")) as log:
            self.assertRegex(log.read(), "checked [1-9][0-9]*, wrong 0")

    def test_what_cannot_run_is_one_line(self):
        status, report, output = verify(self.script, self.folder, "--build", self.folder, "--pristine", self.folder)
        self.assertEqual((status, report), (2, None))
        self.assertEqual(len(output.splitlines()), 1, output)
        self.assertIn("is missing", output)
        status, report, output = verify(self.script, self.folder, "--build", BUILD, "--pristine", BUILD, "--only", "counters", environment={"CUDA_VISIBLE_DEVICES": "-1"})
        self.assertEqual((status, report), (2, None), output)
        self.assertIn("there is no device to check", output)
        status, _, output = verify(self.script, self.folder, "--only", "speed")
        self.assertEqual(status, 2)
        self.assertIn("no such part", output)


if __name__ == "__main__":
    unittest.main(verbosity=2)
