"""What is installed, packed and handed out, used as operators use it. The library for the CPU device stands in for the one for GPUs.

Usage: install_test.py BUILD_FOLDER CMAKE [unittest arguments]

Packages are installed into a root of their own, whose list of packages is this machine's, so that what they depend on is looked at.
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", ".."))
sys.path[:0] = [os.path.join(ROOT, "scripts"), os.path.join(ROOT, "test", "support")]

from run.build import Build  # noqa: E402
from run.processes import Child, wait_for  # noqa: E402
from torch_demo.machine import CPU_DEVICE_ENVIRONMENT  # noqa: E402

INSTALL = os.path.join(ROOT, "scripts", "install")
README = os.path.join(INSTALL, "README.md")
NEEDED = ("cpack", "dpkg-deb", "dpkg-shlibdeps", "strip", "patchelf", "readelf")
SKIPPED = 77
# Of systemd-analyze security, tenths of its 0 (safe) to 10 (open).
EXPOSURE_MAX = 20
BUILD = CMAKE = SCRATCH = DIST = None


def run(*command, status=0, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, **more)
    if status is not None and done.returncode != status:
        raise AssertionError("%s\nended with %d:\n%s" % (" ".join(command), done.returncode, done.stdout))
    return done.stdout


def files_below(folder):
    """Relative paths of everything, folders too."""
    return {os.path.relpath(os.path.join(at, name), folder) for at, folders, names in os.walk(folder) for name in folders + names}


def needed_by(path):
    return re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-d", path))


def search_path_of(path):
    found = re.findall(r"(?:RPATH|RUNPATH).*\[(.*)\]", run("readelf", "-d", path))
    return found[0] if found else None


def release(out, *arguments):
    return run(sys.executable, "-B", os.path.join(ROOT, "scripts", "release"), "--build", BUILD.folder, "--out", out, "--quick", *arguments).split()


def package(name):
    paths = [os.path.join(DIST, file) for file in os.listdir(DIST) if re.match(name + r"_.*\.deb$", file)]
    assert len(paths) == 1, paths
    return paths[0]


def environment(**more):
    base = {name: value for name, value in os.environ.items() if not name.startswith(("NCCL_", "CCLD_", "LD_"))}
    base.update(more)
    return base


class Ranks:
    """A job of two ranks that goes on until it is ended; its files and logs are in `folder`."""

    def __init__(self, folder, libraries, **variables):
        self.frames = os.path.join(folder, "frames")
        os.makedirs(self.frames)
        self.logs = [os.path.join(folder, "log%d" % rank) for rank in range(2)]
        self.children = []
        for rank in range(2):
            command = [BUILD.workload, "--rank", str(rank), "--ranks", "2", "--id-file", os.path.join(folder, "id"),
                       "-b", "64K", "-e", "64K", "--compute-ms", "5", "--seconds", "600"]
            self.children.append(Child("rank %d" % rank, command, self.logs[rank], environment(
                **CPU_DEVICE_ENVIRONMENT, **variables, LD_LIBRARY_PATH=libraries, NCCL_PROBE_FRAMES_DIR=self.frames)))

    def end(self):
        for child in self.children:
            child.end()

    def look(self, ccld, *arguments):
        return json.loads(run(ccld, "frames", "--dir", self.frames, "--json", *arguments))

    def wait_until_running(self, ccld):
        def all_run():
            frames = self.look(ccld)["frames"]
            return len(frames) == 2 and all(frame["completed_op_seq"] > 2 for frame in frames)
        assert wait_for(all_run, 60), self.children[0].last_lines()


class ThrowawayRoot:
    """A root file system with dpkg's list of this machine's packages, or an empty one, and nothing else."""

    def __init__(self, with_packages=True):
        self.folder = tempfile.mkdtemp(prefix="root.", dir=SCRATCH)
        for folder in ("var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers", "etc", "usr/bin"):
            os.makedirs(self.path(folder))
        open(self.path("var/lib/dpkg/status"), "w").close()
        if with_packages:
            self._list_packages()

    def _list_packages(self):
        installed = run("dpkg-query", "-W", "-f", "Package: ${Package}\nStatus: ${Status}\nVersion: ${Version}\nArchitecture: ${Architecture}\n"
                        "Multi-Arch: ${Multi-Arch}\nProvides: ${Provides}\nMaintainer: nobody\nDescription: none\n\n")
        kept = [paragraph for paragraph in installed.split("\n\n") if "Status: install ok installed" in paragraph and
                not re.match(r"Package: (ccld|libnccl2-ccld.*)\n", paragraph)]
        with open(self.path("var/lib/dpkg/status"), "w", encoding="utf-8") as file:
            file.write("\n\n".join(re.sub(r"(Multi-Arch|Provides): \n", "", paragraph + "\n").rstrip("\n") for paragraph in kept) + "\n")
        for paragraph in kept:
            name, version_arch = re.search(r"Package: (.*)", paragraph).group(1), re.search(r"Architecture: (.*)", paragraph).group(1)
            same = "Multi-Arch: same" in paragraph
            open(self.path("var/lib/dpkg/info/%s.list" % (name + ":" + version_arch if same else name)), "w").close()

    def path(self, name):
        return os.path.join(self.folder, name)

    def dpkg_command(self):
        return ["dpkg", "--root=" + self.folder, "--force-script-chrootless", "--force-not-root", "--force-confold", "--no-triggers",
                "--log=" + self.path("dpkg.log")]

    def dpkg(self, *arguments, status=0):
        return run(*self.dpkg_command(), *arguments, status=status)

    def ours(self):
        """What is there besides dpkg's own records."""
        return {name for name in files_below(self.folder) if not name.startswith("var/lib/dpkg") and name != "dpkg.log"}


