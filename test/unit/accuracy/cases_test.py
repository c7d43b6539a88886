import json
import os
import unittest
from collections import Counter

import paths
import cases
import nvls_cases
import pipeline_cases
import start_cases
import topology
from faults.plan import ALL_KINDS, Plan, read_json

THRESHOLDS = read_json(os.path.join(paths.ROOT, "benchmarks", "accuracy", "thresholds.json"))


class CasesTest(unittest.TestCase):
    def test_the_matrix_has_every_class_algorithm_protocol_and_size_five_times(self):
        places = Counter((case.fault_class, case.algorithm, case.protocol, case.ranks) for case in cases.matrix(1))
        self.assertEqual(len(places), 6 * 2 * 3 * 2)
        self.assertEqual(set(places.values()), {5})

    def test_every_variant_of_a_class_is_used_with_both_algorithms_and_sizes(self):
        used = {(case.fault_class, case.variant, case.algorithm, case.ranks) for case in cases.matrix(1)}
        for fault_class, variants in cases.VARIANTS.items():
            for variant in variants:
                for algorithm in cases.ALGORITHMS:
                    for ranks in cases.RANK_COUNTS:
                        self.assertIn((fault_class, cases.short_name(variant), algorithm, ranks), used)

    def test_every_case_has_a_name_of_its_own_and_a_plan_that_can_be_run(self):
        everything = cases.full(3) + cases.sample(3)
        self.assertEqual(len({case.id for case in cases.full(3)}), len(cases.full(3)))
        for case in everything:
            plan = Plan(case.plan, case.id, THRESHOLDS[case.settings])
            self.assertEqual(bool(plan.faults), case.suite != "benign")
            if plan.faults:
                self.assertTrue(plan.expect.rank_components or plan.expect.link_components)
                self.assertEqual(bool(plan.expect.ranks), bool(plan.expect.rank_components))
                self.assertEqual(bool(plan.expect.links), bool(plan.expect.link_components))

    def test_the_same_seed_gives_the_same_cases_and_another_one_others(self):
        def text(seed):
            return json.dumps([case.plan for case in cases.full(seed)])
        self.assertEqual(text(5), text(5))
        self.assertNotEqual(text(5), text(6))

    def test_every_kind_of_fault_is_measured(self):
        kinds = {fault["kind"] for case in cases.full(1) for fault in case.plan.get("faults", [])}
        self.assertEqual(kinds, set(ALL_KINDS))

    def test_nothing_that_the_service_hears_tells_the_cases_apart(self):
        self.assertEqual({case.plan["name"] for case in cases.full(1)}, {cases.JOB})
        for case in cases.full(1):
            self.assertNotIn("settings", case.plan)
            # Thresholds belong to suites, not to a class.
            self.assertEqual(case.settings, {"matrix": "faults", "short": "faults"}.get(case.suite, case.suite))

    def test_a_sample_has_one_case_of_each_class_one_of_each_other_suite_and_a_minute_without_a_fault(self):
        for seed in range(20):
            sample = cases.sample(seed)
            self.assertEqual([case.fault_class for case in sample if case.suite == "matrix"], list(cases.CLASSES))
            self.assertEqual(Counter(case.suite for case in sample), {"matrix": 6, "layout": 1, "start": 1, "pipeline": 1, "short": 1, "nvls": 1, "benign": 1})
            self.assertEqual(sum(case.plan["workload"]["seconds"] for case in sample if case.suite == "benign"), 60)

    def test_samples_of_different_seeds_rotate(self):
        self.assertGreater(len({case.id for seed in range(20) for case in cases.sample(seed)}), 60)

    def test_the_whole_suite_without_faults_lasts_half_an_hour(self):
        seconds = sum(case.plan["workload"]["seconds"] for case in cases.full(1) if case.suite == "benign")
        self.assertGreaterEqual(seconds, 1800)

    def test_only_what_is_at_fault_with_a_slow_link_is_away_from_the_links_ends(self):
        for case in cases.matrix(1):
            if case.fault_class == "S3":
                ends = {rank for link in case.plan["expect"]["links"] for rank in link}
                self.assertFalse(ends & set(case.plan["expect"]["ranks"]))

    def test_the_suites_of_slowness_from_the_start_and_in_pipelines_have_forty_cases_each(self):
        suites = Counter(case.suite for case in cases.full(1))
        self.assertGreaterEqual(suites["start"], 40)
        self.assertGreaterEqual(suites["pipeline"], 40)

    def test_what_is_slow_from_the_start_is_planted_before_one_of_the_first_rounds(self):
        for seed in (1, 2):
            for case in start_cases.cases(seed):
                self.assertEqual(len({fault["before_round"] for fault in case.plan["faults"]}), 1)
                self.assertIn(case.plan["faults"][0]["before_round"], (1, 2, 3, 4))
                self.assertFalse(any("after_round" in fault for fault in case.plan["faults"]))
        self.assertEqual({case.plan["faults"][0]["before_round"] for case in start_cases.cases(1)}, {1, 2, 3, 4})

    def test_from_the_start_every_class_of_slowness_meets_every_algorithm_and_protocol_and_layouts_have_slow_ranks(self):
        single = [case for case in start_cases.cases(1) if "tp" not in case.plan["workload"]]
        self.assertEqual({(case.fault_class, case.algorithm, case.protocol) for case in single},
                         {(fault_class, algorithm, protocol) for fault_class in cases.SLOW for algorithm in cases.ALGORITHMS for protocol in cases.PROTOCOLS})
        layouts = [case for case in start_cases.cases(1) if "tp" in case.plan["workload"]]
        self.assertEqual({(case.fault_class, case.variant) for case in layouts}, {("S1", "slow_clock"), ("S1", "late_host")})
        factors = [fault["factor"] for seed in range(20) for case in start_cases.cases(seed) for fault in case.plan["faults"] if fault["kind"] == "slow_clock"]
        self.assertTrue(all(1.5 <= factor <= 20 for factor in factors))
        self.assertLess(min(factors), 2)
        self.assertGreater(max(factors), 18)

    def test_nvls_meets_every_class_that_it_can_have_and_only_a_tree_has_a_link(self):
        drawn = nvls_cases.cases(1)
        self.assertEqual({case.fault_class for case in drawn if case.algorithm == "NVLSTree"}, set(cases.CLASSES))
        self.assertEqual({case.fault_class for case in drawn if case.algorithm == "NVLS"}, {"H1", "H2", "H3", "S1"})
        for case in drawn:
            self.assertEqual(case.plan["environment"].get("NCCL_HOSTID"), "node0" if case.algorithm == "NVLS" else None)
            self.assertEqual(case.plan["network"], "loopback" if case.algorithm == "NVLS" else "namespaces")
            if "links" in case.plan["expect"]:
                self.assertEqual(case.algorithm, "NVLSTree")
        self.assertEqual({case.ranks for seed in range(5) for case in nvls_cases.cases(seed)}, {4, 8})

    def test_in_a_pipeline_half_of_the_faults_are_there_from_the_start_and_half_come_later(self):
        when = Counter("before_round" if "before_round" in case.plan["faults"][0] else "after_round" for case in pipeline_cases.cases(1))
        self.assertEqual(when["before_round"], when["after_round"])

    def test_in_a_pipeline_only_transfers_use_what_is_slow(self):
        for case in pipeline_cases.cases(1):
            layout, expect = case.plan["workload"], case.plan["expect"]
            half = case.ranks // 2
            # No tensor or data group crosses the link.
            for rank in range(case.ranks):
                for group in ("tp", "dp"):
                    nodes = {member // half for member in topology.members(layout, topology.comm_name(layout, group, rank))}
                    self.assertEqual(len(nodes), 1)
            for sender, receiver in expect.get("links", []):
                ring = topology.links_between_nodes("Ring", case.ranks).values()
                self.assertTrue(abs(sender - receiver) == layout["tp"] * layout["dp"] or (sender, receiver) in ring)
                self.assertIn(sender // half, {fault["node"] for fault in case.plan["faults"]})
            self.assertEqual(expect.get("directed", False), "links" in expect)
            # The ring of the whole job leaves a node elsewhere.
            self.assertFalse(set(expect.get("ranks", [])) & set(topology.ranks_with_proxies("Ring", case.ranks)))


if __name__ == "__main__":
    unittest.main()
