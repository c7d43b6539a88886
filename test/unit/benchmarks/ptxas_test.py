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


def row(registers=96, stack=100, more_stack=0, loads=0, more_loads=0):
    def side(r, s, l):
        return {"registers": r, "stack_bytes": s, "spill_store_bytes": 0, "spill_load_bytes": l}
    return {"kernel": "ncclDevFunc_X", "pristine": side(90, stack, loads), "patched": side(registers, stack + more_stack, loads + more_loads)}


def missed(one_row):
    return check_ptxas.missed([one_row], "sm_90")


class Ptxas(unittest.TestCase):
    def test_reads_what_ptxas_prints(self):
        self.assertEqual(compiler.parse_log(LOG), {"_Z37ncclDevFunc_AllReduce_Sum_f32_RING_LLv": {
            "stack_bytes": 184, "spill_store_bytes": 180, "spill_load_bytes": 188}})

    def test_names_of_functions_and_kernels_become_readable(self):
        self.assertEqual(compiler.readable("_Z37ncclDevFunc_AllReduce_Sum_f32_RING_LLv"), "ncclDevFunc_AllReduce_Sum_f32_RING_LL")
        self.assertEqual(compiler.readable("_Z22ncclDevKernel_SendRecv24ncclDevKernelArgsStorageILm4096EE"), "ncclDevKernel_SendRecv")
        self.assertIsNone(compiler.readable("_Z13oneRankReducev"))

    def test_up_to_the_cap_and_32_bytes_of_stack_nothing_is_missed(self):
        self.assertEqual(missed(row(96, 100, 32)), [])

    def test_a_register_past_the_cap_is_missed(self):
        self.assertEqual(len(missed(row(97))), 1)

    def test_more_stack_than_allowed_is_missed_and_says_how_much(self):
        self.assertIn("40 bytes", missed(row(96, 100, 40))[0])

    def test_five_per_cent_more_spill_loads_are_allowed_and_no_more(self):
        self.assertEqual(missed(row(loads=4000, more_loads=200)), [])
        self.assertIn("204 bytes of spill loads", missed(row(loads=4000, more_loads=204))[0])

    def test_a_few_loads_are_no_share_of_anything(self):
        self.assertEqual(missed(row(loads=12, more_loads=72)), [])
        self.assertEqual(len(missed(row(loads=12, more_loads=76))), 1)

    def test_what_is_known_of_a_function_holds_for_its_architecture_only(self):
        function = "ncclDevFunc_SendRecv"
        known = check_ptxas.SPILL_LOAD_BYTES_KNOWN["sm_90"][function]
        self.assertEqual(check_ptxas.spill_load_bytes_allowed(function, 0, "sm_90"), known)
        self.assertEqual(check_ptxas.spill_load_bytes_allowed(function, 0, "sm_100"), check_ptxas.SPILL_LOAD_BYTES_FREE)

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
