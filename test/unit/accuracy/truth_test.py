import unittest
from collections import namedtuple

import paths  # noqa: F401
from truth import classes_of_stop

Slot = namedtuple("Slot", "entered_round completed_round")


class TruthTest(unittest.TestCase):
    def test_stopped_inside_an_operation_that_nobody_can_finish_is_a_hang_inside(self):
        self.assertEqual(classes_of_stop(1, [Slot(8, 7), Slot(8, 7), Slot(8, 7)], in_kernel=True), ("H3",))

    def test_stopped_after_it_gave_what_the_others_needed_is_missing_in_the_next_one(self):
        self.assertEqual(classes_of_stop(1, [Slot(9, 8), Slot(8, 7), Slot(9, 8)], in_kernel=True), ("H1",))

    def test_when_some_can_finish_without_it_and_some_cannot_both_are_true(self):
        self.assertEqual(classes_of_stop(1, [Slot(8, 7), Slot(8, 7), Slot(9, 8)], in_kernel=True), ("H3", "H1"))

    def test_stopped_between_two_operations_is_missing_in_the_next_one(self):
        self.assertEqual(classes_of_stop(1, [Slot(8, 7), Slot(7, 7), Slot(8, 7)], in_kernel=True), ("H1",))

    def test_stopped_while_its_proxy_still_sends_what_others_lack_hangs_inside_or_is_missing_in_the_next_one(self):
        self.assertEqual(classes_of_stop(1, [Slot(9, 8), Slot(8, 8), Slot(8, 7)], in_kernel=False), ("H1", "H3"))

    def test_stopped_with_a_call_that_its_gpu_may_not_have_begun_is_missing_in_it_or_hangs_inside(self):
        self.assertEqual(classes_of_stop(1, [Slot(8, 7), Slot(8, 7), Slot(8, 7)], in_kernel=False), ("H1", "H3"))
        self.assertEqual(classes_of_stop(1, [Slot(9, 8), Slot(8, 7), Slot(9, 8)], in_kernel=False), ("H1",))


if __name__ == "__main__":
    unittest.main()
