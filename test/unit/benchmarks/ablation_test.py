#!/usr/bin/env python3
"""Tests of how ablate.py reads, varies and compares settings."""
import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "..", "benchmarks", "ablation"))

import ablate  # noqa: E402

TEXT = """rules = default  (default | paper)
    default: this project's rules
    because: of a reason
slow_theta = 3  (0.01 .. 1000000)
    a threshold (of the paper)
slow_repeat = 3  (a whole number, 1 .. 1000000)
    how often
whatif_recurs_min = 0.0625  (0 .. 1)
    a part
hang_suspect_s = 5  (0.05 .. 86400)
    long
layout_order = tp-dp-pp  (an order, e.g. tp-dp-pp)
    the order
"""


def setting(default, low=0.0, high=100.0, whole=False):
    return ablate.Setting("slow_x", default, low, high, whole)


class SettingsTest(unittest.TestCase):
    def test_numbers_are_read_with_range_and_kind(self):
        self.assertEqual([(each.name, each.default, each.low, each.high, each.whole) for each in ablate.parse_settings(TEXT)], [
            ("slow_theta", 3, 0.01, 1e6, False), ("slow_repeat", 3, 1, 1e6, True), ("whatif_recurs_min", 0.0625, 0, 1, False),
            ("hang_suspect_s", 5, 0.05, 86400, False)])

    def test_only_what_the_slow_rules_read_is_varied(self):
        self.assertEqual([each.name for each in ablate.of_slow_rules(ablate.parse_settings(TEXT))], ["slow_repeat", "whatif_recurs_min"])


class VariedTest(unittest.TestCase):
    def test_a_number_is_multiplied(self):
        self.assertEqual((ablate.varied(setting(0.05), 0.7), ablate.varied(setting(0.05), 1.4)), ("0.035", "0.07"))

    def test_a_whole_number_is_rounded_and_at_least_1_off(self):
        self.assertEqual((ablate.varied(setting(10, whole=True), 0.7), ablate.varied(setting(24, whole=True), 1.4)), ("7", "34"))
        self.assertEqual((ablate.varied(setting(1, whole=True), 0.7), ablate.varied(setting(1, whole=True), 1.4)), ("0", "2"))

    def test_it_stays_within_the_range_and_says_if_there_is_no_room(self):
        self.assertEqual(ablate.varied(setting(0.95, high=1.0), 1.4), "1")
        self.assertIsNone(ablate.varied(setting(1, low=1, whole=True), 0.7))

    def test_a_rule_is_left_out_by_a_value_that_its_setting_may_have(self):
        self.assertEqual(ablate.varied(setting(3)._replace(name="whatif_deviations_min"), ablate.WITHOUT), "0")
        self.assertIsNone(ablate.varied(setting(0)._replace(name="network_rate_min_mbit_s"), ablate.WITHOUT))
        self.assertIsNone(ablate.varied(setting(3)._replace(name="whatif_gpus_max"), ablate.WITHOUT))

    def test_the_value_of_a_recording_goes_before_the_default(self):
        self.assertEqual(ablate.varied(setting(10), 0.7, 2.5), "1.75")


class ComparedTest(unittest.TestCase):
    def test_both_directions_are_told(self):
        self.assertEqual(ablate.compared(["a/1", "a/2"], ["a/2", "b/3"]), {"became_wrong": ["b/3"], "became_right": ["a/1"]})

    def test_settings_are_shown_by_their_effect_and_those_without_are_named(self):
        def row(name, *wrong):
            return {"name": name, "variations": [{"factor": 0.7, "value": "1", "became_wrong": list(wrong), "became_right": []}]}
        lines = ablate.shown([row("quiet"), row("some", "sim/1"), row("much", "sim/1", "sim/2")]).split("\n")
        self.assertEqual([line.split()[0] for line in lines], ["setting", "much", "some", "nobody"])
        self.assertIn("quiet", lines[-1])


class MemoryTest(unittest.TestCase):
    def test_what_is_known_is_not_judged_again_unless_something_else_is_judged(self):
        with tempfile.TemporaryDirectory() as folder:
            path, calls = os.path.join(folder, "known.json"), []

            def work():
                calls.append(1)
                return ["sim/1"]
            self.assertEqual(ablate.Memory(path, "a").get("x", work), ["sim/1"])
            self.assertEqual(ablate.Memory(path, "a").get("x", work), ["sim/1"])
            self.assertEqual(len(calls), 1)
            ablate.Memory(path, "b").get("x", work)
            self.assertEqual(len(calls), 2)


if __name__ == "__main__":
    unittest.main()
