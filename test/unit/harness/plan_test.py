import glob
import os
import unittest

import paths
from faults.plan import ALL_KINDS, Plan, PlanError, load, read_json

MINIMAL = {"name": "x", "title": "x"}
FAULTY = dict(MINIMAL, faults=[{"kind": "skip", "rank": 3}], expect={"class": "H1", "ranks": [3]})


class PlanTest(unittest.TestCase):
    def refused(self, document, *words):
        with self.assertRaises(PlanError) as caught:
            Plan(document, "plan.json")
        for word in ("plan.json",) + words:
            self.assertIn(word, str(caught.exception))

    def test_a_plan_without_faults_is_healthy_traffic(self):
        plan = Plan(MINIMAL, "plan.json")
        self.assertEqual(plan.faults, [])
        self.assertIsNone(plan.expect)
        self.assertEqual(plan.rank_count, 8)

    def test_what_is_left_out_gets_its_default(self):
        fault = Plan(FAULTY, "plan.json").faults[0]
        self.assertEqual((fault.rank, fault.watch_rank, fault.after_round, fault.arguments), (3, 3, 0, {"rounds": 1}))

    def test_workload_options_become_arguments(self):
        plan = Plan(dict(MINIMAL, workload={"bytes_min": "4K", "check": 1, "compute_ms": 5}), "plan.json")
        self.assertEqual(plan.workload_arguments(), ["-b", "4K", "-c", "1", "--compute-ms", "5.0"])

    def test_settings_of_the_plan_win_over_the_common_ones(self):
        plan = Plan(dict(MINIMAL, settings={"a": 1}), "plan.json", {"a": "0", "b": "2"})
        self.assertEqual(plan.settings, {"a": "1", "b": "2"})

    def test_errors_name_the_field(self):
        self.refused({"title": "x"}, "name", "missing")
        self.refused(dict(MINIMAL, nmae="x"), "nmae", "not known")
        self.refused(dict(MINIMAL, network="vlan"), "network", "vlan")
        self.refused(dict(MINIMAL, workload={"bytes": "1M"}), "workload.bytes")
        self.refused(dict(FAULTY, faults=[{"kind": "nap", "rank": 1}]), "faults[0].kind", "nap")
        self.refused(dict(FAULTY, faults=[{"kind": "skip", "rank": 8}]), "faults[0].rank")
        self.refused(dict(FAULTY, faults=[{"kind": "delay", "rank": 1}]), "faults[0].ms", "missing")
        self.refused(dict(FAULTY, faults=[{"kind": "delay", "rank": 1, "ms": "10"}]), "faults[0].ms", "number")
        self.refused(dict(FAULTY, faults=[{"kind": "cut_link", "node": 0}]), "namespaces")
        self.refused(dict(FAULTY, expect={"class": "H4", "ranks": [1]}), "expect.class")
        self.refused(dict(FAULTY, expect={"class": "H1"}), "expect.ranks")
        self.refused(dict(MINIMAL, expect={"class": "H1", "ranks": [1]}), "expect")

    def test_a_fault_is_planted_before_a_round_or_in_running_traffic(self):
        plan = Plan(dict(FAULTY, faults=[{"kind": "slow_clock", "rank": 3, "factor": 4, "before_round": 2}]), "plan.json")
        self.assertEqual((plan.held_round(), plan.faults[0].before_round), (2, 2))
        self.assertEqual((Plan(FAULTY, "plan.json").held_round(), Plan(MINIMAL, "plan.json").held_round()), (0, 0))
        self.refused(dict(FAULTY, faults=[{"kind": "skip", "rank": 3, "before_round": 2, "after_round": 1}]), "faults[0].before_round")
        self.refused(dict(FAULTY, faults=[{"kind": "sigstop", "rank": 3, "before_round": 2, "in_operation": 1}]), "in_operation")
        self.refused(dict(FAULTY, faults=[{"kind": "skip", "rank": 3, "before_round": 2}, {"kind": "skip", "rank": 4}]), "same before_round")

    def test_more_than_one_class_and_component_can_be_right(self):
        expect = Plan(dict(FAULTY, expect={"class": ["H3", "H1"], "ranks": [3], "rank_components": ["gpu"], "comm_name": "tp1"}), "plan.json").expect
        self.assertEqual((expect.fault_class, expect.classes), ("H3", ("H3", "H1")))
        self.assertEqual((expect.rank_components, expect.link_components, expect.comm_name), ({"gpu"}, frozenset(), "tp1"))
        self.refused(dict(FAULTY, expect={"class": ["H3", "H9"], "ranks": [3]}), "expect.class")
        self.refused(dict(FAULTY, expect={"class": "H1", "ranks": [3], "rank_components": ["disk"]}), "expect.rank_components", "gpu")

    def test_what_a_fault_may_leave_out_stays_out(self):
        layout = {"tp": 2, "pp": 2, "dp": 2}
        fault = Plan(dict(FAULTY, workload=layout, faults=[{"kind": "skip", "rank": 3, "comm": "dp"}]), "plan.json").faults[0]
        self.assertEqual(fault.arguments, {"rounds": 1, "comm": "dp"})
        self.assertEqual(Plan(FAULTY, "plan.json").faults[0].arguments, {"rounds": 1})

    def test_a_layout_and_the_faults_of_its_communicators_are_checked(self):
        self.refused(dict(MINIMAL, workload={"tp": 2, "dp": 2}), "workload", "4", "8 ranks")
        self.refused(dict(FAULTY, faults=[{"kind": "skip", "rank": 3, "comm": "dp"}]), "faults[0].comm", "layout")
        self.refused(dict(FAULTY, workload={"dp": 8}, faults=[{"kind": "skip", "rank": 3, "comm": "cp"}]), "faults[0].comm", "world")

    def test_shares_and_held_times_must_be_possible(self):
        self.refused(dict(FAULTY, faults=[{"kind": "cpu_quota", "rank": 3, "share": 1.5}]), "faults[0].share")
        self.refused(dict(FAULTY, faults=[{"kind": "pauses", "rank": 3, "ms": 10, "share": 0}]), "faults[0].share")
        self.refused(dict(FAULTY, faults=[{"kind": "cpu_quota", "rank": 3, "share": 0.1, "jitter": 1}]), "faults[0].jitter")
        self.refused(dict(FAULTY, faults=[{"kind": "slow_proxy", "rank": 3, "held_ms": 20, "period_ms": 10}]), "faults[0].held_ms")

    def test_options_without_a_value_are_given_or_not(self):
        plan = Plan(dict(MINIMAL, workload={"irregular": True, "overlap": False, "seconds": 5}), "plan.json")
        self.assertEqual(plan.workload_arguments(), ["--irregular", "--seconds", "5.0"])
        self.refused(dict(MINIMAL, workload={"irregular": 1}), "workload.irregular", "true or false")

    def test_a_link_is_planted_at_both_its_ends(self):
        document = dict(MINIMAL, network="namespaces", faults=[{"kind": "throttle_link", "node": 0, "rate": "1mbit"}],
                        expect={"class": "S3", "ranks": [1], "links": [[3, 4]]})
        self.assertEqual(Plan(document, "plan.json").planted_ranks(), [1, 3, 4])

    def test_every_plan_of_the_repository_is_valid_and_every_kind_is_documented(self):
        folder = os.path.join(paths.SUPPORT, "faults")
        files = glob.glob(os.path.join(folder, "plans", "*", "*.json"))
        self.assertGreater(len(files), 10)
        for file in files:
            plan = load(file)
            self.assertEqual(plan.name + ".json", os.path.basename(file))
        read_json(os.path.join(folder, "plans", "thresholds.json"))
        with open(os.path.join(folder, "README.md")) as readme:
            text = readme.read()
        for kind in ALL_KINDS:
            self.assertIn("`%s`" % kind, text)


if __name__ == "__main__":
    unittest.main()
