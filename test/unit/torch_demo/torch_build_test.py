"""What is said of a torch by its files agrees with what the loader then does. The trees are made here, with gcc in the place of torch's build."""
import os
import subprocess
import sys
import tempfile
import unittest

import paths  # noqa: F401
from run.errors import RunError
from torch_demo import machine, torch_build
from torch_demo.torch_build import LIBRARY_PATH, PRELOAD

NCCL = "int ncclGetVersion(int* version) { *version = %d; return 0; }\n"
CALLER = "int ncclGetVersion(int*);\nint torch_nccl_version(void) { int version = 0; ncclGetVersion(&version); return version; }\n"
OURS, THEIRS = 1, 2
SHOW = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).torch_nccl_version())"


def compile_library(path, source, *options):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-", "-x", "none", "-o", path] + list(options), input=source, text=True, check=True)


class TorchBuildTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.site = os.path.join(os.path.realpath(folder.name), "site-packages")
        self.torch = os.path.join(self.site, "torch")
        self.ours = os.path.join(os.path.realpath(folder.name), "ours", "libnccl.so.2")
        compile_library(self.ours, NCCL % OURS, "-Wl,-soname,libnccl.so.2")

    def theirs(self, folder):
        path = os.path.join(folder, "libnccl.so.2")
        compile_library(path, NCCL % THEIRS, "-Wl,-soname,libnccl.so.2")
        return path

    def make_torch(self, *options, nccl=None, source=CALLER):
        path = os.path.join(self.torch, "lib", "libtorch_cuda.so")
        compile_library(path, source, *options, *([nccl] if nccl else []))
        return torch_build.judge(self.torch)

    def loaded_by(self, way, inherited=None):
        """Which NCCL the library gets when this way is used."""
        environment = {"PATH": os.environ["PATH"], **(inherited or {})}
        environment.update(torch_build.environment(way, self.ours, environment))
        done = subprocess.run([sys.executable, "-c", SHOW, os.path.join(self.torch, "lib", "libtorch_cuda.so")], stdout=subprocess.PIPE,
                              text=True, env=environment, check=True)
        return int(done.stdout)

    def check_ways(self, linking, inherited=None):
        """Exactly the ways that are said to work do."""
        for way in (LIBRARY_PATH, PRELOAD):
            self.assertEqual(self.loaded_by(way, inherited) == OURS, way in linking.ways, way)

    def test_a_pip_wheel_has_an_rpath_which_only_a_preloaded_library_beats(self):
        own = self.theirs(os.path.join(self.site, "nvidia", "nccl", "lib"))
        linking = self.make_torch("-Wl,-rpath,$ORIGIN/../../nvidia/nccl/lib:$ORIGIN", "-Wl,--disable-new-dtags", nccl=own)
        self.assertEqual((linking.kind, linking.ways, linking.own), ("rpath", (PRELOAD,), own))
        self.check_ways(linking)

    def test_a_runpath_is_asked_after_the_library_path(self):
        own = self.theirs(os.path.join(self.site, "nvidia", "nccl", "lib"))
        linking = self.make_torch("-Wl,-rpath,$ORIGIN/../../nvidia/nccl/lib", "-Wl,--enable-new-dtags", nccl=own)
        self.assertEqual((linking.kind, linking.ways, linking.own), ("runpath", (LIBRARY_PATH, PRELOAD), own))
        self.check_ways(linking)

    def test_an_rpath_without_an_nccl_in_it_is_in_nobodys_way(self):
        system = self.theirs(os.path.join(self.site, "system"))
        linking = self.make_torch("-Wl,-rpath,$ORIGIN", "-Wl,--disable-new-dtags", nccl=system)
        self.assertEqual((linking.kind, linking.ways), ("system", (LIBRARY_PATH, PRELOAD)))
        self.check_ways(linking, {LIBRARY_PATH: os.path.dirname(system)})

    def test_a_build_of_a_distribution_takes_what_the_system_has(self):
        system = self.theirs(os.path.join(self.site, "system"))
        linking = self.make_torch(nccl=system)
        self.assertEqual((linking.kind, linking.own), ("system", None))
        self.check_ways(linking, {LIBRARY_PATH: os.path.dirname(system)})

    def test_a_build_with_nccl_inside_cannot_be_helped(self):
        hidden = (NCCL % THEIRS).replace("int ncclGetVersion", "__attribute__((visibility(\"hidden\"))) int ncclGetVersion")
        linking = self.make_torch(source=hidden + CALLER.splitlines()[1])
        self.assertEqual((linking.kind, linking.ways), ("static", ()))
        self.check_ways(linking)

    def test_nccl_that_somebody_else_loads_can_be_preloaded(self):
        linking = self.make_torch()
        self.assertEqual((linking.kind, linking.ways), ("loaded", (PRELOAD,)))
        self.assertEqual(self.loaded_by(PRELOAD), OURS)

    def test_what_was_set_before_stays_behind_ours(self):
        self.assertEqual(torch_build.environment(LIBRARY_PATH, "/ours/libnccl.so.2", {LIBRARY_PATH: "/usr/local/nvidia/lib64"}),
                         {LIBRARY_PATH: "/ours:/usr/local/nvidia/lib64"})
        self.assertEqual(torch_build.environment(PRELOAD, "/ours/libnccl.so.2", {}), {PRELOAD: "/ours/libnccl.so.2"})

    def test_a_torch_without_cuda_and_a_python_without_torch_are_refused(self):
        compile_library(os.path.join(self.torch, "lib", "libtorch.so"), "int torch;\n")
        with self.assertRaisesRegex(RunError, "built without CUDA"):
            torch_build.judge(self.torch)
        with open(os.path.join(self.torch, "lib", "libtorch_cuda.so"), "w") as file:
            file.write("not a library")
        with self.assertRaisesRegex(RunError, "not a shared library"):
            torch_build.judge(self.torch)
        with self.assertRaisesRegex(RunError, "has no torch"):
            torch_build.find_torch(self.python_that_sees(os.path.join(self.site, "nothing")))

    def test_without_readelf_the_surest_way_comes_first(self):
        self.make_torch(nccl=self.theirs(os.path.join(self.site, "system")))
        path = os.environ["PATH"]
        self.addCleanup(os.environ.__setitem__, "PATH", path)
        os.environ["PATH"] = self.site
        self.assertEqual(torch_build.judge(self.torch).ways[0], PRELOAD)

    def test_of_the_libraries_that_came_along_only_those_of_the_probe_are_lent(self):
        base = os.path.dirname(self.site)
        brought = os.path.join(base, "lib")
        sodium = os.path.join(brought, "libsodium.so.23")
        compile_library(sodium, "int sodium;\n", "-Wl,-soname,libsodium.so.23")
        compile_library(os.path.join(brought, "libzmq.so.5"), "extern int sodium; int zmq(void) { return sodium; }\n", sodium)
        compile_library(os.path.join(brought, "libcrypto.so.3"), "int crypto;\n")
        service = os.path.join(base, "bin", "ccld")
        os.mkdir(os.path.dirname(service))
        open(service, "w").close()
        demo = machine.Machine("torch", sys.executable, self.ours, service, PRELOAD)
        lent = os.path.join(base, "lent")
        demo.lend_probe_libraries(lent)
        self.assertEqual(sorted(os.listdir(lent)), ["libsodium.so.23", "libzmq.so.5"])
        self.assertEqual(demo.environment(4)["LD_LIBRARY_PATH"].split(":")[-1], lent)

    def test_torch_is_found_without_being_loaded(self):
        os.makedirs(self.torch)
        with open(os.path.join(self.torch, "__init__.py"), "w") as file:
            file.write("raise SystemExit('loaded')\n")
        self.assertEqual(torch_build.find_torch(self.python_that_sees(self.site)), self.torch)

    def python_that_sees(self, site):
        """A Python whose only packages are those of this folder."""
        path = os.path.join(os.path.dirname(self.site), "python-%d" % len(os.listdir(os.path.dirname(self.site))))
        with open(path, "w") as file:
            file.write("#!/bin/sh\nPYTHONPATH='%s' exec '%s' -S \"$@\"\n" % (site, sys.executable))
        os.chmod(path, 0o755)
        return path


if __name__ == "__main__":
    unittest.main()
