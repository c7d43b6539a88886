import os
import signal
import subprocess
import sys
import tempfile
import unittest

import paths
from run.processes import Child, SharedMemory, calls_of_blocks, runs_a_kernel, segments_of, state_of, wait_for, wait_while_moving

LAUNCHER = """
import sys
sys.path.insert(0, %r)
from run.processes import Child
print(Child("sleeper", ["sleep", "600"], sys.argv[1]).pid, flush=True)
sys.stdin.read()
""" % paths.SUPPORT

CLOCK_NANOSLEEP = "230"  # on x86-64

# A thread with the name of those that run blocks. It waits for work, and sleeps once a line comes.
BLOCK = """
import ctypes, sys, threading, time
work = threading.Lock()
work.acquire()
def run():
    ctypes.CDLL(None).prctl(15, b"ccld-block", 0, 0, 0)
    print("idle", flush=True)
    work.acquire()
    time.sleep(600)
threading.Thread(target=run, daemon=True).start()
sys.stdin.readline()
work.release()
sys.stdin.read()
"""


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


class KernelTest(unittest.TestCase):
    def test_a_gpu_is_in_a_kernel_while_a_thread_that_runs_blocks_does_not_wait_for_work(self):
        with subprocess.Popen([sys.executable, "-c", BLOCK], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            try:
                process.stdout.readline()
                self.assertTrue(wait_for(lambda: not runs_a_kernel(process.pid), 10))
                process.stdin.write(b"work\n")
                process.stdin.flush()
                # On its way to sleep it may wait for the interpreter, which looks like a wait for work.
                self.assertTrue(wait_for(lambda: calls_of_blocks(process.pid) == [CLOCK_NANOSLEEP], 10))
                process.send_signal(signal.SIGSTOP)
                self.assertTrue(wait_for(lambda: state_of(process.pid) == "T", 10))
                self.assertTrue(runs_a_kernel(process.pid))
            finally:
                process.kill()  # a stopped process would never end by itself


if __name__ == "__main__":
    unittest.main()
