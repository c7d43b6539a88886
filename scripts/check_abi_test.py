"""scripts/check-abi against small libraries of its own: one that fits, and one for each way not to."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))

HEADER = """
#ifndef NCCL_H_
#define NCCL_H_
#include <stddef.h>
#define NCCL_VERSION_CODE %(version)d
typedef enum { ncclSuccess = 0, ncclUnhandledCudaError = 1, ncclSystemError = %(system_error)d, ncclInternalError = 3, ncclInvalidArgument = 4, ncclInvalidUsage = 5, ncclNumResults = %(results)d } ncclResult_t;
typedef struct { char internal[%(id_bytes)d]; } ncclUniqueId;
typedef struct ncclConfig { /* has its size */ size_t size; %(first_field)s int blocking; %(new_field)s } ncclConfig_t;
typedef struct ncclComm* ncclComm_t;
#define NCCL_CONFIG_INITIALIZER { sizeof(ncclConfig_t) }
ncclResult_t ncclGetVersion(int* version);
const char* ncclGetErrorString(ncclResult_t result);
ncclResult_t ncclGetUniqueId(ncclUniqueId* id);
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int count, ncclUniqueId id, int rank, ncclConfig_t* config);
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
#endif
"""
STOCK = dict(version=22809, system_error=2, results=8, id_bytes=128, first_field="", new_field="")

SOURCE = """
#include "nccl.h"
ncclResult_t ncclGetVersion(int* version) { *version = NCCL_VERSION_CODE; return ncclSuccess; }
const char* ncclGetErrorString(ncclResult_t result) { return result == ncclSuccess ? "no error" : "an error"; }
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) { id->internal[0] = 1; return ncclSuccess; }
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int count, ncclUniqueId id, int rank, ncclConfig_t* config) {
  return count < 1 ? ncclInvalidArgument : ncclSuccess;
}
ncclResult_t ncclGroupStart(void) { return ncclSuccess; }
"""
GROUP_END = "ncclResult_t ncclGroupEnd(void) { return ncclSuccess; }\n"


class CheckAbiTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.build("stock", STOCK, SOURCE + GROUP_END)

    def build(self, name, header, source, soname="libnccl.so.2", more=()):
        """folder/name/lib/libnccl.so.2 and folder/name/include/nccl.h"""
        lib, include = (os.path.join(self.folder, name, part) for part in ("lib", "include"))
        os.makedirs(lib)
        os.makedirs(include)
        with open(os.path.join(include, "nccl.h"), "w") as file:
            file.write(HEADER % header)
        path = os.path.join(lib, "libnccl.so.2")
        subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", path, "-I" + include, "-Wl,-soname," + soname, *more],
                       input=source, text=True, check=True)
        return path

    def check(self, library):
        stock = os.path.join(self.folder, "stock")
        done = subprocess.run([os.path.join(HERE, "check-abi"), library, "--stock", os.path.join(stock, "lib", "libnccl.so.2"),
                               "--stock-headers", os.path.join(stock, "include")], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def assert_finding(self, text, header=STOCK, source=SOURCE + GROUP_END, **options):
        status, output = self.check(self.build("ours", dict(STOCK, **header), source, **options))
        self.assertEqual(status, 1, output)
        self.assertIn(text, output)

    def test_a_newer_release_with_more_of_everything_fits(self):
        newer = dict(STOCK, version=22907, results=9, new_field="int more;")
        status, output = self.check(self.build("ours", newer, SOURCE + GROUP_END + "int ncclMore(void) { return 0; }\n"))
        self.assertEqual(status, 0, output)
        self.assertIn("ours 22907 (7 symbols): fits", output)

    def test_another_soname(self):
        self.assert_finding("SONAME is libnccl.so.3", soname="libnccl.so.3")

    def test_a_symbol_that_is_gone(self):
        self.assert_finding("symbols of the stock library are missing: ncclGroupEnd", source=SOURCE)

    def test_a_symbol_that_is_not_of_nccl(self):
        self.assert_finding("exported symbols are not NCCL's: helper", source=SOURCE + GROUP_END + "int helper(void) { return 0; }\n")

    def test_a_library_more(self):
        other = os.path.join(self.folder, "libother.so")
        subprocess.run(["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", other, "-Wl,-soname,libother.so"], input="", text=True, check=True)
        self.assert_finding("needs libraries that the stock one does not: libother.so",
                            more=("-x", "none", "-Wl,--no-as-needed", other, "-Wl,-rpath," + self.folder))

    def test_a_constant_with_another_value(self):
        self.assert_finding("ncclSystemError is 7, in the stock header 2", header={"system_error": 7})

    def test_a_struct_that_is_smaller(self):
        self.assert_finding("ncclUniqueId has 64 bytes, in the stock header 128", header={"id_bytes": 64})

    def test_a_struct_that_grew_without_saying_its_size(self):
        self.assert_finding("ncclUniqueId grew from 128 to 256 bytes", header={"id_bytes": 256})

    def test_a_field_that_moved(self):
        self.assert_finding("ncclConfig_t.blocking is elsewhere", header={"first_field": "double scale;"})

    def test_a_program_that_fails(self):
        self.assert_finding("an empty group", source=SOURCE + "ncclResult_t ncclGroupEnd(void) { return ncclInternalError; }\n")

    def test_an_older_release(self):
        self.assert_finding("release 22700 is older than the stock one, 22809", header={"version": 22700})

    def test_what_cannot_be_checked_is_status_2_and_one_line(self):
        status, output = self.check(os.path.join(self.folder, "nowhere.so"))
        self.assertEqual((status, len(output.splitlines())), (2, 1), output)
        self.assertIn("nowhere.so is not there", output)


if __name__ == "__main__":
    unittest.main()
