import unittest

import paths  # noqa: F401
import topology


class TopologyTest(unittest.TestCase):
    def test_a_ring_leaves_a_node_at_its_last_rank_and_a_tree_at_its_first(self):
        self.assertEqual(topology.links_between_nodes("Ring", 8), {0: (3, 4), 1: (7, 0)})
        self.assertEqual(topology.links_between_nodes("Tree", 16), {0: (0, 8), 1: (8, 0)})
        self.assertEqual(topology.ranks_with_proxies("Ring", 8), [0, 3, 4, 7])

    def test_nvls_stays_within_a_node_unless_a_tree_joins_two(self):
        self.assertEqual(topology.links_between_nodes("NVLS", 8), {})
        self.assertEqual(topology.links_between_nodes("NVLSTree", 8), {0: (0, 4), 1: (4, 0)})
        self.assertEqual(topology.ranks_with_proxies("NVLSTree", 8), [0, 1, 4, 5])

    def test_low_latency_protocols_put_more_on_the_wire(self):
        simple = topology.wire_bytes("Ring", "Simple", 8, 8000)
        self.assertEqual(simple, 14000)
        self.assertEqual(topology.wire_bytes("Ring", "LL", 8, 8000), 2 * simple)
        self.assertGreater(topology.wire_bytes("Ring", "LL128", 8, 8000), simple)

    def test_names_of_communicators_are_those_of_the_workload(self):
        layout = {"tp": 2, "pp": 2, "dp": 4, "ep": 2}
        # The layout test of the workload has the same groups.
        members = {}
        for rank in range(16):
            for group in ("tp", "pp", "dp", "ep"):
                members.setdefault(topology.comm_name(layout, group, rank), []).append(rank)
        self.assertEqual(members["tp1"], [2, 3])
        self.assertEqual(members["pp1"], [1, 9])
        self.assertEqual(members["dp1"], [1, 3, 5, 7])
        self.assertEqual(members["ep2"], [1, 3])
        self.assertEqual(topology.comm_name(layout, "world", 5), "world")

    def test_members_of_a_communicator_stand_in_the_order_of_their_ranks_in_it(self):
        layout = {"tp": 2, "pp": 2, "dp": 2}
        self.assertEqual(topology.members(layout, "pp1"), [1, 5])
        self.assertEqual(topology.members(layout, "dp2"), [4, 6])
        self.assertEqual(topology.members(layout, "world"), list(range(8)))
        self.assertIsNone(topology.members(layout, "pp9"))
        self.assertIsNone(topology.members(layout, None))

    def test_every_pair_of_a_transfer_between_two_nodes_crosses_their_link_in_its_direction(self):
        links = topology.transfers_between_nodes({"tp": 1, "pp": 2, "dp": 4})
        self.assertEqual(links, {0: [(0, 4), (1, 5), (2, 6), (3, 7)], 1: [(4, 0), (5, 1), (6, 2), (7, 3)]})
        # Of four stages the inner two.
        self.assertEqual(topology.transfers_between_nodes({"tp": 2, "pp": 4, "dp": 1}), {0: [(2, 4), (3, 5)], 1: [(4, 2), (5, 3)]})

    def test_the_ring_of_the_whole_job_crosses_the_link_of_a_pipeline_too(self):
        self.assertEqual(topology.links_of_pipeline({"tp": 1, "pp": 2, "dp": 4})[1], [(4, 0), (5, 1), (6, 2), (7, 0), (7, 3)])
        self.assertEqual(topology.links_of_pipeline({"tp": 1, "pp": 8, "dp": 1}), {0: [(3, 4)], 1: [(4, 3), (7, 0)]})

    def test_proxies_that_also_serve_the_whole_jobs_ring_are_not_of_transfers_only(self):
        self.assertEqual(topology.ranks_with_transfers_only({"tp": 1, "pp": 2, "dp": 4}), [1, 2, 5, 6])
        self.assertEqual(topology.ranks_with_transfers_only({"tp": 2, "pp": 4, "dp": 1}), [2, 5])
        self.assertEqual(topology.ranks_with_transfers_only({"tp": 1, "pp": 8, "dp": 1}), [])


if __name__ == "__main__":
    unittest.main()
