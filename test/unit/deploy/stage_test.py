"""scripts/image/stage: what it takes from a build tree, and what it refuses. Ordinary libraries stand for builds of libnccl."""
import os
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", ".."))
CCLD = os.environ.get("CCLD_EXECUTABLE", os.path.join(ROOT, "build", "dev", "bin", "ccld"))


def library(name):
    """Where the loader finds a library of ccld."""
    listed = subprocess.run(["ldd", CCLD], stdout=subprocess.PIPE, text=True, check=True).stdout
    return re.search(r"%s => (\S+)" % re.escape(name), listed)[1]


class StageTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build = os.path.join(folder.name, "build")
        self.context = os.path.join(folder.name, "context")
        os.makedirs(os.path.join(self.build, "bin"))
        os.makedirs(os.path.join(self.build, "lib"))
        os.symlink(CCLD, os.path.join(self.build, "bin", "ccld"))
        with open(os.path.join(self.build, "lib", "LICENSE.txt"), "w") as file:
            file.write("licence of NCCL\n")

    def stage(self, libnccl):
        path = os.path.join(self.build, "lib", "libnccl.so.2")
        if libnccl:
            os.symlink(libnccl, path)
        done = subprocess.run([os.path.join(ROOT, "scripts", "image", "stage"), self.build, path, self.context],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return done.returncode, done.stdout

    def staged(self, folder):
        return sorted(os.listdir(os.path.join(self.context, "files", folder)))

    def read(self, name):
        with open(os.path.join(self.context, name)) as file:
            return file.read().splitlines()

    def test_a_library_that_needs_only_the_runtimes_is_a_build_for_gpus(self):
        self.assertEqual(self.stage(library("libz.so.1")), (0, ""))
        self.assertIn("device=gpu", self.read("labels"))
        self.assertEqual(self.staged("usr/lib/ccld"), ["libnccl.so.2"])
        self.assertEqual(self.staged("usr/bin"), ["ccld", "ccld-install"])
        self.assertEqual(self.staged("usr/share/doc/ccld"), ["LICENSE", "LICENSE.nccl"])
        self.assertLessEqual({"base-files", "busybox-static", "libc6", "libstdc++6", "libzmq5", "libnats3.4", "libprotobuf-c1"}, set(self.read("packages")))

    def test_what_lies_beside_the_library_and_it_needs_goes_along(self):
        os.symlink(library("libmd.so.0"), os.path.join(self.build, "lib", "libmd.so.0"))
        self.assertEqual(self.stage(library("libbsd.so.0")), (0, ""))
        self.assertIn("device=cpu", self.read("labels"))
        self.assertEqual(self.staged("usr/lib/ccld"), ["libmd.so.0", "libnccl.so.2"])

    def test_a_library_that_needs_what_a_container_need_not_have_is_refused(self):
        status, said = self.stage(library("libbsd.so.0"))
        self.assertEqual(status, 1)
        self.assertRegex(said, r"^image: .*libnccl.so.2 needs libmd.so.0, .*\n$")

    def test_without_the_licence_of_nccl_there_is_no_image(self):
        os.unlink(os.path.join(self.build, "lib", "LICENSE.txt"))
        status, said = self.stage(library("libz.so.1"))
        self.assertEqual(status, 1)
        self.assertIn("LICENSE.txt", said)

    def test_what_was_not_built_is_named_with_what_to_do(self):
        status, said = self.stage(None)
        self.assertEqual(status, 1)
        self.assertRegex(said, r"^image: .*libnccl.so.2 is missing: build it first with 'make nccl'")
        os.unlink(os.path.join(self.build, "bin", "ccld"))
        status, said = self.stage(library("libz.so.1"))
        self.assertEqual(status, 1)
        self.assertRegex(said, r"^image: .*ccld is missing: build it first with 'make build'")


if __name__ == "__main__":
    if not os.path.exists(CCLD):
        print("skipped: %s is not built" % CCLD)
        sys.exit(77)
    unittest.main()
