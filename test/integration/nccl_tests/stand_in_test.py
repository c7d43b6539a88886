"""Programs compiled by nvcc with a shared CUDA runtime start on the CPU device; their own kernels are refused, or skipped when asked."""
import os
import re
import subprocess
import unittest

import stand_in
from stand_in import BINARIES, run_binary

FILL, CONFIRM = re.compile(r"kernel \S+ ?\S*fill\(.*is GPU code"), re.compile(r"kernel \S+ ?\S*confirm\(.*is GPU code")
SMALL = ("-b", "16K", "-e", "64K", "-f", "4", "-n", "3")


class StandInTest(unittest.TestCase):
    def test_it_is_a_program_of_nvcc_with_a_shared_runtime(self):
        path = os.path.join(BINARIES, "all_reduce_perf")
        needed = subprocess.run(["readelf", "-dW", path], capture_output=True, text=True).stdout
        self.assertRegex(needed, r"NEEDED.*libcudart\.so\.\d+")
        versions = subprocess.run(["readelf", "-VW", path], capture_output=True, text=True).stdout
        self.assertRegex(versions, r"Name: libcudart\.so\.\d+ ")

    def test_every_operation_starts_and_ends_as_gpus_and_as_threads_of_a_process(self):
        for program in ("all_reduce_perf", "all_gather_perf", "reduce_scatter_perf", "broadcast_perf", "sendrecv_perf"):
            for shape in (("-g", "2"), ("-t", "2", "-g", "1")):
                done = run_binary(program, *shape, *SMALL, "-c", "0")
                self.assertEqual(done.returncode, 0, done)
                self.assertIn("# Out of bounds values : 0 OK", done.stdout)
                self.assertNotIn("not supported by the CPU device", done.stderr)
                self.assertNotIn("is GPU code", done.stderr)

    def test_its_own_kernel_is_refused_with_an_error_that_names_it(self):
        done = run_binary("all_reduce_perf", "-g", "2", *SMALL, "-c", "1")
        self.assertEqual(done.returncode, 1, done)
        self.assertEqual(len(FILL.findall(done.stderr)), 1, done)
        self.assertIn("CCLD_CPU_DEVICE_FOREIGN_KERNELS=skip", done.stderr)
        self.assertIn("Test CUDA failure", done.stdout)
        self.assertIn("cudaErrorNoKernelImageForDevice", done.stdout)

    def test_its_own_kernels_are_skipped_when_asked_and_named_once_each(self):
        done = run_binary("all_reduce_perf", "-g", "2", *SMALL, "-c", "1", CCLD_CPU_DEVICE_FOREIGN_KERNELS="skip")
        self.assertEqual(len(FILL.findall(done.stderr)), 1, done)
        self.assertEqual(len(CONFIRM.findall(done.stderr)), 1, done)
        # It went through to its end, and nobody confirmed a result.
        self.assertIn("FAILED", done.stdout)
        self.assertIn("# Avg bus bandwidth", done.stdout)
        self.assertEqual(done.returncode, 1, done)


if __name__ == "__main__":
    stand_in.main()
