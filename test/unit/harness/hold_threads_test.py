import os
import subprocess
import sys
import tempfile
import time
import unittest

import paths
from run.processes import Child, wait_for

HOLDER = os.path.join(paths.SUPPORT, "faults", "hold_threads.py")
# Two threads that count, each in its own byte of a file; the second has a name of its own.
COUNTERS = """
import ctypes, mmap, os, sys, threading, time
counts = mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 2)
def count(which):
    while True:
        counts[which] = (counts[which] + 1) % 256
        time.sleep(0.001)
def named():
    ctypes.CDLL(None).prctl(15, b"worker", 0, 0, 0)
    count(1)
threading.Thread(target=named, daemon=True).start()
count(0)
"""


class HoldThreadsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.counts = os.path.join(self.folder, "counts")
        with open(self.counts, "wb") as file:
            file.write(bytes(2))
        self.victim = Child("victim", [sys.executable, "-c", COUNTERS, self.counts], os.path.join(self.folder, "victim.log"))
        self.addCleanup(self.victim.end)
        self.assertTrue(wait_for(lambda: all(self.read()), 10))

    def read(self):
        with open(self.counts, "rb") as file:
            return tuple(file.read())

    def moves(self, which, within_s=10):
        before = self.read()[which]
        return bool(wait_for(lambda: self.read()[which] != before, within_s))

    def stands(self, which):
        return not self.moves(which, 0.5)

    def hold(self, *words, victim=None, says="held"):
        holder = Child("holder", [sys.executable, "-B", HOLDER, "--pid", str((victim or self.victim).pid)] + list(words), os.path.join(self.folder, "holder.log"))
        self.addCleanup(holder.end)
        if not wait_for(lambda: says in holder.last_lines(1) or holder.exit_status() is not None, 10) or holder.exit_status() is not None:
            if "permitted" in " ".join(holder.last_lines(1)):
                self.skipTest("tracing is not permitted here")
            self.fail(holder.last_lines(1))
        return holder

    def test_one_thread_stands_still_and_goes_on_when_its_holder_is_gone(self):
        holder = self.hold("--only", "worker")
        self.assertTrue(self.stands(1))
        self.assertTrue(self.moves(0))
        holder.end()
        self.assertTrue(self.moves(1))

    def test_all_but_the_named_ones_can_be_held(self):
        self.hold("--all-but", "worker")
        self.assertTrue(self.stands(0))
        self.assertTrue(self.moves(1))

    def test_a_held_part_of_a_period_slows_a_thread_and_does_not_stop_it(self):
        self.hold("--only", "worker", "--held-ms", "45", "--period-ms", "50")
        self.assertTrue(self.moves(1))
        before, begin = self.read(), time.monotonic()
        wait_for(lambda: (self.read()[0] - before[0]) % 256 > 100, 5)
        self.assertLess(time.monotonic() - begin, 5)
        self.assertLess((self.read()[1] - before[1]) % 256, 60)

    def test_a_thread_that_appears_later_is_awaited_and_held(self):
        go = os.path.join(self.folder, "go")
        text = "import os, time\nwhile not os.path.exists(%r): time.sleep(0.001)\n" % go + COUNTERS.replace("sys.argv[1]", repr(self.counts))
        self.victim.end()
        late = Child("late", [sys.executable, "-c", text], os.path.join(self.folder, "late.log"))
        self.addCleanup(late.end)
        holder = self.hold("--only", "worker", "--await", victim=late, says="awaited")
        open(go, "w").close()
        self.assertTrue(wait_for(lambda: "held" in holder.last_lines(1), 10))
        self.assertTrue(self.stands(1))
        self.assertTrue(self.moves(0))

    def test_a_thread_that_is_not_there_is_one_clear_line(self):
        done = subprocess.run([sys.executable, "-B", HOLDER, "--pid", str(self.victim.pid), "--only", "nobody"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no such thread: nobody", done.stdout)


if __name__ == "__main__":
    unittest.main()
