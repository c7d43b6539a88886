import os
import subprocess
import sys
import unittest
import unittest.mock

import paths  # noqa: F401
from run import other_work
from run.other_work import OtherWork, ticks_of_tree, until_told

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

    def test_what_tells_nothing_is_asked_again_and_what_may_come_of_other_work_only_if_there_was_some(self):
        for busy, expected in ((0.0, ["busy", "slow"]), (0.5, ["busy", "slow", "slow", "well"])):
            asked = []
            answers = iter(["busy", "slow", "slow", "well"])

            def ask():
                asked.append(next(answers))
                return asked[-1]
            with unittest.mock.patch.object(other_work.OtherWork, "part", lambda self, part=busy: part):
                self.assertEqual(until_told(ask, lambda answer: answer == "busy", lambda answer: answer == "slow"), expected[-1])
            self.assertEqual(asked, expected)

    def test_it_ends_with_the_last_answer(self):
        answers = iter(range(10))
        self.assertEqual(until_told(lambda: next(answers), lambda answer: True, lambda answer: False, attempts=3), 2)


if __name__ == "__main__":
    unittest.main()
