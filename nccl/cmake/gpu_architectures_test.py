#!/usr/bin/env python3
"""What gpu_architectures.cmake chooses for toolkits that are not installed here."""
import os
import subprocess
import tempfile
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))


def call(function, *arguments):
    with tempfile.TemporaryDirectory() as folder:
        script = os.path.join(folder, "call.cmake")
        with open(script, "w") as file:
            file.write('include("%s/gpu_architectures.cmake")\n%s(result %s)\nmessage("${result}")\n' %
                       (HERE, function, " ".join(map(str, arguments))))
        return subprocess.run([os.environ.get("CMAKE", "cmake"), "-P", script], stderr=subprocess.PIPE, text=True,
                              check=True).stderr.split()


def built(which, *version):
    """(numbers of machine code, number of PTX)"""
    arguments = call("ccld_gpu_architectures", which, *version)
    codes = [argument.rsplit("code=", 1)[1] for argument in arguments]
    for argument, code in zip(arguments, codes):
        assert argument == "-gencode=arch=compute_%s,code=%s" % (code.split("_")[1], code), argument
    return ([int(code[3:]) for code in codes if code.startswith("sm_")],
            [int(code[8:]) for code in codes if code.startswith("compute_")])


class ShippedTest(unittest.TestCase):
    def test_a_toolkit_that_knows_blackwell_ships_it(self):
        for version in ((12, 8), (12, 9), (13, 0), (13, 1)):
            self.assertEqual(built("shipped", *version), ([80, 90, 100], [120]))

    def test_older_toolkits_leave_blackwell_to_ptx(self):
        for version in ((12, 0), (12, 2), (12, 6), (12, 7)):
            self.assertEqual(built("shipped", *version), ([80, 90], [90]))


class AllTest(unittest.TestCase):
    def test_only_what_the_toolkit_knows_is_asked_for(self):
        self.assertEqual(built("all", 12, 2), ([70, 80, 90], [90]))
        self.assertEqual(built("all", 12, 8), ([70, 80, 90, 100, 120], [120]))
        self.assertEqual(built("all", 13, 0), ([75, 80, 90, 100, 110, 120], [120]))

    def test_the_installed_nvcc_takes_them(self):
        nvcc = os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin", "nvcc")
        if not os.path.exists(nvcc):
            self.skipTest("no nvcc")
        release = subprocess.run([nvcc, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
        version = release.split("release ")[1].split(",")[0].split(".")
        known = subprocess.run([nvcc, "--list-gpu-code"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
        for which in ("all", "shipped"):
            for number in built(which, *version)[0]:
                self.assertIn("sm_%d" % number, known)


class FamilyTest(unittest.TestCase):
    def test_kernels_for_one_family_are_built_where_the_toolkit_can(self):
        self.assertEqual(call("ccld_gpu_family_architecture", 12, 6), [])
        self.assertEqual(call("ccld_gpu_family_architecture", 12, 8), ["-gencode=arch=compute_100a,code=sm_100a"])
        self.assertEqual(call("ccld_gpu_family_architecture", 13, 0), ["-gencode=arch=compute_100f,code=sm_100f"])


if __name__ == "__main__":
    unittest.main()
