#!/usr/bin/env python3
"""Installs the library for the CPU device and builds programs against it: by hand, with pkg-config, with CMake, and with
nvcc as nccl-tests does.

Usage: package_test.py BUILD_FOLDER CXX CMAKE CUDA_INCLUDE [unittest arguments]
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
BUILD, CXX, CMAKE, CUDA_INCLUDE = sys.argv[1:5]
TOOLKIT = os.environ.get("CUDA_HOME", "/usr/local/cuda")
NVCC = os.path.join(TOOLKIT, "bin", "nvcc")


def run(*command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, **more)
    if done.returncode != 0:
        raise AssertionError("%s\nended with %d:\n%s" % (" ".join(command), done.returncode, done.stdout))
    return done.stdout


class PackageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.mkdtemp(prefix="ccld-package.")
        cls.prefix = os.path.join(cls.scratch, "installed")
        run(CMAKE, "--install", BUILD, "--component", "nccl", "--prefix", cls.prefix)
        cls.release = [name for name in os.listdir(cls.path("lib")) if name.startswith("libnccl.so.2.")][0][len("libnccl.so."):]
        major, minor, patch = (int(part) for part in cls.release.split("."))
        cls.define = "-DCCLD_EXPECTED_VERSION=%d" % (major * 10000 + minor * 100 + patch)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.scratch, ignore_errors=True)

    @classmethod
    def path(cls, *parts):
        return os.path.join(cls.prefix, *parts)

    def program(self, name):
        return os.path.join(self.scratch, name)

    def run_program(self, path):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("NCCL_", "CCLD_"))}
        environment.update(LD_LIBRARY_PATH=self.path("lib"), NCCL_PROBE_FRAMES_DIR=self.scratch, NCCL_SOCKET_IFNAME="lo",
                           NCCL_IB_DISABLE="1", NCCL_MAX_NCHANNELS="1")
        self.assertIn("as it should be", run(path, env=environment))

    def test_the_files_are_those_of_nvidias_package(self):
        for name, target in (("libnccl.so", "libnccl.so.2"), ("libnccl.so.2", "libnccl.so." + self.release)):
            self.assertEqual(os.readlink(self.path("lib", name)), target)
        self.assertTrue(os.path.isfile(self.path("lib", "libnccl.so." + self.release)))
        self.assertEqual(sorted(os.listdir(self.path("include"))), ["nccl.h", "nccl_device", "nccl_device.h"])
        upstream = os.path.join(BUILD, "nccl", "upstream", "src", "include", "nccl_device")
        wanted = {os.path.relpath(os.path.join(at, name), upstream) for at, _, names in os.walk(upstream) for name in names}
        installed = self.path("include", "nccl_device")
        present = {os.path.relpath(os.path.join(at, name), installed) for at, _, names in os.walk(installed) for name in names}
        self.assertFalse({name for name in wanted if name.endswith(".h")} - present)
        self.assertIn("gin/gdaki/doca_gpunetio/doca_gpunetio_device.h", present)
        self.assertTrue(os.path.isfile(self.path("share", "doc", "nccl", "LICENSE.txt")))

    def test_the_build_folder_serves_as_nccl_home(self):
        home = os.path.join(BUILD, "nccl")
        for at, _, names in os.walk(self.path("include")):
            for name in names:
                self.assertTrue(os.path.isfile(os.path.join(home, "include", os.path.relpath(at, self.path("include")), name)))
        for name in ("libnccl.so", "pkgconfig/nccl.pc", "cmake/NCCL/NCCLConfig.cmake"):
            self.assertTrue(os.path.exists(os.path.join(home, "lib", name)), name)

    def test_a_program_is_built_by_hand(self):
        program = self.program("by_hand")
        run(CXX, "-std=c++17", self.define, "-I" + self.path("include"), "-I" + CUDA_INCLUDE, "-o", program,
            os.path.join(FOLDER, "program.cc"), "-L" + self.path("lib"), "-lnccl", "-l:libcudart_ccld.so")
        self.run_program(program)

    def test_a_program_is_built_with_pkg_config(self):
        if shutil.which("pkg-config") is None:
            self.skipTest("no pkg-config")
        environment = dict(os.environ, PKG_CONFIG_PATH=self.path("lib", "pkgconfig"))
        self.assertEqual(run("pkg-config", "--modversion", "nccl", env=environment).strip(), self.release)
        flags = run("pkg-config", "--cflags", "--libs", "nccl", env=environment).split()
        program = self.program("with_pkg_config")
        run(CXX, "-std=c++17", self.define, os.path.join(FOLDER, "program.cc"), "-o", program, *flags,
            "-I" + CUDA_INCLUDE, "-l:libcudart_ccld.so")
        self.run_program(program)

    def test_a_program_is_built_with_cmake(self):
        project = self.program("project")
        os.makedirs(project)
        with open(os.path.join(project, "CMakeLists.txt"), "w", encoding="utf-8") as file:
            file.write("cmake_minimum_required(VERSION 3.23)\nproject(user CXX)\nfind_package(NCCL 2.27 REQUIRED)\n"
                       "message(STATUS \"version=${NCCL_VERSION}\")\n"
                       "add_executable(with_cmake %s/program.cc)\n"
                       "target_compile_options(with_cmake PRIVATE %s)\n"
                       "target_link_libraries(with_cmake PRIVATE ${NCCL_LIBRARIES} -l:libcudart_ccld.so)\n"
                       "target_link_directories(with_cmake PRIVATE %s)\n"
                       "target_include_directories(with_cmake SYSTEM PRIVATE %s)\n" %
                       (FOLDER, self.define, self.path("lib"), CUDA_INCLUDE))
        out = run(CMAKE, "-S", project, "-B", project + "/build", "-DCMAKE_PREFIX_PATH=" + self.prefix,
                  "-DCMAKE_CXX_COMPILER=" + CXX)
        self.assertIn("version=" + self.release, out)
        run(CMAKE, "--build", project + "/build")
        self.run_program(project + "/build/with_cmake")

    def test_a_kernel_with_the_device_api_is_built_with_the_flags_of_nccl_tests(self):
        runtime = os.path.join(TOOLKIT, "lib64")
        if not os.path.exists(NVCC) or not os.path.exists(os.path.join(runtime, "libcudart.so")):
            self.skipTest("no nvcc, or no libcudart.so of its toolkit")
        program = self.program("kernel")
        run(NVCC, "-std=c++17", "-arch=sm_90", "-ccbin", CXX, self.define, "-I" + self.path("include"),
            "-I" + os.path.join(TOOLKIT, "include"), os.path.join(FOLDER, "kernel.cu"), "-o", program, "-cudart", "shared",
            "-L" + self.path("lib"), "-lnccl", "-L" + runtime, "-lcudart", "-lrt")
        run(program, env=dict(os.environ, LD_LIBRARY_PATH=self.path("lib")))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[5:])
