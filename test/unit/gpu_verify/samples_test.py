#!/usr/bin/env python3
"""Tests of overheads and bars."""
import sys
import unittest

sys.dont_write_bytecode = True
import paths  # noqa: E402,F401

from gpu_verify import samples  # noqa: E402
from gpu_verify.samples import MIB  # noqa: E402


def row(size, median, variant="on", launch="graph", wide=0.0):
    """`wide`: the middle half of the turns."""
    figures = {"median": median, "quarter": median - wide / 2, "three_quarters": median + wide / 2}
    return {"bytes": size, "title": "AllReduce Ring LL", "launch": launch, "overhead": {variant: figures}}


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

    def test_a_small_called_operation_whose_turns_lie_further_apart_than_the_bar_is_neither_within_nor_missed(self):
        for median in (-0.3, 0.001, 0.3):
            wide = row(8, median, launch="call", wide=0.021)
            self.assertEqual(samples.outcome(wide, wide["overhead"]["on"]), samples.CANNOT_BE_TOLD)
            self.assertEqual((samples.missed([wide]), samples.beyond_aim([wide]), samples.judged([wide], samples.WITHIN)), ([], 0, []))
        self.assertEqual(samples.cannot_be_told([row(8, 0.3, launch="call", wide=0.25)]),
                         ["AllReduce Ring LL, probe on: the middle half of the turns is 25.00 % wide (bar 2.00 %)"])

    def test_with_turns_that_agree_and_from_graphs_and_above_64_kib_there_is_a_verdict(self):
        for launch, size, wide in (("call", 8, 0.019), ("graph", 8, 0.5), ("call", 64 * MIB, 0.5)):
            for median, wanted in ((0.001, samples.WITHIN), (0.3, samples.MISSED)):
                judged = row(size, median, launch=launch, wide=wide)
                self.assertEqual(samples.outcome(judged, judged["overhead"]["on"]), wanted, (launch, size, median))
                self.assertEqual(samples.cannot_be_told([judged]), [])

    def test_sizes_without_a_bar_have_no_outcome(self):
        unjudged = row(64 << 10, 0.5, launch="call", wide=0.5)
        self.assertIsNone(samples.outcome(unjudged, unjudged["overhead"]["on"]))
        self.assertEqual((samples.missed([unjudged]), samples.cannot_be_told([unjudged])), ([], []))

    def test_within_the_bar_and_beyond_the_aim_is_counted(self):
        self.assertEqual(samples.beyond_aim([row(8, 0.004), row(8, 0.006), row(8, 0.03), row(64 * MIB, 0.002), row(MIB, 0.2)]), 2)

    def test_sizes_read_as_people_write_them(self):
        self.assertEqual([samples.size_text(size) for size in (8, 1024, 65536, 64 * MIB, 1 << 30)], ["8 B", "1 KiB", "64 KiB", "64 MiB", "1 GiB"])


if __name__ == "__main__":
    unittest.main()
