import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import rewrite_rules
from ptx_calls import TransformError
from rewrite_rules import Rule

RULE = Rule("spin", "a.h", r"spin\(\)", "yield()", 2, "fibers")


class ApplyTest(unittest.TestCase):
    def test_a_rule_replaces_every_place_in_its_file(self):
        self.assertEqual(rewrite_rules.apply("a.h", "spin(); spin();", [RULE]), "yield(); yield();")

    def test_a_rule_leaves_other_files_alone(self):
        self.assertEqual(rewrite_rules.apply("b.h", "spin();", [RULE]), "spin();")

    def test_a_rule_that_is_found_more_or_less_often_than_expected_is_an_error_that_names_it(self):
        for text in ("", "spin();", "spin(); spin(); spin();"):
            expected = "rewrite rule 'spin' was found %d times in a.h" % text.count("spin")
            with self.assertRaisesRegex(TransformError, expected):
                rewrite_rules.apply("a.h", text, [RULE])

    def test_a_rule_for_a_file_that_upstream_dropped_is_an_error(self):
        with self.assertRaisesRegex(TransformError, "no src/device/a.h"):
            rewrite_rules.check_files(["b.h"], [RULE])

    def test_every_rule_says_why_it_exists_and_has_a_name_of_its_own(self):
        names = [rule.name for rule in rewrite_rules.RULES]
        self.assertEqual(len(names), len(set(names)))
        for rule in rewrite_rules.RULES:
            self.assertGreater(len(rule.why), 20)
            self.assertGreater(rule.count, 0)


if __name__ == "__main__":
    unittest.main()
