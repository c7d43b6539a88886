#!/usr/bin/env python3
"""Ranks that send through the proxy of another rank (PXN): what is at fault is found where it is seen, and a rank whose proxy nobody can see is
not accused of it.

Usage: pxn_test.py BUILD_FOLDER [unittest arguments]
"""
import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", ".."))
BUILD = os.path.abspath(sys.argv.pop(1))
SUPPORT = os.path.join(ROOT, "test", "support")
sys.path.insert(0, SUPPORT)

from faults import plan as plans  # noqa: E402
from run.build import Build  # noqa: E402
from run.outcome import run_fault  # noqa: E402

# Ranks 0 and 2 are next to the network device of their node and send for ranks 1 and 3.
PLAN = {
    "name": "pxn", "title": "the proxy of rank 0, which also sends for rank 1, is stopped", "ranks": 4, "within_s": 60,
    "workload": {"operation": "allreduce", "bytes_min": "512K", "compute_ms": 10, "seconds": 600},
    "environment": {"NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple", "NCCL_P2P_DISABLE": "0", "NCCL_NVLS_ENABLE": "0",
                    "CCLD_CPU_DEVICE_NVSWITCH": "1", "CCLD_CPU_DEVICE_GPU_DIRECT": "1",
                    "NCCL_NET_PLUGIN": os.path.join(BUILD, "test", "support", "net_plugin", "libnccl-net-standin.so"),
                    "NCCL_TOPO_FILE": os.path.join(SUPPORT, "topologies", "pxn.xml")},
    "faults": [{"kind": "stuck_proxy", "rank": 0, "after_round": 30}],
    "expect": {"class": "H3", "ranks": [0]},
}


class PxnTest(unittest.TestCase):
    def test_the_stopped_proxy_is_named_and_not_the_rank_that_it_sends_for(self):
        thresholds = plans.read_json(os.path.join(SUPPORT, "faults", "plans", "thresholds.json"))
        plan = plans.Plan(PLAN, "plan pxn", thresholds)
        with tempfile.TemporaryDirectory() as folder:
            outcome = run_fault(Build(BUILD).check(), plan, folder, print)
        self.assertIsNone(outcome.why_wrong, outcome.verdict)
        said = [row["what"] for row in outcome.verdict["evidence"]]
        self.assertIn("not measured: proxies of other ranks that send for a rank (PXN)", said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
