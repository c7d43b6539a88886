#!/usr/bin/env python3
"""Tests of what bench_scale.py says about its bars."""
import os
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "..", "benchmarks", "scale"))

import bench_scale  # noqa: E402


def row(ranks, **changes):
    values = {"ranks": ranks, "records_per_s_per_core": 3.5e6, "bytes_per_rank_communicator": 4000, "locate_ms_p50": 1.0,
              "trials": 4, "located_right": 4, "quiet": True, "ns_per_record": {"all": 300.0, "decode": 60.0},
              "bytes_per_record_on_the_wire": 13.0,
              "status": {"first_answer_ms": 40.0, "first_answer_bytes": 100000, "ranks_answer_bytes": 900000,
                         "page_bytes_max": 900000, "memory_ratio": 1.02}}
    values.update(changes)
    return values


class ScaleTest(unittest.TestCase):
    def test_nothing_is_missed_within_the_bars(self):
        self.assertEqual(bench_scale.missed([row(1024), row(131072, locate_ms_p50=249)]), [])

    def test_answers_about_large_jobs_have_bars(self):
        for change in ({"first_answer_ms": 101.0}, {"first_answer_bytes": 2 << 20}, {"page_bytes_max": 2 << 20}, {"memory_ratio": 1.3}):
            status = dict(row(1024)["status"], **change)
            self.assertEqual(len(bench_scale.missed([row(65536, status=status)])), 1, change)

    def test_each_bar_is_named_with_its_size(self):
        for change in ({"records_per_s_per_core": 2.9e6}, {"bytes_per_rank_communicator": 4097}, {"locate_ms_p50": 10.1},
                       {"located_right": 3}, {"quiet": False}, {"bytes_per_record_on_the_wire": 16.1},
                       {"ns_per_record": {"all": 300.0, "decode": 101.0}}):
            lines = bench_scale.missed([row(4096, **change)])
            self.assertEqual(len(lines), 1, change)
            self.assertIn("4096 ranks", lines[0])

    def test_cost_must_not_grow_with_the_number_of_ranks(self):
        lines = bench_scale.missed([row(4096, ns_per_record={"all": 100.0, "decode": 60.0}), row(131072, ns_per_record={"all": 151.0, "decode": 60.0})])
        self.assertEqual(len(lines), 1)
        self.assertIn("1.51 times", lines[0])
        lines = bench_scale.missed([row(1024, bytes_per_rank_communicator=1000), row(4096, bytes_per_rank_communicator=1510)])
        self.assertEqual(len(lines), 1)

    def test_what_a_cache_holds_is_no_measure_of_growth(self):
        self.assertEqual(bench_scale.missed([row(1024, ns_per_record={"all": 100.0, "decode": 60.0}), row(4096), row(131072)]), [])

    def test_the_bar_of_location_is_that_of_the_size(self):
        self.assertEqual(bench_scale.locate_bar_ms(1024), 10)
        self.assertEqual(bench_scale.locate_bar_ms(4096), 10)
        self.assertEqual(bench_scale.locate_bar_ms(65536), 125)
        self.assertEqual(bench_scale.locate_bar_ms(131072), 250)


if __name__ == "__main__":
    unittest.main()