class InstalledTreeTest(unittest.TestCase):
    def setUp(self):
        self.destination = tempfile.mkdtemp(prefix="tree.", dir=SCRATCH)

    def install(self, prefix):
        for component in ("ccld", "library"):
            run(CMAKE, "--install", BUILD.folder, "--component", component, "--prefix", prefix, env=dict(os.environ, DESTDIR=self.destination))
        return self.destination + prefix

    def test_everything_is_below_the_prefix_and_the_service_runs_from_there(self):
        prefix = self.install("/opt/tools")
        self.assertEqual(os.listdir(self.destination), ["opt"])
        found = files_below(prefix)
        for name in ("bin/ccld", "bin/ccld-validate", "lib/ccld/libnccl.so.2", "lib/ccld/libccld_validate.so", "lib/systemd/system/ccld.service", "etc/ccld/ccld.toml", "etc/default/ccld",
                     "share/man/man1/ccld.1.gz", "share/man/man1/ccld-serve.1.gz", "share/bash-completion/completions/ccld",
                     "share/zsh/vendor-completions/_ccld", "share/doc/ccld/copyright", "share/doc/libnccl2-ccld/copyright.nccl"):
            self.assertIn(name, found)
        # No loader finds it that is not told to.
        self.assertEqual([name for name in found if name.startswith("lib/lib")], [])
        self.assertRegex(run(os.path.join(prefix, "bin/ccld"), "--version"), r"^ccld [0-9.]+ \(build [^ /]+\)\n$")
        with open(os.path.join(prefix, "lib/systemd/system/ccld.service"), encoding="utf-8") as unit:
            text = unit.read()
        self.assertIn("ExecStart=/opt/tools/bin/ccld serve --config /opt/tools/etc/ccld/ccld.toml", text)
        self.assertNotIn("@", re.sub(r"@(system-service|privileged|resources)", "", text))

    def test_libraries_are_looked_for_where_they_are_and_nowhere_else(self):
        prefix = self.install("/usr/local")
        self.assertIsNone(search_path_of(os.path.join(prefix, "bin/ccld")))
        self.assertEqual(search_path_of(os.path.join(prefix, "bin/ccld-validate")), "$ORIGIN/../lib/ccld")
        # It finds its NCCL, and so the CPU device, without being told to.
        self.assertIn("Not measured", run(os.path.join(prefix, "bin/ccld-validate"), "--ranks", "1", "--rank", "0", status=3, env=environment()))
        library = os.path.join(prefix, "lib/ccld/libnccl.so.2")
        self.assertEqual(search_path_of(library), "$ORIGIN")
        self.assertIn("SONAME", run("readelf", "-d", library))
        self.assertEqual([name for name in needed_by(library) if "zmq" in name or "absl" in name], [])
        self.assertEqual(os.readlink(os.path.join(prefix, "lib/ccld/libcuda.so.1")), "libcudart_ccld.so")

    def test_the_configuration_of_usr_is_in_etc_and_what_an_operator_changed_stays(self):
        self.install("/usr")
        config = os.path.join(self.destination, "etc/ccld/ccld.toml")
        with open(config, "a", encoding="utf-8") as file:
            file.write("# mine\n")
        library = os.path.join(self.destination, "usr/lib/ccld/libnccl.so.2")
        os.utime(library, (0, 0))  # as another build: equal ones stay as they are
        with open(library, "rb") as loaded:
            self.install("/usr")
            # A process that has loaded it keeps the old one.
            self.assertEqual(os.fstat(loaded.fileno()).st_nlink, 0)
        with open(config, encoding="utf-8") as file:
            self.assertIn("# mine", file.read())
        self.assertFalse(os.path.exists(os.path.join(self.destination, "usr/etc")))

    def test_the_service_accepts_the_installed_config_file(self):
        with open(os.path.join(INSTALL, "ccld.toml"), encoding="utf-8") as file:
            text = file.read().replace("/var/lib/ccld", self.destination).replace(":5566", ":0").replace(":5580", ":0")
        config = os.path.join(self.destination, "ccld.toml")
        with open(config, "w", encoding="utf-8") as file:
            file.write(text)
        ready = os.path.join(self.destination, "ready")
        service = Child("ccld", [BUILD.service, "serve", "--config", config, "--ready-file", ready], os.path.join(self.destination, "log"), environment())
        try:
            self.assertTrue(wait_for(lambda: os.path.exists(ready), 30), service.last_lines())
            service.signal(15)
            self.assertEqual(service.wait(20), 0)
            self.assertTrue(os.path.exists(os.path.join(self.destination, "verdicts.jsonl")))
        finally:
            service.end()


