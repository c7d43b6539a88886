#!/usr/bin/env python3
"""Tests of the shares of the run's time."""
import signal
import sys
import time
import unittest

sys.dont_write_bytecode = True
import paths  # noqa: E402,F401

from gpu_verify.errors import OutOfTime, VerifyError  # noqa: E402
from gpu_verify.schedule import Allowance, Schedule, hard_limit  # noqa: E402


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


class ScheduleTest(unittest.TestCase):
    def setUp(self):
        self.clock = Clock()
        self.schedule = Schedule([("a", 10), ("b", 30)], 40, self.clock)

    def test_what_one_part_leaves_over_is_the_next_ones(self):
        self.clock.now += 2
        self.assertEqual(Allowance(self.schedule, "b").left_s(), 38)

    def test_a_part_that_takes_too_long_does_not_eat_the_next_ones_share(self):
        first = Allowance(self.schedule, "a")
        self.assertEqual(first.limit(60), 10)
        self.clock.now += 10
        self.assertTrue(first.is_over())
        with self.assertRaises(OutOfTime):
            first.limit(1)
        self.assertEqual(Allowance(self.schedule, "b").left_s(), 30)

    def test_a_part_ends_early_when_what_it_needs_no_longer_fits(self):
        self.clock.now += 7
        first = Allowance(self.schedule, "a")
        self.assertTrue(first.is_over(needed_s=3))
        self.assertFalse(first.is_over(needed_s=2))

    def test_shares_fill_the_time_that_there_is(self):
        schedule = Schedule([("a", 10), ("b", 30)], 400, self.clock)
        self.assertEqual(schedule.left_s("a"), 100)
        self.assertEqual(schedule.left_s("b"), 400)

    def test_a_deadline_that_is_no_time_is_refused_by_name(self):
        with self.assertRaisesRegex(VerifyError, "--deadline-s"):
            Schedule([("a", 1)], 0, self.clock)


class HardLimitTest(unittest.TestCase):
    def test_what_no_wait_limits_is_ended_after_the_parts_time(self):
        begin = time.monotonic()
        with self.assertRaisesRegex(OutOfTime, "it hung"):
            with hard_limit(Allowance(Schedule([("a", 1)], 0.01, time.monotonic), "a"), grace_s=0.05):
                time.sleep(60)
        self.assertLess(time.monotonic() - begin, 5)

    def test_who_is_done_in_time_is_left_alone(self):
        with hard_limit(Allowance(Schedule([("a", 1)], 60, time.monotonic), "a")):
            pass
        self.assertEqual(signal.getitimer(signal.ITIMER_REAL)[0], 0)


if __name__ == "__main__":
    unittest.main()
