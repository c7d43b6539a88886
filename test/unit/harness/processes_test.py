import os
import signal
import subprocess
import sys
import tempfile
import unittest

import paths
from run.processes import Child, SharedMemory, segments_of, state_of, wait_for, wait_while_moving

LAUNCHER = """
import sys
sys.path.insert(0, %r)
from run.processes import Child
print(Child("sleeper", ["sleep", "600"], sys.argv[1]).pid, flush=True)
sys.stdin.read()
""" % paths.SUPPORT


def gone(pid):
    return state_of(pid) in (None, "Z")


class Job:
    """One whose every look finds it one round further, up to the last."""

    def __init__(self, last):
        self.round, self.last = 0, last

    def look(self):
        self.round = min(self.round + 1, self.last)
        return self.round == 20


class WaitTest(unittest.TestCase):
    def test_who_gets_on_is_waited_for_however_long_it_takes(self):
        job = Job(20)
        self.assertTrue(wait_while_moving(job.look, lambda: job.round, 0.01, 0.002))

    def test_who_does_not_get_on_is_given_up(self):
        job = Job(19)
        self.assertFalse(wait_while_moving(job.look, lambda: job.round, 0.01, 0.002))
        self.assertEqual(job.round, 19)

    def test_a_time_limit_holds_whatever_moves(self):
        job = Job(10 ** 6)
        job.round = 20
        self.assertFalse(wait_for(job.look, 0.01, 0.002))


class ChildTest(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)
        self.log = os.path.join(self._folder.name, "log")

    def test_a_stopped_child_is_ended_and_reaped(self):
        child = Child("sleeper", ["sleep", "600"], self.log)
        child.signal(signal.SIGSTOP)
        self.assertTrue(wait_for(lambda: state_of(child.pid) == "T", 5))
        child.end()
        self.assertIsNone(state_of(child.pid))
        self.assertEqual(child.exit_status(), -signal.SIGKILL)

    def test_children_of_the_child_end_with_it(self):
        child = Child("shell", ["sh", "-c", "sleep 600 & echo $!; wait"], self.log)
        self.assertTrue(wait_for(lambda: child.last_lines(1)[0].isdigit(), 5))
        grandchild = int(child.last_lines(1)[0])
        child.end()
        self.assertTrue(wait_for(lambda: gone(grandchild), 5))

    def test_a_killed_launcher_takes_its_children_along(self):
        launcher = subprocess.Popen([sys.executable, "-B", "-c", LAUNCHER, self.log], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        pid = int(launcher.stdout.readline())
        self.assertFalse(gone(pid))
        launcher.kill()
        launcher.communicate()
        self.assertTrue(wait_for(lambda: gone(pid), 5))


class SharedMemoryTest(unittest.TestCase):
    def test_only_segments_of_watched_processes_are_removed(self):
        own, other = ("/dev/shm/nccl-test%d%s" % (os.getpid(), letter) for letter in "ab")
        frame = "/dev/shm/ccld-%d-0.frame" % os.getpid()
        for path in (own, other, frame):
            open(path, "w").close()
            self.addCleanup(lambda path=path: os.path.exists(path) and os.unlink(path))
        with open(own):
            self.assertEqual(segments_of(os.getpid()), {own})
            memory = SharedMemory()
            memory.watch([os.getpid()])
        self.assertEqual(memory.left_behind(), sorted([frame, own]))
        memory.remove()
        self.assertEqual(memory.left_behind(), [])
        self.assertTrue(os.path.exists(other))


if __name__ == "__main__":
    unittest.main()