class PackagesTest(unittest.TestCase):
    def field(self, path, name):
        return run("dpkg-deb", "-f", path, name).strip()

    def test_they_say_what_they_need_and_what_they_are(self):
        service, library = package("ccld"), package("libnccl2-ccld-cpu")
        self.assertIn("libzmq5", self.field(service, "Depends"))
        self.assertIn("libc6 (>=", self.field(service, "Depends"))
        self.assertNotIn("libnats", self.field(service, "Depends"))
        self.assertIn("libnats3.4", self.field(service, "Suggests"))
        self.assertIn("libzmq5", self.field(library, "Depends"))
        self.assertIn("libc6 (>=", self.field(library, "Depends"))
        self.assertEqual(self.field(library, "Conflicts"), "libnccl2-ccld")
        self.assertIn("never to train", self.field(library, "Description"))
        build = re.search(r"build (\S+)\)", run(BUILD.service, "--version")).group(1)
        for path in (service, library):
            self.assertIn("Build %s." % build, self.field(path, "Description"))
            self.assertEqual(self.field(path, "Architecture"), run("dpkg", "--print-architecture").strip())
            self.assertNotIn("libnccl2", self.field(path, "Provides"))

    def test_their_files_are_roots_and_nobody_else_can_write_them(self):
        for path in (package("ccld"), package("libnccl2-ccld-cpu")):
            for line in run("dpkg-deb", "--contents", path).splitlines():
                mode, owner = line.split()[:2]
                self.assertEqual(owner, "root/root", line)
                self.assertTrue(mode.startswith("l") or mode[8] == "-", line)
            self.assertNotIn(".debug_info", self.sections(path))

    def sections(self, path):
        folder = tempfile.mkdtemp(prefix="sections.", dir=SCRATCH)
        run("dpkg-deb", "-x", path, folder)
        found = [os.path.join(folder, name) for name in ("usr/bin/ccld", "usr/lib/ccld/libnccl.so.2")]
        return "".join(run("readelf", "-S", name) for name in found if os.path.exists(name))

    def test_the_library_lies_where_no_loader_looks_by_itself(self):
        names = [line.split()[5] for line in run("dpkg-deb", "--contents", package("libnccl2-ccld-cpu")).splitlines()]
        libraries = [name for name in names if ".so" in name]
        self.assertTrue(libraries)
        for name in libraries:
            self.assertTrue(name.startswith("./usr/lib/ccld/"), name)

    def test_installing_upgrading_removing_and_purging_leaves_nothing(self):
        root = ThrowawayRoot()
        before = root.ours()
        root.dpkg("-i", package("ccld"), package("libnccl2-ccld-cpu"))
        self.assertRegex(run(root.path("usr/bin/ccld"), "--version"), "^ccld ")
        self.assertEqual(root.dpkg("--verify", "ccld"), "")

        config = root.path("etc/ccld/ccld.toml")
        with open(config, "a", encoding="utf-8") as file:
            file.write("# mine\n")
        os.makedirs(root.path("var/lib/private/ccld"))
        root.dpkg("-i", self.newer(package("ccld")))
        self.assertIn("99", run("dpkg-query", "--admindir=" + root.path("var/lib/dpkg"), "-W", "-f", "${Version}", "ccld"))
        with open(config, encoding="utf-8") as file:
            self.assertIn("# mine", file.read())

        root.dpkg("-r", "ccld", "libnccl2-ccld-cpu")
        self.assertFalse(os.path.exists(root.path("usr/bin/ccld")))
        self.assertTrue(os.path.exists(config))
        self.assertTrue(os.path.exists(root.path("var/lib/private/ccld")))
        root.dpkg("-P", "ccld", "libnccl2-ccld-cpu")
        self.assertEqual({name for name in root.ours() - before if name not in ("var/lib/private",)}, set())

    def newer(self, path):
        folder = tempfile.mkdtemp(prefix="newer.", dir=SCRATCH)
        run("dpkg-deb", "-R", path, folder + "/tree")
        control = folder + "/tree/DEBIAN/control"
        with open(control, encoding="utf-8") as file:
            text = file.read()
        with open(control, "w", encoding="utf-8") as file:
            file.write(re.sub(r"(?m)^Version: .*$", "Version: 99", text))
        run("dpkg-deb", "--root-owner-group", "-Znone", "-b", folder + "/tree", folder)
        return os.path.join(folder, [name for name in os.listdir(folder) if name.endswith(".deb")][0])

    def test_it_is_not_installed_where_libraries_are_missing(self):
        root = ThrowawayRoot(with_packages=False)
        self.assertIn("depends on libzmq5", root.dpkg("-i", package("libnccl2-ccld-cpu"), status=None))


class ReleaseTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="archive.", dir=SCRATCH)
        archive, = [name for name in os.listdir(DIST) if name.endswith(".tar.xz")]
        with tarfile.open(os.path.join(DIST, archive)) as file:
            file.extractall(cls.folder)
        cls.top = os.path.join(cls.folder, archive[: -len(".tar.xz")])

    def test_the_checksums_are_right_and_of_every_file(self):
        run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=DIST)
        with open(os.path.join(DIST, "SHA256SUMS"), encoding="utf-8") as file:
            named = {line.split()[1] for line in file}
        self.assertEqual(named | {"SHA256SUMS"}, set(os.listdir(DIST)))

    def test_the_same_trees_give_the_same_bytes(self):
        again = tempfile.mkdtemp(prefix="again.", dir=SCRATCH)
        release(again)
        for name in os.listdir(DIST):
            with open(os.path.join(DIST, name), "rb") as one, open(os.path.join(again, name), "rb") as other:
                self.assertEqual(one.read(), other.read(), name)

    def test_the_archive_brings_its_libraries_along(self):
        ccld = os.path.join(self.top, "bin", "ccld")
        self.assertRegex(run(ccld, "--version", env={}), "^ccld ")
        self.assertRegex(run(os.path.join(self.top, "bin", "ccld-validate"), "--version", env={}), "^ccld-validate ")
        service = os.path.join(self.top, "lib", "ccld", "service")
        for name, path in re.findall(r"(\S+) => (\S+)", run("ldd", ccld)):
            if os.path.exists(os.path.join(service, name)):
                self.assertEqual(os.path.realpath(path), os.path.join(os.path.realpath(service), name))
            else:
                self.assertRegex(name, r"^(lib(c|m|dl|rt|pthread|resolv|stdc\+\+|gcc_s)\.so|ld-linux)")
        # What a training process loads for a hardware test finds the same, and NCCL beside it.
        beside = os.path.join(os.path.realpath(self.top), "lib", "ccld")
        for name, path in re.findall(r"(\S+) => (\S+)", run("ldd", os.path.join(beside, "libccld_validate.so"))):
            if not path.startswith(beside + "/"):
                self.assertRegex(name, r"^(lib(c|m|dl|rt|pthread|resolv|stdc\+\+|gcc_s)\.so|ld-linux)")
        libzmq = os.path.join(self.top, "lib", "ccld", "libzmq.so.5")
        own = os.path.join(os.path.realpath(self.top), "lib", "ccld", "libzmq")
        for name, path in re.findall(r"(\S+) => (\S+)", run("ldd", libzmq)):
            if os.path.exists(os.path.join(own, name)):
                self.assertEqual(os.path.realpath(path), os.path.join(own, name))

    def test_a_node_of_a_cluster_loads_what_the_archive_brings_along(self):
        folder = tempfile.mkdtemp(prefix="node.", dir=SCRATCH)
        ready = os.path.join(folder, "ready")
        command = [os.path.join(self.top, "bin", "ccld"), "serve", "--listen", "tcp://127.0.0.1:*", "--http", "127.0.0.1:0", "--ready-file", ready, "--state", folder,
                   "--cluster", "nats://127.0.0.1:1"]
        node = Child("node", command, os.path.join(folder, "log"), environment())
        try:
            self.assertTrue(wait_for(lambda: os.path.exists(ready) or node.exit_status() is not None, 30))
            self.assertIsNone(node.exit_status(), node.last_lines())
            with open("/proc/%d/maps" % node.pid, encoding="utf-8") as maps:
                loaded = {line.split()[-1] for line in maps if ".so" in line}
        finally:
            node.end(3)
        service = os.path.join(os.path.realpath(self.top), "lib", "ccld", "service")
        self.assertIn(os.path.join(service, "libnats.so.3.4"), loaded)
        elsewhere = {os.path.basename(path) for path in loaded if not path.startswith(service)}
        self.assertEqual(elsewhere & set(os.listdir(service)), set())

    def test_what_cannot_be_released_is_one_line(self):
        script = os.path.join(ROOT, "scripts", "release")
        said = run(sys.executable, "-B", script, "--build", self.folder, "--out", self.folder, status=1)
        self.assertRegex(said, r"^release: .*release\.facts: No such file.*configure and build it first\n$")
        said = run(sys.executable, "-B", script, "--build", BUILD.folder, "--out", self.folder, "--version", "new", status=1)
        self.assertRegex(said, r"^release: --version new: a digit, then .*\n$")
        said = run(sys.executable, "-B", script, "--build", BUILD.folder, "--out", self.folder, status=1, env=dict(os.environ, SOURCE_DATE_EPOCH="today"))
        self.assertRegex(said, r"^release: SOURCE_DATE_EPOCH is 'today': .*\n$")


