#!/usr/bin/env python3
"""Tests of what test/golden/slow_cases.py says about cases and the list of wrong ones."""
import os
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "golden"))

import slow_cases  # noqa: E402

PLAN = {"expect": {"class": "S1", "ranks": [3]}}


def case(case_id, watch=True, part="chosen"):
    return slow_cases.Case(case_id, part, "start", "S1", "late_host", "Ring", "Simple", 8, PLAN, {} if watch else None)


def score(right=True):
    return {"detected": right, "class_right": right, "rank_right": right, "component_right": right, "false_alarms": 0, "said": "something"}


class DifferencesTest(unittest.TestCase):
    def differences(self, right, known):
        cases = [case("a@1"), case("b@1")]
        return slow_cases.differences(cases, {"a@1": score(right), "b@1": score()}, known)

    def test_wrong_ones_that_are_known_are_no_difference(self):
        self.assertEqual(self.differences(False, {"a@1"}), [])
        self.assertEqual(self.differences(True, set()), [])

    def test_one_that_became_wrong_is_named_with_what_was_said(self):
        lines = self.differences(False, set())
        self.assertEqual(len(lines), 1)
        self.assertIn("became wrong: a@1", lines[0])
        self.assertIn("something", lines[0])

    def test_one_that_became_right_is_named_with_the_line_to_remove(self):
        lines = self.differences(True, {"a@1"})
        self.assertEqual(len(lines), 1)
        self.assertIn('remove the line "a@1"', lines[0])

    def test_the_list_names_no_cases_that_are_gone(self):
        self.assertIn("no such case", self.differences(True, {"c@1"})[0])


class CasesTest(unittest.TestCase):
    def test_a_healthy_case_is_right_without_incidents(self):
        quiet, alarm = {"false_alarms": 0, "said": "nothing"}, {"false_alarms": 1, "said": "S1"}
        self.assertEqual(slow_cases.wrong_ids({"a": quiet, "b": alarm}), {"b"})
        self.assertIn("right", slow_cases.line(case("a", watch=False), quiet))
        self.assertIn("WRONG", slow_cases.line(case("b", watch=False), alarm))

    def test_both_halves_are_counted_apart(self):
        cases = [case("a", part="chosen"), case("b", part="judged"), case("c", part="judged")]
        rows = [line.split() for line in slow_cases.summary(cases, {"a": score(), "b": score(), "c": score(False)}).split("\n")]
        self.assertEqual([row[:3] for row in rows[1:]], [["chosen", "1", "1"], ["judged", "2", "1"]])

    def test_every_case_has_its_recording_its_name_decides_on_its_half_and_both_halves_have_all_classes(self):
        cases = slow_cases.read_index().values()
        for each in cases:
            self.assertTrue(os.path.exists(slow_cases.recording_of(each)), each.id)
            self.assertEqual(each.part, slow_cases.part_of(each.id))
        names = {os.path.basename(slow_cases.recording_of(each)) for each in cases}
        self.assertEqual({name for name in os.listdir(slow_cases.FOLDER) if name.endswith(".ccldrec")}, names)
        for part in slow_cases.PARTS if cases else ():
            self.assertLessEqual({"S1", "S2", "S3"}, {each.fault_class for each in cases if each.part == part})


if __name__ == "__main__":
    unittest.main()
