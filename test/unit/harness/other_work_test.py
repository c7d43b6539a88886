import os
import subprocess
import sys
import unittest

import paths  # noqa: F401
from run.other_work import OtherWork, ticks_of_tree

# Uses a second of processor time, then says so and stays.
SPIN = "import time\nwhile time.process_time() < 1: pass\nprint(flush=True)\ninput()"
NESTED = "import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-c', %r]).returncode)" % SPIN
SECOND = os.sysconf("SC_CLK_TCK")


class OtherWorkTest(unittest.TestCase):
    def test_what_descendants_use_counts_while_they_live_and_after(self):
        before = ticks_of_tree(os.getpid())
        child = subprocess.Popen([sys.executable, "-c", NESTED], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        child.stdout.readline()
        self.assertGreaterEqual(ticks_of_tree(os.getpid()) - before, 0.9 * SECOND)
        child.communicate(b"\n")
        self.assertGreaterEqual(ticks_of_tree(os.getpid()) - before, 0.9 * SECOND)

    def test_what_others_use_does_not(self):
        used = OtherWork()
        other = subprocess.Popen([sys.executable, "-c", SPIN], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        other.stdout.readline()
        idle = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        self.assertLess(ticks_of_tree(idle.pid), 0.9 * SECOND)
        other.communicate(b"\n")
        idle.communicate(b"\n")
        self.assertTrue(0 <= used.part() <= 1)


if __name__ == "__main__":
    unittest.main()
