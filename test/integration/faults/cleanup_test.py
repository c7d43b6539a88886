"""Nothing stays behind: processes, namespaces, files in /dev/shm, scratch folders; after Ctrl-C, termination, failure, and a killed launcher.

Usage: cleanup_test.py BUILD_FOLDER [unittest arguments]
"""
import glob
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "test", "support"))

from run.processes import segments_of, state_of, wait_for  # noqa: E402

RUN_PLAN = os.path.join(ROOT, "test", "support", "run", "run_plan.py")
BUILD = None
IS_ROOT = os.geteuid() == 0
PLAN = {
    "name": "endless", "title": "rank 1 stops", "within_s": 300, "network": "namespaces" if IS_ROOT else "loopback",
    "workload": {"operation": "allreduce", "bytes_min": "64K", "compute_ms": 5, "seconds": 600},
    "faults": [{"kind": "sigstop", "rank": 1, "after_round": 5}],
    "expect": {"class": "H1", "ranks": [1]},
}


def children_of(pid):
    with open("/proc/%d/task/%d/children" % (pid, pid)) as file:
        return [int(child) for child in file.read().split()]


def network_namespace_of(pid):
    return os.stat("/proc/%d/ns/net" % pid).st_ino


def network_namespaces():
    found = set()
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                found.add(network_namespace_of(int(name)))
            except OSError:
                pass
    return found


class CleanupTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.scratch = os.path.join(folder.name, "scratch")
        self.out = os.path.join(folder.name, "out")
        self.plan_path = os.path.join(folder.name, "plan.json")
        os.mkdir(self.scratch)

    def launch(self, plan):
        with open(self.plan_path, "w") as file:
            json.dump(plan, file)
        launcher = subprocess.Popen([sys.executable, "-B", RUN_PLAN, self.plan_path, "--build", BUILD, "--out", self.out],
                                    env=dict(os.environ, TMPDIR=self.scratch), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

        def end():
            launcher.kill()
            launcher.communicate()
        self.addCleanup(end)
        return launcher

    def launch_until_planted(self, plan):
        """Returns the launcher and what it has started by then."""
        launcher = self.launch(plan)
        for line in launcher.stdout:
            if line.startswith("planted"):
                break
        else:
            self.fail("the run ended early: " + launcher.stderr.read())
        children = children_of(launcher.pid)
        self.assertGreaterEqual(len(children), 9)
        self.assertIn("T", [state_of(child) for child in children])
        namespaces = {network_namespace_of(child) for child in children} - {network_namespace_of(os.getpid())}
        self.assertEqual(len(namespaces), 3 if IS_ROOT else 0)
        segments = set().union(*map(segments_of, children))
        return launcher, children, namespaces, segments

    def assert_nothing_left(self, children, namespaces, segments):
        self.assertTrue(wait_for(lambda: not [child for child in children if state_of(child) is not None], 10), "processes are left")
        self.assertTrue(wait_for(lambda: not namespaces & network_namespaces(), 10), "namespaces are left")
        self.assertEqual([path for path in segments if os.path.exists(path)], [])

    def assert_no_files_left(self, children):
        self.assertEqual([path for child in children for path in glob.glob("/dev/shm/ccld-%d[-.]*" % child)], [])
        self.assertEqual(os.listdir(self.scratch), [])

    def ended_by(self, number):
        launcher, children, namespaces, segments = self.launch_until_planted(PLAN)
        launcher.send_signal(number)
        _, errors = launcher.communicate(timeout=60)
        self.assertEqual(launcher.returncode, 128 + number, errors)
        self.assertEqual(len(errors.splitlines()), 1, errors)
        self.assert_nothing_left(children, namespaces, segments)
        self.assert_no_files_left(children)

    def test_after_an_interrupt(self):
        self.ended_by(signal.SIGINT)

    def test_after_a_termination(self):
        self.ended_by(signal.SIGTERM)

    def test_after_a_killed_launcher_no_process_and_no_namespace_is_left(self):
        launcher, children, namespaces, segments = self.launch_until_planted(PLAN)
        launcher.kill()
        launcher.communicate()
        try:
            self.assertTrue(wait_for(lambda: not [child for child in children if state_of(child) not in (None, "Z")], 10))
            self.assertTrue(wait_for(lambda: not namespaces & network_namespaces(), 10))
        finally:
            # Files are more than a killed launcher can promise to remove; they are ours to remove here.
            for path in [path for child in children for path in glob.glob("/dev/shm/ccld-%d[-.]*" % child)] + list(segments):
                if os.path.exists(path):
                    os.unlink(path)

    def test_after_a_failure_which_is_one_line(self):
        launcher, children, namespaces, segments = self.launch_until_planted(PLAN)
        service = next(child for child in children if self.command_of(child).endswith("ccld"))
        os.kill(service, signal.SIGKILL)
        _, errors = launcher.communicate(timeout=60)
        self.assertEqual(launcher.returncode, 2, errors)
        self.assertEqual(len(errors.splitlines()), 1, errors)
        self.assertIn("the decision service ended", errors)
        self.assert_nothing_left(children, namespaces, segments)
        self.assert_no_files_left(children)

    def test_a_wrong_setting_ends_the_run_in_one_line_that_names_it(self):
        launcher = self.launch(dict(PLAN, settings={"hang_suspect_s": "soon"}))
        _, errors = launcher.communicate(timeout=60)
        self.assertEqual(launcher.returncode, 2, errors)
        self.assertEqual(len(errors.splitlines()), 1, errors)
        self.assertIn("hang_suspect_s", errors)
        self.assertEqual(os.listdir(self.scratch), [])

    @staticmethod
    def command_of(pid):
        return os.readlink("/proc/%d/exe" % pid)


if __name__ == "__main__":
    BUILD = sys.argv.pop(1)
    unittest.main()
