#!/usr/bin/env python3
"""Tests of timing in turns, with processes that are not there."""
import sys
import types
import unittest
import unittest.mock

sys.dont_write_bytecode = True
import paths  # noqa: E402,F401

from gpu_verify import timing  # noqa: E402
from gpu_verify.errors import VerifyError  # noqa: E402
from gpu_verify.timing import Kind, Turns  # noqa: E402


class Process:
    def __init__(self, variant, us, asked, ran_as="Ring LL"):
        self.variant, self.us, self.asked, self.ran_as = variant, us, asked, ran_as

    def ask(self, command, timeout_s):
        self.asked.append((self.variant, command))
        return {"us": self.us, "ran_as": self.ran_as}


def turns_with(processes, over_after=99):
    turns = Turns.__new__(Turns)
    left = iter([False] * over_after + [True] * 99)
    turns._context = types.SimpleNamespace(quick=False, on_gpu=True, allowance=types.SimpleNamespace(is_over=lambda: next(left)))
    turns._processes = processes
    return turns


class TimingTest(unittest.TestCase):
    def setUp(self):
        self.asked = []
        self.processes = [Process("pristine", [10.0], self.asked), Process("off", [10.1], self.asked), Process("on", [10.2], self.asked)]

    def test_every_variant_comes_first_equally_often(self):
        turns_with(self.processes).measure(Kind("Ring", "LL"), 8, 3)
        self.assertEqual([variant for variant, _ in self.asked[::3]], ["pristine", "off", "on"])
        self.assertEqual({command for _, command in self.asked}, {"time AllReduce 8 100 3 call"})

    def test_turns_end_with_the_time_and_stay_pairs(self):
        measured = turns_with(self.processes, over_after=2).measure(Kind("Ring", "LL"), 8, 5)
        self.assertEqual({variant: len(samples) for variant, samples in measured.items()}, {"pristine": 2, "off": 2, "on": 2})

    def test_a_row_has_the_times_and_what_they_cost_beyond_the_base(self):
        measured = turns_with(self.processes).measure(Kind("Ring", "LL"), 8, 3)
        row = timing.row_of(Kind("Ring", "LL", "graph"), 8, "pristine", measured)
        self.assertEqual(row["title"], "AllReduce Ring LL 8 B in a graph")
        self.assertEqual(row["time"]["pristine"]["median_us"], 10.0)
        self.assertEqual({variant: figures["median"] for variant, figures in row["overhead"].items()}, {"off": 0.01, "on": 0.02})

    def test_what_nccl_ran_in_place_of_what_was_wanted_is_an_error(self):
        self.processes[2].ran_as = "Tree LL"
        with self.assertRaisesRegex(VerifyError, "Ring LL 8 B was wanted, and NCCL ran Tree LL"):
            turns_with(self.processes).measure(Kind("Ring", "LL"), 8, 1)


class RowsTest(unittest.TestCase):
    def rows(self, processes, over_after=99, fails_in=None):
        asked, started = [], []

        class FakeTurns:
            def __init__(self, context, variants, algorithm, protocol):
                started.append((algorithm, protocol))
                self.turns = turns_with([Process(variant, [10.0], asked) for variant in variants])

            def __enter__(self):
                if len(started) == fails_in:
                    raise VerifyError("broke")
                return self.turns

            def __exit__(self, *_):
                pass
        context = types.SimpleNamespace(allowance=types.SimpleNamespace(is_over=lambda: len(started) > over_after), show=lambda _: None)
        with unittest.mock.patch.object(timing, "Turns", FakeTurns):
            result = timing.measure_rows(context, ("pristine", "on"), "pristine", [("Ring", "LL")], lambda _: (8, 1 << 30), lambda _: ("call",), 15, processes)
        return result, started

    def test_small_sizes_come_from_several_processes_large_ones_from_the_first(self):
        (rows, problems, not_run), started = self.rows(3)
        self.assertEqual(len(started), 3)
        self.assertEqual([(row["bytes"], row["turns"]) for row in rows], [(8, 15), (1 << 30, 15)])
        self.assertEqual((problems, not_run), ([], []))

    def test_what_there_was_time_for_counts(self):
        (rows, _, not_run), started = self.rows(3, over_after=0)
        self.assertEqual(len(started), 1)
        self.assertEqual([(row["bytes"], row["turns"]) for row in rows], [(8, 5), (1 << 30, 15)])
        self.assertEqual(not_run, [])

    def test_what_breaks_later_leaves_what_was_measured(self):
        (rows, problems, not_run), _ = self.rows(2, fails_in=2)
        self.assertEqual([row["turns"] for row in rows], [8, 15])
        self.assertEqual((problems, not_run), (["broke"], []))


if __name__ == "__main__":
    unittest.main()
