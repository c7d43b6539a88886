#!/usr/bin/env python3
"""Installs the library for the CPU device and that for GPUs and builds programs against each: by hand, with pkg-config, with
CMake, and with nvcc as nccl-tests does. Programs for GPUs are built and linked; of them runs what needs no GPU.

Usage: package_test.py BUILD_FOLDER CXX CMAKE CUDA_INCLUDE GPU_BUILD_FOLDERS [unittest arguments]

GPU_BUILD_FOLDERS: with a colon between them; the first that has a library is taken. None: those tests are skipped.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
BUILD, CXX, CMAKE, CUDA_INCLUDE = sys.argv[1:5]
GPU_BUILD = next((folder for folder in sys.argv[5].split(":") if os.path.exists(os.path.join(folder, "nccl", "lib", "libnccl.so.2"))), None)
TOOLKIT = os.environ.get("CUDA_HOME", "/usr/local/cuda")
NVCC = os.path.join(TOOLKIT, "bin", "nvcc")


def run(*command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, **more)
    if done.returncode != 0:
        raise AssertionError("%s\nended with %d:\n%s" % (" ".join(command), done.returncode, done.stdout))
    return done.stdout


class Package:
    """The tests of either library. `build`: its build tree; `libraries`: what a program is linked with beside libnccl."""
    build = None
    libraries = ()

    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.mkdtemp(prefix="ccld-package.")
        cls.prefix = os.path.join(cls.scratch, "installed")
        run(CMAKE, "--install", cls.build, "--component", "nccl", "--prefix", cls.prefix)
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

    def expect_linked(self, path):
        """It loads our library by the name that it has on every machine."""
        needed = re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-d", path))
        self.assertIn("libnccl.so.2", needed)

    def run_program(self, path):
        self.expect_linked(path)

    def test_the_files_are_those_of_nvidias_package(self):
        for name, target in (("libnccl.so", "libnccl.so.2"), ("libnccl.so.2", "libnccl.so." + self.release)):
            self.assertEqual(os.readlink(self.path("lib", name)), target)
        self.assertTrue(os.path.isfile(self.path("lib", "libnccl.so." + self.release)))
        self.assertEqual(sorted(os.listdir(self.path("include"))), ["nccl.h", "nccl_device", "nccl_device.h"])
        upstream = os.path.join(self.build, "nccl", "upstream", "src", "include", "nccl_device")
        wanted = {os.path.relpath(os.path.join(at, name), upstream) for at, _, names in os.walk(upstream) for name in names}
        installed = self.path("include", "nccl_device")
        present = {os.path.relpath(os.path.join(at, name), installed) for at, _, names in os.walk(installed) for name in names}
        self.assertFalse({name for name in wanted if name.endswith(".h")} - present)
        self.assertIn("gin/gdaki/doca_gpunetio/doca_gpunetio_device.h", present)
        self.assertTrue(os.path.isfile(self.path("share", "doc", "nccl", "LICENSE.txt")))

    def test_the_build_folder_serves_as_nccl_home(self):
        home = os.path.join(self.build, "nccl")
        for at, _, names in os.walk(self.path("include")):
            for name in names:
                self.assertTrue(os.path.isfile(os.path.join(home, "include", os.path.relpath(at, self.path("include")), name)))
        for name in ("libnccl.so", "pkgconfig/nccl.pc", "cmake/NCCL/NCCLConfig.cmake"):
            self.assertTrue(os.path.exists(os.path.join(home, "lib", name)), name)

    def test_a_program_is_built_by_hand(self):
        program = self.program("by_hand")
        run(CXX, "-std=c++17", self.define, "-I" + self.path("include"), "-I" + CUDA_INCLUDE, "-o", program,
            os.path.join(FOLDER, "program.cc"), "-L" + self.path("lib"), "-lnccl", *self.libraries)
        self.run_program(program)

    def test_a_program_is_built_with_pkg_config(self):
        if shutil.which("pkg-config") is None:
            self.skipTest("no pkg-config")
        environment = dict(os.environ, PKG_CONFIG_PATH=self.path("lib", "pkgconfig"))
        self.assertEqual(run("pkg-config", "--modversion", "nccl", env=environment).strip(), self.release)
        flags = run("pkg-config", "--cflags", "--libs", "nccl", env=environment).split()
        program = self.program("with_pkg_config")
        run(CXX, "-std=c++17", self.define, os.path.join(FOLDER, "program.cc"), "-o", program, *flags,
            "-I" + CUDA_INCLUDE, *self.libraries)
        self.run_program(program)

    def test_a_program_is_built_with_cmake(self):
        project = self.program("project")
        os.makedirs(project)
        with open(os.path.join(project, "CMakeLists.txt"), "w", encoding="utf-8") as file:
            file.write("cmake_minimum_required(VERSION 3.23)\nproject(user CXX)\nfind_package(NCCL 2.27 REQUIRED)\n"
                       "message(STATUS \"version=${NCCL_VERSION}\")\n"
                       "add_executable(with_cmake %s/program.cc)\n"
                       "target_compile_options(with_cmake PRIVATE %s)\n"
                       "target_link_libraries(with_cmake PRIVATE ${NCCL_LIBRARIES} %s)\n"
                       "target_link_directories(with_cmake PRIVATE %s)\n"
                       "target_include_directories(with_cmake SYSTEM PRIVATE %s)\n" %
                       (FOLDER, self.define, " ".join(self.libraries), self.path("lib"), CUDA_INCLUDE))
        out = run(CMAKE, "-S", project, "-B", project + "/build", "-DCMAKE_PREFIX_PATH=" + self.prefix,
                  "-DCMAKE_CXX_COMPILER=" + CXX)
        self.assertIn("version=" + self.release, out)
        run(CMAKE, "--build", project + "/build")
        self.run_program(project + "/build/with_cmake")

    def test_a_kernel_with_the_device_api_is_built_with_the_flags_of_nccl_tests(self):
        runtime = os.path.join(TOOLKIT, "lib64")
        if not os.path.exists(NVCC) or not os.path.exists(os.path.join(runtime, "libcudart.so")):
            self.skipTest("no nvcc, or no libcudart.so of its toolkit")
        # Its makefile compiles and links apart, for several architectures and with PTX of the newest, and says its NCCL_HOME to both.
        flags = ["-ccbin", CXX, "-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_90,code=sm_90",
                 "-gencode=arch=compute_90,code=compute_90", "-std=c++17", "-O3", "-g", "-I" + self.path("include"), "-I" + os.path.join(TOOLKIT, "include")]
        where = ["-L" + self.path("lib"), "-lnccl", "-L" + runtime, "-lcudart", "-lrt"]
        program = self.program("kernel")
        run(NVCC, *flags, self.define, "-o", program + ".o", "-c", os.path.join(FOLDER, "kernel.cu"))
        run(NVCC, *flags, "-cudart", "shared", "-o", program, program + ".o", *where)
        self.expect_linked(program)
        # Without an argument it launches nothing and asks for the version alone.
        run(program, env=dict(os.environ, LD_LIBRARY_PATH=self.path("lib") + ":" + runtime))


class CpuDevicePackageTest(Package, unittest.TestCase):
    build = BUILD
    libraries = ("-l:libcudart_ccld.so",)

    def run_program(self, path):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("NCCL_", "CCLD_"))}
        environment.update(LD_LIBRARY_PATH=self.path("lib"), NCCL_PROBE_FRAMES_DIR=self.scratch, NCCL_SOCKET_IFNAME="lo",
                           NCCL_IB_DISABLE="1", NCCL_MAX_NCHANNELS="1")
        self.assertIn("as it should be", run(path, env=environment))


@unittest.skipIf(GPU_BUILD is None, "no library for GPUs has been built (make nccl, make nccl-small)")
class GpuPackageTest(Package, unittest.TestCase):
    build = GPU_BUILD
    libraries = ("-L" + os.path.join(TOOLKIT, "lib64"), "-lcudart")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[6:])
