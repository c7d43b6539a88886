"""The functions that `make nccl` builds (cmake/functions.cmake) are those that the usual frameworks call.

Usage: recommended_set_test.py with CCLD_NCCL_TREE, the folder of upstream's patched source.
"""
import os
import re
import sys
import unittest

FOLDER = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, FOLDER)
import function_tables

FUNCTIONS = os.path.join(FOLDER, "..", "cmake", "functions.cmake")
FLOATS = ("f32", "f16", "bf16")
INTEGERS = ("i32", "u32", "i64", "u64")
BYTES = ("i8", "u8")
# Function, reduction, types, and who calls it.
CALLED = (
    ("AllReduce", "Sum", FLOATS, "gradients (DDP, Megatron), tensor parallel layers (Megatron, vLLM)"),
    ("AllReduce", "Sum", ("f64",) + INTEGERS + BYTES, "losses, counters of tokens, barriers and masks"),
    ("AllReduce", "MinMax", FLOATS + ("f64",) + INTEGERS + BYTES, "norms and overflows of gradients, agreement on shapes, flags"),
    ("AllReduce", "PreMulSum", FLOATS, "averages (ReduceOp.AVG)"),
    ("ReduceScatter", "Sum", FLOATS + INTEGERS, "FSDP, distributed optimizers, sequence parallelism"),
    ("ReduceScatter", "PreMulSum", FLOATS, "FSDP's averages"),
    ("Reduce", "Sum", FLOATS + INTEGERS, "ZeRO, metrics"),
    ("Reduce", "PreMulSum", FLOATS, "averages"),
)
WITHOUT_REDUCTION = ("SendRecv", "Broadcast", "AllGather", "AllGatherV")
# NCCL chooses these by itself on nodes with NVLink switches.
SWITCH_ALGORITHMS = ("NVLS", "NVLS_TREE")


def recommended_functions():
    with open(FUNCTIONS, encoding="utf-8") as file:
        of_gpus = file.read().split('STREQUAL "cuda")', 1)[1].split("endif()", 1)[0]
    return "|".join(re.findall(r'^ *"([^"]+)"', of_gpus, re.M))


def built_and_left_out(device_source):
    functions, _ = function_tables.generate(device_source, recommended_functions(), False)
    names = [match.group(3) or "" for match in function_tables.ROW.finditer(function_tables.rows_of(functions["host_table.cc"]))]
    mark = "not built: "
    return ({name for name in names if name and not name.startswith(mark)},
            {name[len(mark):] for name in names if name.startswith(mark)})


class RecommendedSetTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.built, cls.left_out = built_and_left_out(os.path.join(os.environ["CCLD_NCCL_TREE"], "src", "device"))

    def left_out_of(self, start):
        return sorted(name for name in self.left_out if (name + " ").startswith(start + " "))

    def test_what_moves_data_is_built_whole(self):
        for function in WITHOUT_REDUCTION:
            self.assertEqual(self.left_out_of(function), [])

    def test_every_reduction_that_frameworks_call_has_its_rings_and_trees(self):
        for function, reduction, types, caller in CALLED:
            for data_type in types:
                start = "%s %s %s" % (function, reduction, data_type)
                missing = [name for name in self.left_out_of(start) if " RING " in name or " TREE " in name]
                self.assertEqual(missing, [], "%s: %s" % (start, caller))

    def test_sums_of_floats_have_every_algorithm(self):
        for function in ("AllReduce", "ReduceScatter"):
            for data_type in FLOATS:
                self.assertEqual(self.left_out_of("%s Sum %s" % (function, data_type)), [])

    def test_nodes_with_switches_lose_nothing_for_sums(self):
        for data_type in ("f64",) + INTEGERS:
            missing = [name for name in self.left_out_of("AllReduce Sum " + data_type) if name.split()[-2] in SWITCH_ALGORITHMS]
            self.assertEqual(missing, [])

    def test_something_is_left_out(self):
        self.assertIn("AllReduce Prod f8e4m3 RING SIMPLE", self.left_out)


if __name__ == "__main__":
    unittest.main()
