"""nccl-tests-faults finds faults planted into one GPU of a process that has them all, and refuses what cannot be planted."""
import json
import os
import unittest

import stand_in
from stand_in import Tool

FROZEN = {"name": "frozen", "title": "channel 1 of rank 2's GPU freezes", "ranks": 4, "workload": {"operation": "allreduce", "bytes_min": "256K"},
          "environment": {"NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple"},
          "faults": [{"kind": "freeze_channel", "rank": 2, "channel": 1, "after_round": 40}], "expect": {"class": "H3", "ranks": [2]}}


def demo_plan(name, **changes):
    with open(os.path.join(stand_in.ROOT, "test", "support", "faults", "plans", "demo", name + ".json")) as file:
        plan = json.load(file)
    plan["faults"][0].update(changes)
    return plan


class FaultsTest(unittest.TestCase):
    def test_a_frozen_channel_of_one_gpu_is_found(self):
        run = Tool(plan=FROZEN)
        self.assertEqual(run.status, 0, run)
        verdict = run.runs[0]["fault"]["verdict"]
        self.assertEqual((verdict["class"], [culprit["rank"] for culprit in verdict["culprits"]]), ("H3", [2]))
        self.assertEqual(run.left_behind, set())

    def test_it_is_found_where_the_ranks_are_threads(self):
        run = Tool("--threads", "4", plan=FROZEN)
        self.assertEqual(run.status, 0, run)

    def test_a_slow_gpu_is_found_with_the_demo_s_plan(self):
        # Beside other work that fills the machine a clock divided by 20 makes operations a sixth longer, no more.
        run = Tool(plan=demo_plan("s1", factor=60))
        self.assertEqual(run.status, 0, run)
        self.assertIn("nccl-tests has no compute_ms, seconds: left out", run.output)
        self.assertEqual([culprit["rank"] for culprit in run.runs[0]["fault"]["verdict"]["culprits"]], [6])

    def test_a_verdict_that_is_not_the_expected_one_is_wrong(self):
        run = Tool(plan=dict(FROZEN, expect={"class": "H3", "ranks": [1]}))
        self.assertEqual(run.status, 1, run)
        self.assertIn("names H3 confirmed rank 2 gpu", run.runs[0]["troubles"][0])

    def test_what_cannot_be_planted_is_refused_by_name(self):
        for name, words in (("h1", ("faults[0].kind: skip", "not ours to change")), ("s2", ("throttle_link", "network namespace"))):
            run = Tool("--plan", name)
            self.assertEqual(run.status, 2, run)
            for word in words:
                self.assertIn(word, run.errors)


if __name__ == "__main__":
    stand_in.main()
