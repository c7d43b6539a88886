#!/usr/bin/env python3
"""Tests of the report: its JSON, its tables, and what counts as good."""
import json
import os
import sys
import tempfile
import unittest
import unittest.mock

sys.dont_write_bytecode = True
import paths  # noqa: E402,F401

from gpu_verify import part, report  # noqa: E402
from gpu_verify.layout import Layout  # noqa: E402
from gpu_verify.part import Result, without_result  # noqa: E402

FACTS = {"device": "cuda", "quick": False, "commit": "abc", "date": "2026-01-31T00:00:00Z", "gpu": {"card": "NVIDIA H200", "driver": "580.1"}}
LAYOUT = Layout("cuda", "/ours", "/upstream")
TIMES = {"pristine": {"median_us": 10.0, "quarter_us": 9.0, "three_quarters_us": 11.0}, "on": {"median_us": 10.1, "quarter_us": 9.0, "three_quarters_us": 11.0}}
ROW = {"title": "t", "algorithm": "Ring", "protocol": "LL", "launch": "call", "bytes": 8, "turns": 3, "time": TIMES,
       "overhead": {"on": {"median": 0.01, "quarter": 0.005, "three_quarters": 0.02}}}


class ReportTest(unittest.TestCase):
    def test_a_part_that_was_skipped_is_good_and_one_without_time_is_not(self):
        passed = ("functional", Result(), 1.0)
        self.assertTrue(report.all_good([passed, ("torch", without_result(part.SKIPPED, "no torch"), 0.0)]))
        for result in (without_result(part.NOT_RUN, "no time"), without_result(part.FAILED, "broke"), Result(problems=["x"]), Result(not_run=["y"])):
            self.assertFalse(report.all_good([passed, ("other", result, 0.0)]))

    def test_a_problem_weighs_more_than_what_there_was_no_time_for(self):
        self.assertEqual(Result(problems=["x"], not_run=["y"]).status, part.MISSED)
        self.assertEqual(Result(not_run=["y"]).status, part.NOT_RUN)

    def test_the_file_names_card_driver_date_commit_and_every_part(self):
        results = [("cost", Result({"rows": [ROW]}, [], [], "fine"), 12.34), ("torch", without_result(part.SKIPPED, "no torch"), 0.0)]
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "new", "gpu.json")
            report.write(path, report.document(FACTS, results, 13.0))
            with open(path) as file:
                read = json.load(file)
            self.assertEqual(os.listdir(os.path.dirname(path)), ["gpu.json"])
        self.assertEqual((read["gpu"]["card"], read["gpu"]["driver"], read["commit"], read["date"]), ("NVIDIA H200", "580.1", "abc", "2026-01-31T00:00:00Z"))
        self.assertTrue(read["all_good"])
        self.assertEqual(read["parts"]["cost"]["rows"], [ROW])
        self.assertEqual(read["parts"]["cost"]["seconds"], 12.3)
        self.assertEqual(read["parts"]["torch"], {"status": "skipped", "summary": "no torch", "problems": [], "not_run": [], "seconds": 0.0})

    def test_the_text_has_the_figures_and_every_problem(self):
        fault = {"planted": {"class": "H1", "detail": "rank 1 stops"}, "verdict": {"class": "H3"}, "right": False, "why_wrong": "class H3 instead of H1", "was_run": True}
        results = [("cost", Result({"rows": [ROW], "places": [dict(ROW, title="p")]}, ["too slow"], ["1 GiB"], "one missed"), 5.0),
                   ("faults", Result({"runs": [fault]}, ["h1: wrong"], [], "0 of 1"), 5.0), ("torch", without_result(part.NOT_RUN, "no time was left for it"), 0.0)]
        text = report.text(FACTS, results)
        for piece in ("NVIDIA H200, driver 580.1", "commit abc", "+1.00 (+0.50 to +2.00)", "where the cost is\n", "cost: too slow", "cost: no time for 1 GiB",
                      "NO: class H3 instead of H1", "faults: h1: wrong", "torch: no time was left for it"):
            self.assertIn(piece, text)

    def test_trials_have_a_line_for_each_library_of_each_row(self):
        other = dict(ROW, title="u", time=dict(TIMES, trial_x=TIMES["on"]), overhead={"trial_x": ROW["overhead"]["on"]})
        text = report.text(FACTS, [("trials", Result({"rows": [ROW, other]}), 5.0)])
        self.assertRegex(text, r"t +on +10\.1 +\+1\.00 \(\+0\.50 to \+2\.00\)\nu +trial_x +10\.1 ")

    def test_a_figure_that_cannot_be_told_says_so_in_the_table(self):
        self.assertIn("(+0.50 to +2.00), cannot be told", report.timing_table([dict(ROW, outcome={"on": "cannot be told"})]))
        for row in (ROW, dict(ROW, outcome={"on": "missed"}), dict(ROW, outcome={"on": None})):
            self.assertNotIn("cannot be told", report.timing_table([row]))

    def test_without_nvidia_smi_the_card_is_what_a_process_saw(self):
        with unittest.mock.patch.object(report, "card_facts", return_value={}):
            facts = report.facts("cuda", False, LAYOUT)
        report.add_environment(facts, Result({"seen": {"device": "NVIDIA H200", "cuda_driver": 13000}, "transport": "direct pointers"}))
        self.assertEqual(facts["gpu"], {"card": "NVIDIA H200", "driver": "for CUDA 13.0"})
        self.assertEqual(facts["transport"], "direct pointers")

    def test_a_long_list_is_cut_for_people_only(self):
        names = ["case %d" % i for i in range(9)]
        text = report.text(FACTS, [("functional", Result(not_run=names), 1.0)])
        self.assertIn("no time for case 0, case 1, case 2, case 3, case 4, case 5 and 3 more", text)
        self.assertEqual(Result(not_run=names).report()["not_run"], names)

    def test_columns_stand_below_one_another(self):
        self.assertEqual(report.table([("a", "b"), ("long", "c")]), "a     b\nlong  c")

    def test_a_report_of_the_cpu_device_says_so(self):
        facts = report.facts("cpu", True, LAYOUT)
        self.assertIn("CPU device", facts["note"])
        self.assertNotIn("upstream", facts)
        self.assertIn("our library", report.facts("cpu", True, Layout("cpu", "/ours", "/ours"))["upstream"])
        self.assertNotIn("gpu", facts)


if __name__ == "__main__":
    unittest.main()
