import unittest

import paths  # noqa: F401
import topology


class TopologyTest(unittest.TestCase):
    def test_a_ring_leaves_a_node_at_its_last_rank_and_a_tree_at_its_first(self):
        self.assertEqual(topology.links_between_nodes("Ring", 8), {0: (3, 4), 1: (7, 0)})
        self.assertEqual(topology.links_between_nodes("Tree", 16), {0: (0, 8), 1: (8, 0)})
        self.assertEqual(topology.ranks_with_proxies("Ring", 8), [0, 3, 4, 7])

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


if __name__ == "__main__":
    unittest.main()
