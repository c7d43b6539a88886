"""Ranks of a job in pid namespaces of their own that share the folder of frames, as containers do with --ipc=host: all have process id 1.

Usage: containers_test.py BUILD_FOLDER [unittest arguments]
"""
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", ".."))
sys.path[:0] = [os.path.join(ROOT, "scripts"), os.path.join(ROOT, "test", "support")]

from run.build import Build  # noqa: E402
from run.processes import Child, wait_for  # noqa: E402
from torch_demo.machine import CPU_DEVICE_ENVIRONMENT  # noqa: E402

RANKS = 3
IN_A_CONTAINER = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
SKIPPED = 77
BUILD = None


def child_of(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid)) as file:
        return int(file.read().split()[0])


class ContainersTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ccld-containers-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.frames_folder = os.path.join(self.folder, "frames")
        os.mkdir(self.frames_folder)
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("NCCL_", "CCLD_"))}
        environment.update(CPU_DEVICE_ENVIRONMENT, LD_LIBRARY_PATH=BUILD.library_folder, NCCL_PROBE_FRAMES_DIR=self.frames_folder)
        self.ranks = []
        for rank in range(RANKS):
            command = IN_A_CONTAINER + [BUILD.workload, "--rank", str(rank), "--ranks", str(RANKS), "--id-file", os.path.join(self.folder, "id"),
                                        "-b", "64K", "-e", "64K", "--compute-ms", "5", "--seconds", "600"]
            self.ranks.append(Child("rank %d" % rank, command, os.path.join(self.folder, "log%d" % rank), environment))
            self.addCleanup(self.ranks[-1].end)
        self.assertTrue(wait_for(lambda: len(self.look()["frames"]) == RANKS and all(f["completed_op_seq"] > 5 for f in self.look()["frames"]), 60),
                        self.ranks[0].last_lines())

    def ccld(self, *arguments):
        return subprocess.run([BUILD.service] + list(arguments), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)

    def look(self, *arguments):
        done = self.ccld("frames", "--dir", self.frames_folder, "--json", *arguments)
        self.assertEqual(done.returncode, 0, done.stdout)
        return json.loads(done.stdout)

    def state_of(self, rank):
        return [frame["process"] for frame in self.look()["frames"] if frame["rank"] == rank][0]

    def test_each_has_files_of_its_own_and_is_found_by_its_id_out_here(self):
        seen = self.look()
        self.assertEqual([frame["rank"] for frame in seen["frames"]], list(range(RANKS)))
        for kind in ("frames", "processes"):
            self.assertEqual([file["pid"] for file in seen[kind]], [1] * RANKS)
            self.assertEqual(len({file["pid_namespace"] for file in seen[kind]}), RANKS)
            self.assertEqual([file["process"] for file in seen[kind]], ["running"] * RANKS)

        pid = child_of(self.ranks[1].pid)
        self.assertEqual([frame["rank"] for frame in self.look("--pid", str(pid))["frames"]], [1])
        tuned = self.ccld("tune", "--pid", str(pid), "--dir", self.frames_folder, "sample_us=2000")
        self.assertEqual(tuned.returncode, 0, tuned.stdout)
        of_namespace = {frame["pid_namespace"]: frame["rank"] for frame in seen["frames"]}
        periods = {of_namespace[p["pid_namespace"]]: p["probe"]["sample_us"] for p in self.look()["processes"]}
        self.assertEqual(periods, {0: 1000, 1: 2000, 2: 1000})

        os.kill(pid, signal.SIGSTOP)
        self.assertTrue(wait_for(lambda: self.state_of(1) == "stopped", 20))
        self.assertEqual(self.state_of(0), "running")
        os.kill(pid, signal.SIGKILL)
        self.ranks[1].wait(20)
        # Whoever cannot look into all namespaces does not know whether it lives in one of those.
        self.assertIn(self.state_of(1), ("gone", "not seen"))


if __name__ == "__main__":
    BUILD = Build(sys.argv.pop(1)).check()
    if subprocess.run(IN_A_CONTAINER + ["true"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0:
        print("pid namespaces cannot be made here: as root, with unshare of util-linux")
        sys.exit(SKIPPED)
    unittest.main()
