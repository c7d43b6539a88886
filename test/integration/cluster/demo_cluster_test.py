"""`make demo-cluster`: one incident through the loss of the node that leads, nothing left behind, and what it says without nats-server.

Usage: demo_cluster_test.py BUILD_FOLDER FOLDER_FOR_LOGS [unittest arguments]
"""
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "test", "support"))

from run import nats  # noqa: E402
from run.processes import state_of  # noqa: E402

BUILD = OUT = None
END_S = 60
# Histories are written through to the disk, and a disk that others keep busy takes seconds for that; this one is none.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


class DemoClusterTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="ccld-demo-cluster-", dir=MEMORY)
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def start(self, *more):
        command = [sys.executable, "-B", os.path.join(ROOT, "scripts", "demo-cluster"), "--build", BUILD, "--out", os.path.join(self.folder, "out")]
        demo = subprocess.Popen(command + list(more), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=dict(os.environ, TMPDIR=self.folder))
        self.addCleanup(demo.wait)
        self.addCleanup(demo.kill)
        return demo

    def keep_logs(self):
        shutil.rmtree(OUT, ignore_errors=True)
        shutil.copytree(self.folder, OUT)

    def test_one_incident_goes_on_at_another_node_when_the_one_that_leads_is_killed(self):
        demo = self.start()
        said, _ = demo.communicate()
        if demo.returncode != 0:
            self.keep_logs()
        self.assertEqual(demo.returncode, 0, said)
        told = re.findall(r"node (\w) tells incident (\d+) revision (\d+): H1 (\w+) rank 5 application", said)
        self.assertEqual({incident for _, incident, _, _ in told}, {"1"}, said)
        killed, = re.findall(r"kill -9 of node (\w)", said)
        self.assertEqual(told[0][0], killed, said)
        self.assertNotEqual(told[-1][0], killed, said)
        self.assertEqual((told[0][3], told[-1][3]), ("suspected", "confirmed"), said)
        self.assertIn("the history of node %s has incident 1: H1 confirmed" % killed, said)
        self.assertEqual(glob.glob(os.path.join(self.folder, "ccld-*")), [])

    def test_an_interrupted_demo_leaves_nothing_behind(self):
        demo = self.start()
        said = ""
        for line in demo.stdout:
            said += line
            if "healthy traffic" in line:
                break
        with open("/proc/%d/task/%d/children" % (demo.pid, demo.pid)) as file:
            children = [int(pid) for pid in file.read().split()]
        self.assertGreaterEqual(len(children), 3 + 3 + 8, said)
        demo.send_signal(signal.SIGINT)
        said += demo.communicate(timeout=END_S)[0]
        self.assertEqual(demo.returncode, 128 + signal.SIGINT, said)
        # A command that had just ended is a zombie until the system's first process has noticed that its parent is gone.
        self.assertEqual([pid for pid in children if state_of(pid) not in (None, "Z")], [])
        self.assertEqual(glob.glob(os.path.join(self.folder, "ccld-*")), [])

    def test_without_a_nats_server_one_line_says_what_to_install(self):
        demo = self.start("--nats-server", os.path.join(self.folder, "nats-server"))
        said, _ = demo.communicate(timeout=END_S)
        self.assertEqual(demo.returncode, 2)
        self.assertRegex(said, r"^demo-cluster: .*nats-server is not installed: apt-get install nats-server\n$")


if __name__ == "__main__":
    reason = nats.why_not()
    if reason:
        print("skipped: " + reason)
        sys.exit(77)
    BUILD, OUT = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
