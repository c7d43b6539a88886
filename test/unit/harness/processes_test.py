import os
import signal
import subprocess
import sys
import tempfile
import unittest

import paths
from run.processes import Child, SharedMemory, segments_of, state_of, wait_for

LAUNCHER = """
import sys
sys.path.insert(0, %r)
from run.processes import Child
print(Child("sleeper", ["sleep", "600"], sys.argv[1]).pid, flush=True)
sys.stdin.read()
""" % paths.SUPPORT


def gone(pid):
    return state_of(pid) in (None, "Z")


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
