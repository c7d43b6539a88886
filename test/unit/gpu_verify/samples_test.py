#!/usr/bin/env python3
"""Tests of overheads and bars."""
import sys
import unittest

sys.dont_write_bytecode = True
import paths  # noqa: E402,F401

from gpu_verify import samples  # noqa: E402
from gpu_verify.samples import MIB  # noqa: E402


def row(size, median, variant="on"):
    return {"bytes": size, "title": "AllReduce Ring LL", "overhead": {variant: {"median": median, "quarter": median, "three_quarters": median}}}


class OverheadTest(unittest.TestCase):
    def test_a_card_that_gets_slower_over_time_is_no_overhead(self):
        base = [[100.0 * (1 + 0.1 * turn)] * 3 for turn in range(9)]
        ours = [[sample * 1.01 for sample in turn] for turn in base]
        self.assertAlmostEqual(samples.overhead(base, ours)["median"], 0.01, places=6)

    def test_one_turn_that_something_disturbed_changes_nothing(self):
        base = [[100.0, 100.0, 100.0] for _ in range(9)]
        ours = [[101.0, 101.0, 101.0] for _ in range(8)] + [[900.0, 900.0, 900.0]]
        self.assertAlmostEqual(samples.overhead(base, ours)["median"], 0.01, places=6)

    def test_quartiles_show_how_far_turns_lie_apart(self):
        base = [[100.0] for _ in range(5)]
        ours = [[100.0 + i] for i in range(5)]
        figures = samples.overhead(base, ours)
        self.assertEqual((figures["quarter"], figures["median"], figures["three_quarters"]), (0.01, 0.02, 0.03))

    def test_turns_that_do_not_pair_are_refused(self):
        with self.assertRaises(ValueError):
            samples.overhead([[1.0]], [[1.0], [1.0]])


class BarsTest(unittest.TestCase):
    def test_eight_bytes_and_64_mib_to_1_gib_are_judged_and_nothing_between(self):
        self.assertEqual(samples.bar_of(8), (0.02, 0.005))
        for size in (64 * MIB, 1024 * MIB):
            self.assertEqual(samples.bar_of(size), (0.0045, 0.001))
        for size in (16, 16 * MIB, 2048 * MIB):
            self.assertIsNone(samples.bar_of(size))

    def test_a_figure_on_the_bar_is_within_it(self):
        self.assertEqual(samples.missed([row(8, 0.02), row(64 * MIB, 0.0045), row(MIB, 0.5)]), [])

    def test_a_missed_bar_names_operation_variant_and_both_numbers(self):
        lines = samples.missed([row(64 * MIB, 0.0046, "off")])
        self.assertEqual(lines, ["AllReduce Ring LL, probe off: +0.46 % (bar 0.45 %)"])

    def test_within_the_bar_and_beyond_the_aim_is_counted(self):
        self.assertEqual(samples.beyond_aim([row(8, 0.004), row(8, 0.006), row(8, 0.03), row(64 * MIB, 0.002), row(MIB, 0.2)]), 2)

    def test_sizes_read_as_people_write_them(self):
        self.assertEqual([samples.size_text(size) for size in (8, 1024, 65536, 64 * MIB, 1 << 30)], ["8 B", "1 KiB", "64 KiB", "64 MiB", "1 GiB"])


if __name__ == "__main__":
    unittest.main()
