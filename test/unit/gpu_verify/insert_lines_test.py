#!/usr/bin/env python3
"""Tests of extra lines put into upstream's files, patched or not (benchmarks/gpu/insert_lines.py)."""
import sys
import unittest

sys.dont_write_bytecode = True
import paths  # noqa: E402,F401

import insert_lines  # noqa: E402
from nccl_series import Hunk, SeriesError  # noqa: E402

UPSTREAM = ["one", "two", "three"]
EXTRA = [Hunk(0, 1, ["first"], "extra, hunk 1"), Hunk(2, 4, ["extra"], "extra, hunk 2")]


class InsertLinesTest(unittest.TestCase):
    def test_lines_go_behind_upstreams_line(self):
        self.assertEqual(insert_lines.with_insertions(UPSTREAM, [], EXTRA), ["first", "one", "two", "extra", "three"])

    def test_in_a_patched_file_they_go_before_what_the_series_inserted_there(self):
        series = [[Hunk(2, 3, ["ours"], "0001, hunk 1")], [Hunk(1, 2, ["also ours"], "0002, hunk 1")]]
        patched = ["one", "also ours", "two", "ours", "three"]
        self.assertEqual(insert_lines.with_insertions(patched, series, EXTRA), ["first", "one", "also ours", "two", "extra", "ours", "three"])

    def test_a_line_that_upstream_does_not_have_is_an_error(self):
        with self.assertRaisesRegex(SeriesError, "no line 4"):
            insert_lines.with_insertions(UPSTREAM, [], [Hunk(4, 5, ["x"], "extra, hunk 1")])


if __name__ == "__main__":
    unittest.main()
