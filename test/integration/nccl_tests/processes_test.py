"""nccl-tests-faults with one process for each rank: faults of processes and of proxies are found, and nothing stays behind."""
import unittest

import stand_in
from stand_in import MPIRUN, Tool

BASE = {"ranks": 4, "workload": {"operation": "allreduce", "bytes_min": "256K"}, "environment": {"NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple"}}


class ProcessesTest(unittest.TestCase):
    def test_a_healthy_run_is_right(self):
        run = Tool("--binary", "all_gather_perf", "--ranks", "4", "--mpirun", MPIRUN)
        self.assertEqual(run.status, 0, run)
        self.assertEqual(run.left_behind, set())

    def test_a_stuck_proxy_is_found(self):
        run = Tool("--mpirun", MPIRUN, plan=dict(BASE, name="proxy", title="rank 1's proxy is stuck",
                                                 faults=[{"kind": "stuck_proxy", "rank": 1, "after_round": 100}],
                                                 expect={"class": "H3", "ranks": [1]}))
        self.assertEqual(run.status, 0, run)
        self.assertEqual(run.left_behind, set())

    def test_a_stopped_process_is_found(self):
        run = Tool("--mpirun", MPIRUN, plan=dict(BASE, name="stopped", title="rank 2 is stopped",
                                                 faults=[{"kind": "sigstop", "rank": 2, "after_round": 100}],
                                                 expect={"class": ["H1", "H3"], "ranks": [2]}))
        self.assertEqual(run.status, 0, run)
        self.assertEqual(run.left_behind, set())

    def test_a_frozen_channel_of_one_process_is_found(self):
        run = Tool("--mpirun", MPIRUN, plan=dict(BASE, name="frozen", title="channel 0 of rank 3's GPU freezes",
                                                 faults=[{"kind": "freeze_channel", "rank": 3, "channel": 0, "after_round": 100}],
                                                 expect={"class": "H3", "ranks": [3]}))
        self.assertEqual(run.status, 0, run)
        self.assertEqual(run.left_behind, set())


if __name__ == "__main__":
    stand_in.main()
