import os
import subprocess
import sys
import tempfile
import unittest

import paths
from nccl_tests import binaries
from nccl_tests.binaries import Links
from run.errors import RunError

GOOD = [("NEEDED", "libnccl.so.2"), ("NEEDED", "libcudart.so.13"), ("NEEDED", "libc.so.6")]
START_RANK = os.path.join(paths.ROOT, "scripts", "nccl_tests", "start_rank.py")


class LinksTest(unittest.TestCase):
    def test_a_binary_with_shared_libraries_can_run_everywhere(self):
        self.assertIsNone(Links(GOOD).why_not(on_cpu_device=True))
        self.assertIsNone(Links(GOOD).why_not(on_cpu_device=False))

    def test_what_is_linked_into_it_is_named(self):
        self.assertIn("NCCL linked into it", Links(GOOD[1:]).why_not(on_cpu_device=False))
        without_runtime = Links([GOOD[0], GOOD[2]])
        self.assertIn("CUDA runtime linked into it", without_runtime.why_not(on_cpu_device=True))
        self.assertIsNone(without_runtime.why_not(on_cpu_device=False))

    def test_a_path_that_goes_first_is_named(self):
        self.assertIn("/opt/nccl", Links(GOOD + [("RPATH", "/opt/nccl")]).why_not(on_cpu_device=False))

    def test_a_real_program_is_read(self):
        self.assertIn("libc.so.6", binaries.links_of(os.path.realpath("/bin/ls")).needed)
        with self.assertRaises(RunError) as caught:
            binaries.check(os.path.realpath("/bin/ls"), on_cpu_device=True)
        self.assertIn("NCCL linked into it", str(caught.exception))

    def test_what_is_no_program_is_named(self):
        with self.assertRaises(RunError) as caught:
            binaries.links_of(os.path.realpath(__file__))
        self.assertIn("is no program", str(caught.exception))


class FolderTest(unittest.TestCase):
    def test_binaries_are_found_by_their_names(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, mode in (("all_reduce_perf", 0o755), ("all_gather_perf", 0o644), ("verifiable", 0o755)):
                path = os.path.join(folder, name)
                open(path, "w").close()
                os.chmod(path, mode)
            self.assertEqual(list(map(os.path.basename, binaries.all_of(folder))), ["all_reduce_perf"])
            self.assertTrue(binaries.find(folder, "all_reduce_perf"))
            with self.assertRaises(RunError) as caught:
                binaries.find(folder, "all_gather_perf")
            self.assertIn("binaries in that folder: all_reduce_perf", str(caught.exception))

    def test_an_operation_without_a_binary_is_refused(self):
        self.assertEqual(binaries.program_of("reducescatter"), "reduce_scatter_perf")
        with self.assertRaises(RunError) as caught:
            binaries.program_of("mix")
        self.assertIn("workload.operation", str(caught.exception))


class StartRankTest(unittest.TestCase):
    def node_of(self, **variables):
        done = subprocess.run([sys.executable, "-B", START_RANK, "8", "/usr/bin/env"], env=variables, capture_output=True, text=True)
        return [line for line in done.stdout.splitlines() if line.startswith("NCCL_HOSTID=")], done.stderr

    def test_each_half_of_the_ranks_is_a_node_whatever_started_them(self):
        self.assertEqual(self.node_of(OMPI_COMM_WORLD_RANK="3")[0], ["NCCL_HOSTID=node0"])
        self.assertEqual(self.node_of(OMPI_COMM_WORLD_RANK="4")[0], ["NCCL_HOSTID=node1"])
        self.assertEqual(self.node_of(PMI_RANK="7")[0], ["NCCL_HOSTID=node1"])

    def test_a_launcher_that_does_not_say_the_rank_is_an_error(self):
        found, errors = self.node_of()
        self.assertEqual(found, [])
        self.assertIn("does not say which rank", errors)


if __name__ == "__main__":
    unittest.main()
