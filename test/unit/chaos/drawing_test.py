import json
import unittest
from collections import Counter

import paths  # noqa: F401
import drawing
import events
from faults.plan import Plan

DRAWN = [drawing.draw(seed) for seed in range(1, 1001)]


class DrawingTest(unittest.TestCase):
    def test_the_same_seed_draws_the_same_and_another_one_something_else(self):
        self.assertEqual(drawing.draw(17), drawing.draw(17))
        self.assertEqual(len({json.dumps(each) for each in DRAWN}), len(DRAWN))

    def test_what_is_drawn_survives_json(self):
        for document in DRAWN:
            self.assertEqual(json.loads(json.dumps(document)), document)

    def test_every_plan_can_be_run_with_two_to_eight_ranks(self):
        for document in DRAWN:
            plan = Plan(document["plan"], "seed", {})
            self.assertTrue(2 <= plan.rank_count <= 8)
            self.assertFalse(plan.namespaces)
            self.assertEqual(bool(plan.faults), document["fault"] is not None)
            self.assertEqual(document["plan"]["workload"]["check"], 1)

    def test_every_kind_of_event_can_happen_and_is_drawn(self):
        self.assertEqual(set(drawing.EVENTS), set(events.KINDS))
        self.assertEqual({each["kind"] for document in DRAWN for each in document["events"]}, set(drawing.EVENTS))

    def test_no_fault_and_every_class_but_links_are_drawn(self):
        classes = Counter(document["fault"] and document["fault"]["class"] for document in DRAWN)
        self.assertEqual(set(classes), set(drawing.CLASS_WEIGHTS))
        self.assertGreater(classes[None], 250)

    def test_jobs_with_and_without_a_layout_and_irregular_ones_are_drawn(self):
        workloads = [document["plan"]["workload"] for document in DRAWN]
        self.assertTrue(any("tp" in each for each in workloads) and any("tp" not in each for each in workloads))
        self.assertTrue(any(each.get("irregular") for each in workloads))

    def test_a_fault_is_planted_before_within_and_after_the_events(self):
        planted = [(document["fault"], len(document["events"])) for document in DRAWN if document["fault"]]
        self.assertTrue(any(fault["event"] == count for fault, count in planted))
        self.assertTrue(any(fault["event"] < count and fault["part"] == 0 for fault, count in planted))
        self.assertTrue(any(fault["part"] > 0 for fault, count in planted))
        for fault, count in planted:
            self.assertTrue(0 <= fault["event"] <= count)
            if fault["class"] in drawing.ONLY_AFTERWARDS:
                self.assertEqual(fault["event"], count)

    def test_nothing_is_planted_before_the_calendar_of_the_service_is_right_again(self):
        for document in DRAWN:
            if document["fault"]:
                later = document["events"][document["fault"]["event"]:]
                self.assertNotIn("clock", [each["kind"] for each in later])

    def test_nothing_is_planted_where_a_rank_is_hidden(self):
        for document in DRAWN:
            if document["fault"]:
                self.assertFalse({each["kind"] for each in document["events"]} & set(drawing.HIDES_A_RANK))

    def test_durations_are_those_of_the_kind(self):
        for document in DRAWN:
            for each in document["events"]:
                _, least_s, most_s = drawing.EVENTS[each["kind"]]
                self.assertTrue(least_s - 0.1 <= each["hold_s"] <= most_s + 0.1)

    def test_a_quick_run_is_small_and_soon_over(self):
        for seed in range(1, 100):
            document = drawing.draw(seed, quick=True)
            self.assertEqual((document["plan"]["ranks"], len(document["events"])), (2, 1))
            self.assertLessEqual(document["events"][0]["hold_s"], 2)

    def test_a_line_says_what_is_drawn(self):
        for document in DRAWN[:50]:
            text = drawing.describe(document)
            self.assertIn("%d ranks" % document["plan"]["ranks"], text)
            for each in document["events"]:
                self.assertIn(each["kind"], text)


if __name__ == "__main__":
    unittest.main()
