#!/usr/bin/env python3
"""Tests of what single parts judge without running anything: cases, plans, the tool's summaries, what a bundle takes along."""
import os
import sys
import tempfile
import types
import unittest

sys.dont_write_bytecode = True
import paths  # noqa: E402,F401

from gpu_verify import bundle, counters, faults, functional, sanitizer, torch_demo  # noqa: E402
from gpu_verify.errors import VerifyError  # noqa: E402
from gpu_verify.layout import Layout  # noqa: E402


def layout(device):
    return Layout(device, "/build", "/pristine")


class FunctionalTest(unittest.TestCase):
    def test_a_tree_is_asked_only_for_what_it_has(self):
        self.assertEqual({case[0] for case in functional.cases("Tree", False)}, {"AllReduce"})
        self.assertEqual({case[0] for case in functional.cases("Ring", False)}, set(functional.TYPES))

    def test_other_bits_name_the_case_the_variant_and_the_ranks(self):
        class Process:
            def __init__(self, variant, digests):
                self.variant, self.digests = variant, digests

            def ask(self, command):
                return {"digests": self.digests}
        tally = functional.Tally()
        functional.compare_bits([Process("pristine", ["a", "b"]), Process("off", ["a", "b"]), Process("on", ["a", "c"])], "Ring LL", ("AllReduce", "f32", 1, 0), 1, tally)
        self.assertEqual(tally.problems, ["Ring LL: other bits than upstream's with the probe on, on rank 1"])
        self.assertEqual(tally.digests, 1)


class CountersTest(unittest.TestCase):
    def test_a_wrong_total_is_told_with_both_numbers(self):
        row = {"operation": "AllReduce", "count": 5, "rank": -1, "sent": 3, "received": 4, "expected_sent": 4, "expected_received": 4}
        self.assertEqual(counters.problem_of("Tree", "LL", row), "Tree LL AllReduce of 5, all ranks: 3 steps sent and 4 received, expected 4 and 4")


class FaultsTest(unittest.TestCase):
    def test_every_plan_is_a_good_one_and_says_what_is_right(self):
        for document in faults.FAULTS + (faults.HEALTHY,):
            plan = faults.load(document, layout("cuda"))
            self.assertEqual(bool(plan.expect), bool(plan.faults))
            self.assertEqual(plan.environment["CCLD_SHARE_GPUS"], "1")

    def test_the_quick_ones_are_some_of_them(self):
        self.assertLess(set(faults.QUICK), {document["name"] for document in faults.FAULTS})

    def test_every_class_that_a_gpu_allows_is_planted(self):
        classes = set()
        for document in faults.FAULTS:
            expected = document["expect"]["class"]
            classes.update([expected] if isinstance(expected, str) else expected)
        self.assertEqual(classes, {"H1", "H2", "H3", "S1"})


class SanitizerTest(unittest.TestCase):
    def test_errors_are_read_from_the_summary(self):
        self.assertEqual(sanitizer.errors_in("x\n========= ERROR SUMMARY: 0 errors\n"), 0)
        self.assertEqual(sanitizer.errors_in("========= ERROR SUMMARY: 12 errors"), 12)
        self.assertEqual(sanitizer.errors_in("========= RACECHECK SUMMARY: 7 hazards displayed (2 errors, 5 warnings)"), 2)

    def test_a_tool_that_did_not_come_to_its_end_counts_nothing(self):
        self.assertIsNone(sanitizer.errors_in("========= COMPUTE-SANITIZER\nkilled"))


class TorchTest(unittest.TestCase):
    REPORT = {"runs": [{"name": "a", "right": True, "why_wrong": None}, {"name": "b", "right": False, "why_wrong": "class H3"}]}

    def test_wrong_jobs_are_problems(self):
        result = torch_demo.judge(("a", "b"), self.REPORT, 1, "x")
        self.assertEqual((result.status, result.problems, result.not_run), ("missed", ["b: class H3"], []))

    def test_jobs_that_there_was_no_time_for_are_named(self):
        result = torch_demo.judge(("a", "b", "c"), {"runs": self.REPORT["runs"][:1]}, None, "x")
        self.assertEqual((result.status, result.not_run), ("not_run", ["b", "c"]))

    def test_an_end_without_a_report_is_a_problem_with_its_last_words(self):
        result = torch_demo.judge(("a",), None, 2, "torch-demo: no GPU")
        self.assertEqual((result.status, result.problems), ("missed", ["torch-demo ended with status 2: torch-demo: no GPU"]))


class BundleTest(unittest.TestCase):
    LDD = ("\tlinux-vdso.so.1 (0x1)\n\tlibzmq.so.5 => /usr/lib/libzmq.so.5 (0x2)\n\tlibc.so.6 => /lib/libc.so.6 (0x3)\n"
           "\tlibstdc++.so.6 => /lib/libstdc++.so.6 (0x4)\n\tlibcrypto.so.3 => /usr/lib/libcrypto.so.3 (0x5)\n\t/lib64/ld-linux-x86-64.so.2 (0x6)\n")

    def test_libraries_come_along_but_those_that_every_machine_has_in_its_own_version(self):
        self.assertEqual(bundle.libraries_of(self.LDD), {"libzmq.so.5": "/usr/lib/libzmq.so.5", "libcrypto.so.3": "/usr/lib/libcrypto.so.3"})

    def test_a_library_that_is_missing_here_is_named(self):
        with self.assertRaisesRegex(VerifyError, "libzmq.so.5"):
            bundle.libraries_of("\tlibzmq.so.5 => not found\n")

    def test_a_folder_that_is_somebody_elses_is_left_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            open(os.path.join(folder, "work"), "w").close()
            with self.assertRaisesRegex(VerifyError, "no bundle"):
                bundle.make(types.SimpleNamespace(), folder)
            self.assertEqual(os.listdir(folder), ["work"])

    def test_a_missing_build_says_how_to_make_it(self):
        with self.assertRaisesRegex(VerifyError, "make gpu-verify"):
            layout("cuda").check()


if __name__ == "__main__":
    unittest.main()
