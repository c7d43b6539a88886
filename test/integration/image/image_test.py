"""The container image: what is in it, and the demo with its service and its libnccl.

Usage: image_test.py BUILD_FOLDER IMAGE_FOLDER [unittest arguments]

IMAGE_FOLDER is what scripts/image/build wrote (build/image). The workload stands for the training container: it sees nothing of the image but
the folder that `ccld-install` filled.
"""
import hashlib
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import unittest
import urllib.request

import container

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", ".."))
SUPPORT = os.path.join(ROOT, "test", "support")
sys.path.insert(0, SUPPORT)

from faults import plan as plans  # noqa: E402
from run.build import Build  # noqa: E402
from run.outcome import run_fault  # noqa: E402
from run.processes import Child, wait_for  # noqa: E402

PLANS = os.path.join(SUPPORT, "faults", "plans")
BUILD = IMAGE_FOLDER = None
# Of the build for the CPU device, compressed; the library for GPUs is ten times as large. The size is a promise: what makes it grow should be seen.
CPU_IMAGE_BYTES_MAX = 20 << 20
INSTALLED = ("libnccl.so.2", "libzmq.so.5", "libzmq/libsodium.so.23")
# What scripts/README.md promises: glibc 2.34 and libstdc++ of GCC 12.
NEWEST_SYMBOLS = {"GLIBC": (2, 34), "GLIBCXX": (3, 4, 30), "CXXABI": (1, 3, 13)}


class ImageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.archive = os.path.join(IMAGE_FOLDER, "ccld.oci.tar")
        cls.scratch = tempfile.mkdtemp(prefix="ccld-image-")
        cls.addClassCleanup(shutil.rmtree, cls.scratch, ignore_errors=True)
        os.chmod(cls.scratch, 0o755)
        cls.image = container.Image.unpack(cls.archive, cls.scratch)
        cls.addClassCleanup(cls.image.remove_containers)
        cls.config = cls.image.config["config"]
        cls.user = int(cls.config["User"].split(":")[0])

    def open_folder(self):
        folder = tempfile.mkdtemp(dir=self.scratch)
        os.chmod(folder, 0o777)
        return folder

    def in_image(self, *command, **how):
        return self.image.run(command, entrypoint=[], **how)

    def start_service(self, *more):
        """The image's own command, but for the ports: those of this machine may be taken."""
        folder = self.open_folder()
        ready_file = os.path.join(folder, "ready.json")
        if "--cluster" in more:
            more += ("--state", os.path.join(folder, "state"))
        command, name = self.image.command(["--listen", "tcp://127.0.0.1:*", "--http", "127.0.0.1:0", "--ready-file", ready_file, *more], writable=[folder])
        service = Child("service", command, os.path.join(folder, "log"))
        self.addCleanup(service.end, 3.0)
        self.assertTrue(wait_for(lambda: os.path.exists(ready_file) or service.exit_status() is not None, 20), "the service is not ready")
        self.assertIsNone(service.exit_status(), service.last_lines())
        with open(ready_file) as file:
            return service, name, json.load(file)

    def test_the_labels_say_what_it_is(self):
        labels = {name.split(".")[-1]: value for name, value in self.config["Labels"].items()}
        self.assertEqual(labels["title"], "ccld")
        said = subprocess.run([BUILD.service, "--version"], stdout=subprocess.PIPE, text=True).stdout
        self.assertEqual(["ccld", labels["version"]], said.split()[:2])
        self.assertRegex(labels["revision"], "^([0-9a-f]{40}(-modified)?|unknown)$")
        self.assertIn("Apache-2.0", labels["licenses"])
        self.assertIn(labels["device"], ("cpu", "gpu"))

    def test_every_blob_is_what_its_name_says(self):
        for descriptor in [self.image.manifest["config"]] + self.image.manifest["layers"]:
            with open(self.image.blob_path(descriptor), "rb") as file:
                self.assertEqual("sha256:" + hashlib.sha256(file.read()).hexdigest(), descriptor["digest"])

    def test_the_same_root_file_system_gives_the_same_bytes(self):
        again = os.path.join(self.open_folder(), "again.tar")
        context = os.path.join(IMAGE_FOLDER, "context")
        with open(os.path.join(self.image.layout, "manifest.json")) as file:
            tag = json.load(file)[0]["RepoTags"][0]
        subprocess.run([sys.executable, "-B", os.path.join(ROOT, "scripts", "image", "pack.py"), "--root", os.path.join(IMAGE_FOLDER, "root"),
                        "--labels", os.path.join(context, "labels"), "--dockerfile", os.path.join(context, "Dockerfile"),
                        "--tag", tag, "--out", again], check=True)
        with open(self.archive, "rb") as one, open(again, "rb") as other:
            self.assertEqual(hashlib.sha256(one.read()).hexdigest(), hashlib.sha256(other.read()).hexdigest())

    def test_it_is_small(self):
        if self.config["Labels"]["ccld.device"] == "cpu":
            self.assertLess(os.path.getsize(self.archive), CPU_IMAGE_BYTES_MAX)

    def test_all_files_are_roots_and_none_gives_rights(self):
        with tarfile.open(self.image.blob_path(self.image.manifest["layers"][0])) as layer:
            for entry in layer:
                self.assertEqual((entry.uid, entry.gid), (0, 0), entry.name)
                self.assertFalse(entry.mode & (stat.S_ISUID | stat.S_ISGID), entry.name)
                if not entry.issym() and not entry.mode & stat.S_ISVTX:
                    self.assertFalse(entry.mode & stat.S_IWOTH, entry.name)

    def test_debug_information_and_sources_are_not_in_it(self):
        for file in ("usr/bin/ccld", "usr/lib/ccld/libnccl.so.2"):
            sections = subprocess.run(["readelf", "-S", os.path.join(self.image.rootfs, file)], stdout=subprocess.PIPE, text=True).stdout
            self.assertNotIn(".debug_info", sections)

    def test_the_libraries_for_training_ask_no_newer_system_than_promised(self):
        folder = os.path.join(self.image.rootfs, "usr", "lib", "ccld")
        for where, _, names in os.walk(folder):
            for name in names:
                output = subprocess.run(["readelf", "-V", os.path.join(where, name)], stdout=subprocess.PIPE, text=True, check=True).stdout
                for symbols, newest in NEWEST_SYMBOLS.items():
                    versions = [tuple(map(int, version.split("."))) for version in re.findall(r"\b%s_([0-9.]+)" % symbols, output)]
                    self.assertLessEqual(max(versions, default=(0,)), newest, "%s of %s" % (symbols, name))

    def test_it_runs_as_another_user_than_root_and_can_write_nowhere(self):
        self.assertNotEqual(self.user, 0)
        self.assertEqual(self.in_image("id", "-u").stdout.strip(), str(self.user))
        self.assertIn("Read-only", self.in_image("sh", "-c", "echo > /usr/bin/x").stdout)
        self.assertIn("CapBnd:\t0000000000000000", self.in_image("cat", "/proc/self/status").stdout)

    def test_the_service_is_healthy_until_it_is_told_to_end(self):
        service, name, ready = self.start_service()
        with urllib.request.urlopen(ready["http"] + "/healthz", timeout=10) as answer:
            self.assertEqual(answer.status, 200)
        check = self.image.runc("exec", "--env", "CCLD_HTTP=" + ready["http"], name, *self.config["Healthcheck"]["Test"][1:])
        self.assertEqual(subprocess.run(check, stdout=subprocess.DEVNULL).returncode, 0)
        service.signal(15)
        self.assertEqual(service.wait(20), 0, service.last_lines())
        self.assertEqual(self.image.run([], entrypoint=self.config["Healthcheck"]["Test"][1:] + ["--http", ready["http"]]).returncode, 1)

    def test_it_can_be_a_node_of_a_cluster(self):
        service, _, ready = self.start_service("--cluster", "nats://127.0.0.1:1", "--cluster-node", "a")
        with urllib.request.urlopen(ready["http"] + "/healthz", timeout=10) as answer:
            self.assertEqual(answer.status, 200)
        service.signal(15)
        self.assertEqual(service.wait(20), 0, service.last_lines())
        licence = os.path.join(self.image.rootfs, "usr", "share", "doc", "libnats3.4", "copyright")
        self.assertTrue(os.path.exists(licence))

    def test_installing_twice_leaves_a_program_that_has_the_old_library_alone(self):
        folder = self.open_folder()
        self.assertEqual(self.in_image("ccld-install", folder, writable=[folder]).returncode, 0)
        before = {name: os.stat(os.path.join(folder, name)).st_ino for name in INSTALLED}
        with open(os.path.join(folder, INSTALLED[0]), "rb") as old:
            done = self.in_image("ccld-install", folder, writable=[folder])
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertEqual(os.fstat(old.fileno()).st_nlink, 0)
        for name in INSTALLED:
            self.assertNotEqual(os.stat(os.path.join(folder, name)).st_ino, before[name])
        self.assertFalse([name for name in os.listdir(folder) if name.endswith(".part")])

    def test_installing_where_nothing_can_be_written_says_so(self):
        done = self.in_image("ccld-install", "/usr/lib/ccld")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("ccld-install: cannot write", done.stdout)
        self.assertEqual(self.in_image("ccld-install").returncode, 2)

    def test_a_fault_is_found_by_the_images_service_in_ranks_that_use_the_images_library(self):
        folder = self.open_folder()
        done = self.in_image("ccld-install", folder, writable=[folder])
        self.assertEqual(done.returncode, 0, done.stdout)
        service = os.path.join(self.open_folder(), "ccld")
        with open(service, "w") as file:
            file.write("#!/bin/sh\nexec '%s' -B '%s' '%s' \"$@\"\n" % (sys.executable, container.__file__, self.scratch))
        os.chmod(service, 0o755)
        build = Build(BUILD.folder)
        build.service, build.library_folder = service, folder
        # With longer timeouts than the demo's: this is about the image, not about how fast, and machines that build images are busy.
        plan = plans.load(os.path.join(os.path.dirname(os.path.realpath(__file__)), "frozen_channel.json"),
                          plans.read_json(os.path.join(PLANS, "thresholds.json")))
        mapped = set()

        def look(text):
            if text == "healthy traffic":
                mapped.update(libraries_of_ranks())
        outcome = run_fault(build, plan, os.path.join(self.open_folder(), "run"), look)
        self.assertTrue(outcome.right, "%s: %s" % (outcome.why_wrong, outcome.verdict))
        for name in INSTALLED:
            self.assertIn(os.path.join(folder, name), mapped)
        elsewhere = [path for path in mapped if os.path.basename(path).startswith(("libnccl", "libzmq", "libsodium")) and not path.startswith(folder)]
        self.assertEqual(elsewhere, [])


def libraries_of_ranks():
    """Shared libraries that the ranks, children of this process, have loaded."""
    found = set()
    with open("/proc/self/task/%d/children" % os.getpid()) as file:
        for pid in file.read().split():
            try:
                if os.readlink("/proc/%s/exe" % pid) == os.path.realpath(BUILD.workload):
                    with open("/proc/%s/maps" % pid) as maps:
                        found.update(line.split()[-1] for line in maps if ".so" in line)
            except OSError:
                pass  # it has ended
    return found


if __name__ == "__main__":
    reason = container.why_not()
    if reason:
        print("image-test: %s" % reason, file=sys.stderr)
        sys.exit(2)
    BUILD, IMAGE_FOLDER = Build(sys.argv[1]).check(), os.path.abspath(sys.argv[2])
    if not os.path.exists(os.path.join(IMAGE_FOLDER, "ccld.oci.tar")):
        print("image-test: there is no %s/ccld.oci.tar: make image" % IMAGE_FOLDER, file=sys.stderr)
        sys.exit(2)
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