@unittest.skipUnless(shutil.which("systemd-analyze"), "no systemd-analyze")
class UnitTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.mkdtemp(prefix="unit.", dir=SCRATCH)
        run(CMAKE, "--install", BUILD.folder, "--component", "ccld", "--prefix", folder + "/usr/local")
        self.unit = folder + "/usr/local/lib/systemd/system/ccld.service"

    def test_systemd_understands_all_of_it(self):
        said = run("systemd-analyze", "verify", "--man=no", self.unit, status=None)
        self.assertEqual([line for line in said.splitlines() if "ccld.service" in line], [])

    def allowed_calls(self):
        def calls_of(group):
            calls = set()
            for line in run("systemd-analyze", "syscall-filter", "--no-pager", group).splitlines()[1:]:
                name = line.split("#")[0].strip()
                calls |= calls_of(name) if name.startswith("@") else {name}
            return calls
        allowed = set()
        with open(self.unit, encoding="utf-8") as file:
            filters = re.findall(r"(?m)^SystemCallFilter=(.*)$", file.read())
        for words in filters:
            named = set().union(*(calls_of(word) if word.startswith("@") else {word} for word in words.lstrip("~").split()))
            allowed = allowed - named if words.startswith("~") else allowed | named
        return allowed

    @unittest.skipUnless(shutil.which("strace"), "no strace")
    def test_the_service_makes_no_system_call_that_its_filter_refuses(self):
        folder = os.path.dirname(self.unit)
        trace, ready = os.path.join(folder, "trace"), os.path.join(folder, "ready")
        if subprocess.run(["strace", "-o", trace, "true"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("strace may not trace here")
        service = Child("ccld", ["strace", "-f", "-o", trace, BUILD.service, "serve", "--listen", "tcp://127.0.0.1:0", "--http", "127.0.0.1:0",
                                 "--verdicts", os.path.join(folder, "verdicts"), "--state", os.path.join(folder, "state"), "--record-incidents", os.path.join(folder, "incidents"),
                                 "--ready-file", ready], os.path.join(folder, "log"), environment())
        self.addCleanup(service.end)
        self.assertTrue(wait_for(lambda: os.path.exists(ready), 60), service.last_lines())
        with open(ready, encoding="utf-8") as file:
            facts = json.load(file)
        ranks = Ranks(os.path.join(folder, "job"), BUILD.library_folder, NCCL_PROBE_ENDPOINT=facts["telemetry"])
        self.addCleanup(ranks.end)
        known = ["status", "--json", "--http", facts["http"]]
        self.assertTrue(wait_for(lambda: json.loads(run(BUILD.service, *known))["process_count"] == 2, 60))
        os.kill(facts["pid"], 15)
        self.assertEqual(service.wait(60), 0, service.last_lines())
        with open(trace, encoding="utf-8", errors="replace") as file:
            made = set(re.findall(r"(?m)^\d+ +([a-z_0-9]+)\(", file.read()))
        self.assertIn("epoll_wait", made)
        # Only as root does SQLite give its log the owner of the database; the unit runs the service as another user.
        of_root = {"fchown"} if os.geteuid() == 0 else set()
        self.assertEqual(made - self.allowed_calls() - of_root, set())

    def test_it_gives_away_little(self):
        said = run("systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=%d" % EXPOSURE_MAX, self.unit, status=None)
        self.assertIn("Overall exposure level", said)
        self.assertLessEqual(float(re.search(r"exposure level for ccld.service: ([0-9.]+)", said).group(1)) * 10, EXPOSURE_MAX, said)


class PagesTest(unittest.TestCase):
    pages = None

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="pages.", dir=SCRATCH)
        run(BUILD.service, "man", "--into", cls.folder)
        cls.commands = re.findall(r"(?m)^  ([a-z]+)  ", run(BUILD.service, "--help"))

    def test_every_command_has_a_page_that_is_formatted_without_a_warning(self):
        self.assertGreater(len(self.commands), 5)
        self.assertEqual(set(os.listdir(self.folder)), {"ccld.1"} | {"ccld-%s.1" % command for command in self.commands})
        if not shutil.which("groff"):
            self.skipTest("no groff")
        for name in os.listdir(self.folder):
            done = subprocess.run(["groff", "-man", "-ww", "-Tutf8", os.path.join(self.folder, name)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""), name)
            self.assertIn("SYNOPSIS", re.sub(".\x08", "", done.stdout))  # bold is a letter struck twice

    def test_a_page_has_the_options_of_help(self):
        for command in self.commands:
            with open(os.path.join(self.folder, "ccld-%s.1" % command), encoding="utf-8") as file:
                page = file.read().replace("\\-", "-")
            for option in re.findall(r"--[a-z-]+", "\n".join(re.findall(r"(?m)^  (-.*?)(?:  |$)", run(BUILD.service, command, "--help")))):
                self.assertIn("\\fB%s\\fR" % option, page, command)
        self.assertIn("there is no command", run(BUILD.service, "man", "nothing", status=2))

    def complete(self, *words):
        """What bash offers for the last word."""
        script = ('eval "$("$1" completion bash)"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _ccld; printf "%s\\n" "${COMPREPLY[@]}"')
        said = run("bash", "--norc", "-c", script, "bash", BUILD.service, *words, cwd=self.folder)
        return set(said.split())

    def test_bash_offers_commands_options_and_values(self):
        self.assertEqual(self.complete("ccld", ""), set(self.commands))
        self.assertEqual(self.complete("ccld", "st"), {"status"})
        self.assertTrue({"--help", "--version"} <= self.complete("ccld", "--"))
        options = self.complete("ccld", "serve", "--re")
        self.assertTrue({"--record", "--ready-file", "--record-incidents"} <= options, options)
        self.assertEqual([option for option in options if not option.startswith("--re")], [])
        self.assertEqual(self.complete("ccld", "serve", "--rules", ""), {"default", "paper"})
        self.assertEqual(self.complete("ccld", "serve", "--rules", "=", "p"), {"paper"})
        self.assertEqual(self.complete("ccld", "serve", "--set", "hang_conf"), {"hang_confirm_s="})
        self.assertEqual(self.complete("ccld", "tune", "sample"), {"sample_us="})
        self.assertEqual(self.complete("ccld", "replay", "ccld-rep"), {"ccld-replay.1"})
        self.assertEqual(self.complete("ccld", "serve", "--config", "ccld-se"), {"ccld-serve.1", "ccld-settings.1"} & set(os.listdir(self.folder)))

    def test_zsh_understands_its_script(self):
        if not shutil.which("zsh"):
            self.skipTest("no zsh")
        script = os.path.join(self.folder, "_ccld")
        with open(script, "w", encoding="utf-8") as file:
            file.write(run(BUILD.service, "completion", "zsh"))
        run("zsh", "-n", script)
        loaded = run("zsh", "-f", "-c", 'fpath=("$1" $fpath); autoload -Uz compinit; compinit -u -D; print $_comps[ccld]', "zsh", self.folder)
        self.assertEqual(loaded.strip(), "_ccld")
        os.remove(script)

    def test_output_that_cannot_be_written_is_a_failure(self):
        for arguments in (["man"], ["completion", "bash"]):
            with open("/dev/full", "w", encoding="utf-8") as full:
                self.assertEqual(subprocess.run([BUILD.service] + arguments, stdout=full, stderr=subprocess.DEVNULL).returncode, 1)
        self.assertIn("--into", run(BUILD.service, "man", "--into", "/nowhere", status=1))


class LibraryTest(unittest.TestCase):
    def test_the_installed_library_says_which_build_it_is(self):
        folder = tempfile.mkdtemp(prefix="ranks.", dir=SCRATCH)
        run(CMAKE, "--install", BUILD.folder, "--component", "library", "--prefix", folder + "/usr")
        version = re.match(r"ccld (\S+) \(build (\S+)\)", run(BUILD.service, "--version")).groups()
        # To a file, because standard output is kept back until the end.
        ranks = Ranks(folder, folder + "/usr/lib/ccld", NCCL_DEBUG="WARN", NCCL_DEBUG_FILE=os.path.join(folder, "nccl-%p"))
        self.addCleanup(ranks.end)
        ranks.wait_until_running(BUILD.service)
        logs = ""
        for name in os.listdir(folder):
            if name.startswith("nccl-"):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    logs += file.read()
        # As NCCL's own version: rank 0 speaks for all.
        self.assertEqual(logs.count("PROBE ccld %s, build %s\n" % version), 1, logs)
        for process in ranks.look(BUILD.service)["processes"]:
            self.assertEqual((process["release"], process["build_id"]), version)
        self.assertIn("libnccl of ccld %s, build %s" % version, run(BUILD.service, "frames", "--dir", ranks.frames))


class OperatorsPageTest(unittest.TestCase):
    """Every command of scripts/install/README.md that needs no cluster, in the order of the page."""
    NEEDS_A_CLUSTER = re.compile(r"^(make |torchrun |.* torchrun |sbatch |srun |scontrol |kubectl |systemctl |curl |man )")

    def commands(self):
        with open(README, encoding="utf-8") as file:
            for line in file.read().splitlines():
                if line.startswith("    "):
                    yield re.sub(r"\s+#.*$", "", line).strip()
                elif line.startswith("| "):
                    yield from (command for command in re.findall(r"`([^`]+)`", line) if " " in command)

    def test_its_commands_do_what_it_says(self):
        root = ThrowawayRoot()
        folder = tempfile.mkdtemp(prefix="page.", dir=SCRATCH)
        root.dpkg("-i", package("ccld"), package("libnccl2-ccld-cpu"))
        ranks = Ranks(folder, root.path("usr/lib/ccld"), NCCL_DEBUG="VERSION")
        self.addCleanup(ranks.end)
        ranks.wait_until_running(root.path("usr/bin/ccld"))
        tools = os.path.join(folder, "bin")
        os.mkdir(tools)
        with open(os.path.join(tools, "dpkg"), "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\nexec %s \"$@\"\n" % " ".join("/usr/bin/" + root.dpkg_command()[0] if i == 0 else word
                                                              for i, word in enumerate(root.dpkg_command())))
        os.chmod(os.path.join(tools, "dpkg"), 0o755)
        run_here = 0
        for command in self.commands():
            if self.NEEDS_A_CLUSTER.match(command):
                continue
            here = command.replace("libnccl2-ccld_", "libnccl2-ccld-cpu_").replace("libnccl2-ccld", "libnccl2-ccld-cpu").replace("-cpu-cpu", "-cpu")
            here = here.replace("/usr/lib/ccld", root.path("usr/lib/ccld")).replace("/etc/ccld", root.path("etc/ccld"))
            here = here.replace("PID", str(ranks.children[0].pid))
            done = subprocess.run(["bash", "-c", here], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, cwd=DIST, env=environment(
                PATH=tools + ":" + root.path("usr/bin") + ":" + os.environ["PATH"], NCCL_PROBE_FRAMES_DIR=ranks.frames))
            self.assertEqual(done.returncode, 0, "%s\n%s" % (here, done.stdout))
            run_here += 1
        self.assertGreater(run_here, 5)


if __name__ == "__main__":
    BUILD, CMAKE = Build(sys.argv.pop(1)).check(), sys.argv.pop(1)
    lacking = [tool for tool in NEEDED if not shutil.which(tool)]
    if lacking:
        print("skipped: %s missing; apt-get install dpkg-dev binutils patchelf" % ", ".join(lacking))
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory(prefix="ccld-install.") as SCRATCH:
        DIST = os.path.join(SCRATCH, "dist")
        release(DIST)
        program = unittest.main(exit=False)
    sys.exit(0 if program.result.wasSuccessful() else 1)
