import os
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "benchmarks", "ptxas"))
import check_ptxas  # noqa: E402
import compile as compiler  # noqa: E402
from cubin import Cubin, CubinError  # noqa: E402

LOG = """ptxas info    : 520 bytes gmem
ptxas info    : Function properties for _Z37ncclDevFunc_AllReduce_Sum_f32_RING_LLv
    184 bytes stack frame, 180 bytes spill stores, 188 bytes spill loads
ptxas info    : Compile time = 148.279 ms
"""


def row(registers=96, stack=100, more_stack=0):
    def side(r, s):
        return {"registers": r, "stack_bytes": s, "spill_store_bytes": 0, "spill_load_bytes": 0}
    return {"kernel": "ncclDevFunc_X", "pristine": side(90, stack), "patched": side(registers, stack + more_stack)}


class Ptxas(unittest.TestCase):
    def test_reads_what_ptxas_prints(self):
        self.assertEqual(compiler.parse_log(LOG), {"_Z37ncclDevFunc_AllReduce_Sum_f32_RING_LLv": {
            "stack_bytes": 184, "spill_store_bytes": 180, "spill_load_bytes": 188}})

    def test_names_of_functions_and_kernels_become_readable(self):
        self.assertEqual(compiler.readable("_Z37ncclDevFunc_AllReduce_Sum_f32_RING_LLv"), "ncclDevFunc_AllReduce_Sum_f32_RING_LL")
        self.assertEqual(compiler.readable("_Z22ncclDevKernel_SendRecv24ncclDevKernelArgsStorageILm4096EE"), "ncclDevKernel_SendRecv")
        self.assertIsNone(compiler.readable("_Z13oneRankReducev"))

    def test_up_to_the_cap_and_32_bytes_of_stack_nothing_is_missed(self):
        self.assertEqual(check_ptxas.missed([row(96, 100, 32)]), [])

    def test_a_register_past_the_cap_is_missed(self):
        self.assertEqual(len(check_ptxas.missed([row(97)])), 1)

    def test_more_stack_than_allowed_is_missed_and_says_how_much(self):
        self.assertIn("40 bytes", check_ptxas.missed([row(96, 100, 40)])[0])

    def test_a_file_that_is_no_cubin_is_refused(self):
        with self.assertRaises(CubinError):
            Cubin(b"not an ELF file")

    def test_dependencies_are_read_from_a_makefile_rule(self):
        with tempfile.NamedTemporaryFile("w", suffix=".d", delete=False) as file:
            file.write("a.o : /x/a.cu \\\n    /x/b.h /x/with\\ space.h\n")
        try:
            self.assertEqual(compiler.dependencies(file.name), ["/x/a.cu", "/x/b.h", "/x/with space.h"])
        finally:
            os.unlink(file.name)


if __name__ == "__main__":
    unittest.main()
