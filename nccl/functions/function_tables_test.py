import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import function_tables
from function_tables import FunctionsError


def host_table(count, rows):
    return ("extern int const ncclDevFuncIdCount = %d;\nextern int const ncclDevFuncRowToId[] = {\n%s-1};\n\n"
            "extern void* const ncclDevKernelForFunc[] = {\n/*   0*/ (void*)K,\nnullptr};\n\n"
            "extern bool const ncclDevKernelForFuncIsSpecialized[] = {\n/*   0*/ 1,\n0};\n" %
            (count, "".join("/*%4d*/ %s\n" % (i, row) for i, row in enumerate(rows))))


def restricted():
    return {"host_table.cc": host_table(2, ["1, // SendRecv", "-1,", "0, // Nop", "0, // Nop"]),
            "device_table.cu": "ncclDevFuncPtr_t const ncclDevFuncTable[] = {\n/*   0*/ ncclDevFunc_Nop,\n"
                               "/*   1*/ ncclDevFunc_SendRecv,\nnullptr};\n"}


FULL = {"host_table.cc": host_table(
    3, ["2, // SendRecv", "-1,", "0, // Broadcast RING LL", "1, // Broadcast RING SIMPLE"])}


class NameMissingFunctionsTest(unittest.TestCase):
    def test_each_function_left_out_gets_an_id_behind_the_built_ones(self):
        files = restricted()
        function_tables.name_missing_functions(files, FULL)
        host = files["host_table.cc"]
        self.assertIn("/*   0*/ 1, // SendRecv", host)
        self.assertIn("/*   1*/ -1,", host)
        self.assertIn("/*   2*/ 2, // not built: Broadcast RING LL", host)
        self.assertIn("/*   3*/ 3, // not built: Broadcast RING SIMPLE", host)
        self.assertIn("ncclDevFuncIdCount = 4;", host)

    def test_all_tables_grow_by_the_functions_left_out(self):
        files = restricted()
        function_tables.name_missing_functions(files, FULL)
        self.assertEqual(files["host_table.cc"].count("(void*)ncclDevKernel_Generic"), 2)
        self.assertIn("/*   2*/ 0,\n/*   3*/ 0,\n0};", files["host_table.cc"])
        self.assertEqual(files["device_table.cu"].count("ncclDevFunc_Nop"), 3)

    def test_the_names_come_from_the_full_generation_in_the_order_of_the_ids(self):
        source = function_tables.name_missing_functions(restricted(), FULL)
        self.assertIn("ccld_first_missing_function = 2;", source)
        self.assertLess(source.index('"Broadcast RING LL"'), source.index('"Broadcast RING SIMPLE"'))

    def test_a_generator_that_numbers_rows_differently_is_an_error(self):
        longer = {"host_table.cc": host_table(3, ["2, // SendRecv", "-1,", "0, // W", "1, // X", "2, // Y"])}
        with self.assertRaisesRegex(FunctionsError, "numbers functions differently"):
            function_tables.name_missing_functions(restricted(), longer)

    def test_a_table_that_is_not_there_is_an_error_that_names_it(self):
        files = restricted()
        files["device_table.cu"] = ""
        with self.assertRaisesRegex(FunctionsError, "ncclDevFuncTable was found 0 times"):
            function_tables.name_missing_functions(files, FULL)


TABLE = ("#if CUDART_VERSION >= 11000\n  __global__ void ncclSymkDevKernel_A(ncclSymkDevWorkArgs4K const);\n#else\n"
         "  constexpr void* ncclSymkDevKernel_A = nullptr;\n#endif\nvoid* ncclSymkKernelList[] = {\n"
         "(void*)ncclSymkDevKernel_A,\nnullptr};\n")


class SymmetricKernelsTest(unittest.TestCase):
    def test_a_table_without_kernels_is_an_error(self):
        with self.assertRaises(FunctionsError):
            function_tables.without_symmetric_kernels("")

    def test_left_out_kernels_are_null_and_stay_in_the_list(self):
        table = function_tables.without_symmetric_kernels(TABLE)
        self.assertNotIn("__global__", table)
        self.assertIn("static void* const ncclSymkDevKernel_A = nullptr;", table)
        self.assertIn("(void*)ncclSymkDevKernel_A,", table)


if __name__ == "__main__":
    unittest.main()
