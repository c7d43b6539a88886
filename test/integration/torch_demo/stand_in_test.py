"""scripts/torch-demo from end to end, with ranks on the CPU device in the place of torch's.

Usage: stand_in_test.py BUILD_FOLDER [unittest arguments]
"""
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "test", "support"))

from run.processes import state_of, wait_for  # noqa: E402

BUILD = None


def processes_with(text):
    """Those whose command line has this text in it."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as file:
                if text.encode() in file.read():
                    found.append(int(path.split("/")[2]))
        except OSError:
            pass
    return found


class StandInTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.scratch, self.out = os.path.join(folder.name, "scratch"), os.path.join(folder.name, "out")
        os.mkdir(self.scratch)
        self.library = os.path.join(BUILD, "nccl", "lib", "libnccl.so.2")

    def launch(self, *arguments, library=None, **environment):
        command = [sys.executable, "-B", os.path.join(ROOT, "scripts", "torch-demo"), "--stand-in", "--library", library or self.library,
                   "--ccld", os.path.join(BUILD, "bin", "ccld"), "--out", self.out] + list(arguments)
        demo = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=dict(os.environ, TMPDIR=self.scratch, **environment))

        def end():
            demo.kill()
            demo.wait()
            demo.stdout.close()
        self.addCleanup(end)
        return demo

    def assert_right(self, name, *arguments):
        demo = self.launch("--run", name, *arguments)
        output, _ = demo.communicate()  # it gives up by itself when its job does not get on
        self.assertEqual(demo.returncode, 0, output)
        with open(os.path.join(self.out, "report.json")) as file:
            report = json.load(file)
        self.assertTrue(all(run["right"] for run in report["runs"]), output)
        self.assert_nothing_left()
        return report

    def assert_nothing_left(self):
        self.assertTrue(wait_for(lambda: not processes_with(self.scratch), 60), "processes are left")
        self.assertEqual(os.listdir(self.scratch), [])

    def test_a_fault_on_one_gpu_through_the_library_path_names_rank_and_group(self):
        report = self.assert_right("ddp_count", "--one-gpu", "--by", "library-path")
        self.assertEqual((report["way"], report["machine"]["library"]["path"]), ("LD_LIBRARY_PATH", self.library))
        verdict = report["runs"][0]["verdict"]
        self.assertEqual((verdict["class"], verdict["comm_name"], [culprit["rank"] for culprit in verdict["culprits"]]), ("H2", "DP", [1]))

    def test_a_fault_on_several_gpus_through_a_preloaded_library_names_the_pipeline(self):
        report = self.assert_right("pipeline_stops", "--by", "preload")
        self.assertEqual(report["way"], "LD_PRELOAD")
        self.assertEqual(report["runs"][0]["verdict"]["comm_name"], "PP0")

    def test_another_library_is_noticed_before_anything_runs(self):
        copies = os.path.join(os.path.dirname(self.scratch), "lib")
        shutil.copytree(os.path.dirname(self.library), copies, symlinks=True)
        wanted = os.path.join(copies, "libnccl.so.2")
        demo = self.launch("--look", "--by", "library-path", library=wanted, LD_PRELOAD=self.library)
        output, _ = demo.communicate(timeout=200)
        self.assertEqual(demo.returncode, 1, output)
        self.assertIn("torch-demo: through LD_LIBRARY_PATH: %s is loaded instead of %s" % (self.library, wanted), output)
        self.assertEqual(os.listdir(self.scratch), [])

    def test_an_interrupt_leaves_nothing_behind(self):
        demo = self.launch("--run", "ddp_stopped", "--one-gpu")
        for line in demo.stdout:
            if "planted:" in line:
                break
        ranks = [pid for pid in processes_with(self.scratch) if pid != demo.pid]
        self.assertIn("T", [state_of(pid) for pid in ranks])
        demo.send_signal(signal.SIGINT)
        output, _ = demo.communicate(timeout=200)
        self.assertEqual(demo.returncode, 130, output)
        self.assert_nothing_left()
        self.assertEqual([path for pid in ranks for path in glob.glob("/dev/shm/ccld-%d[-.]*" % pid)], [])


if __name__ == "__main__":
    BUILD = os.path.abspath(sys.argv.pop(1))
    unittest.main()
