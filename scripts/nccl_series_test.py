import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

SCRIPTS = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, SCRIPTS)
import nccl_series
from nccl_series import SeriesError

HEADER = "Purpose.\n\ndiff --git a/src/a.cc b/src/a.cc\n--- a/src/a.cc\n+++ b/src/a.cc\n"


class Folder(unittest.TestCase):
    """A tarball with src/a.cc (five lines) and src/b.cc, and an empty series."""

    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.tarball = self.path("upstream.tar.gz")
        with tarfile.open(self.tarball, "w:gz") as archive:
            for name, text in (("src/a.cc", "1\n2\n3\n4\n5\n"), ("src/b.cc", "one\ntwo\n")):
                member = tarfile.TarInfo("nccl-0/" + name)
                member.size = len(text)
                archive.addfile(member, io.BytesIO(text.encode()))
        os.mkdir(self.path("patches"))
        self.write("patches/series", "")

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w") as f:
            f.write(text)

    def read(self, name):
        with open(self.path(name)) as f:
            return f.read()

    def add_patch(self, name, text):
        self.write("patches/" + name, text)
        self.write("patches/series", self.read("patches/series") + name + "\n")

    def script(self, name, *arguments):
        return subprocess.run([sys.executable, "-B", os.path.join(SCRIPTS, name), self.tarball] + list(arguments) +
                              ["--patches", self.path("patches")], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)

    def apply(self):
        return self.script("apply-patches", self.path("tree"))

    def refresh(self, *arguments):
        return self.script("refresh-patches", self.path("tree"), *arguments)


class ParseTest(unittest.TestCase):
    def refused(self, text, pattern):
        with self.assertRaisesRegex(SeriesError, pattern):
            nccl_series.Patch("p.patch", text)

    def test_context_lines_are_refused(self):
        self.refused(HEADER + "@@ -1,2 +1,3 @@\n 1\n+x\n 2\n", "p.patch, hunk 1.*not an insertion")

    def test_deleted_lines_are_refused(self):
        self.refused(HEADER + "@@ -1 +0,0 @@\n-1\n", "not an insertion")
        self.refused(HEADER + "@@ -1,0 +2 @@\n-1\n", "not an inserted line")
        self.refused(HEADER + "@@ -1,0 +2 @@\n+x\n-1\n", "context or deleted line")

    def test_upstreams_text_after_the_line_numbers_is_refused(self):
        self.refused(HEADER + "@@ -1,0 +2 @@ ncclResult_t init()\n+x\n", "is upstream's")

    def test_line_numbers_that_do_not_agree_are_refused(self):
        self.refused(HEADER + "@@ -1,0 +2 @@\n+x\n@@ -3,0 +4 @@\n+y\n", "hunk 2.*'\\+4' should be '\\+5'")

    def test_paths_out_of_the_tree_are_refused(self):
        self.refused("--- a/../x\n+++ b/../x\n@@ -1,0 +2 @@\n+x\n", "one path of upstream's tree")


class ApplyTest(Folder):
    def test_hunks_go_in_after_their_lines_patch_after_patch(self):
        self.add_patch("1.patch", HEADER + "@@ -0,0 +1 @@\n+top\n@@ -2,0 +4,2 @@\n+x\n+y\n")
        self.add_patch("2.patch", HEADER + "@@ -4,0 +5 @@\n+between\n@@ -8,0 +10 @@\n+end\n")
        self.assertEqual(self.apply().returncode, 0)
        self.assertEqual(self.read("tree/src/a.cc").split(), "top 1 2 x between y 3 4 5 end".split())

    def test_a_second_run_changes_nothing_and_a_changed_patch_touches_only_what_it_changes(self):
        self.add_patch("1.patch", HEADER + "@@ -1,0 +2 @@\n+x\n")
        self.apply()
        for name in ("a.cc", "b.cc"):
            os.utime(self.path("tree/src/" + name), (1000, 1000))
        self.apply()
        self.assertEqual(os.stat(self.path("tree/src/a.cc")).st_mtime, 1000)
        self.write("patches/1.patch", HEADER + "@@ -1,0 +2 @@\n+z\n")
        self.apply()
        self.assertGreater(os.stat(self.path("tree/src/a.cc")).st_mtime, 1000)
        self.assertEqual(os.stat(self.path("tree/src/b.cc")).st_mtime, 1000)
        self.assertEqual(self.read("tree/src/a.cc").split(), "1 z 2 3 4 5".split())

    def test_a_hunk_that_does_not_apply_is_named_in_one_line_and_leaves_the_tree_as_it_was(self):
        self.apply()
        self.add_patch("1.patch", HEADER + "@@ -90,0 +91 @@\n+x\n")
        done = self.apply()
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr,
                         r"^apply-patches: 1.patch, hunk 1 .*does not apply, the file has only 5 lines.*\n$")
        self.assertEqual(self.read("tree/src/a.cc"), "1\n2\n3\n4\n5\n")
        self.assertEqual(sorted(os.listdir(self.folder)), ["patches", "tree", "upstream.tar.gz"])

    def test_a_patch_for_a_file_that_upstream_does_not_have_is_an_error(self):
        self.add_patch("1.patch", HEADER.replace("a.cc", "c.cc") + "@@ -1,0 +2 @@\n+x\n")
        self.assertIn("upstream has no file src/c.cc", self.apply().stderr)

    def test_a_patch_that_the_series_does_not_list_is_an_error(self):
        self.write("patches/1.patch", HEADER + "@@ -1,0 +2 @@\n+x\n")
        self.assertIn("1.patch is not listed", self.apply().stderr)

    def test_a_folder_that_is_somebodys_work_is_not_replaced(self):
        os.mkdir(self.path("tree"))
        self.write("tree/mine", "")
        self.assertIn("was not made by apply-patches", self.apply().stderr)
        self.assertEqual(self.read("tree/mine"), "")


class RefreshTest(Folder):
    def setUp(self):
        super().setUp()
        self.add_patch("1.patch", HEADER + "@@ -1,0 +2 @@\n+x\n")
        self.add_patch("2.patch", HEADER + "@@ -4,0 +5 @@\n+y\n")
        self.apply()  # 1 x 2 3 y 4 5

    def edit(self, words):
        self.write("tree/src/a.cc", "\n".join(words.split()) + "\n")

    def test_an_unedited_tree_gives_the_same_patches(self):
        before = self.read("patches/1.patch"), self.read("patches/2.patch")
        self.assertEqual(self.refresh().returncode, 0)
        self.assertEqual(before, (self.read("patches/1.patch"), self.read("patches/2.patch")))

    def test_a_changed_line_stays_in_its_patch_and_the_later_patch_is_numbered_again(self):
        self.edit("1 X X2 2 3 y 4 5")
        self.assertEqual(self.refresh().returncode, 0)
        self.assertEqual(self.read("patches/1.patch"), HEADER + "@@ -1,0 +2,2 @@\n+X\n+X2\n")
        self.assertEqual(self.read("patches/2.patch"), HEADER + "@@ -5,0 +6 @@\n+y\n")

    def test_a_new_line_goes_to_the_nearest_patch_or_to_the_one_named(self):
        self.edit("1 x 2 3 y 4 5 new")
        self.refresh()
        self.assertIn("+new", self.read("patches/2.patch"))
        self.refresh("--into", "1.patch")  # owned now: it stays
        self.assertIn("+new", self.read("patches/2.patch"))
        self.write("tree/src/b.cc", "one\nnew\ntwo\n")
        self.assertIn("src/b.cc, line 2: no patch touches this file yet", self.refresh().stderr)
        self.assertEqual(self.refresh("--into", "3.patch").returncode, 0)
        self.assertIn("--- a/src/b.cc\n+++ b/src/b.cc\n@@ -1,0 +2 @@\n+new\n", self.read("patches/3.patch"))
        self.assertIn("3.patch\n", self.read("patches/series"))

    def test_a_refreshed_series_makes_the_edited_tree_again(self):
        self.edit("0 1 x 2 a b 3 y y2 4 5 c")
        self.refresh()
        edited = self.read("tree/src/a.cc")
        self.apply()
        self.assertEqual(self.read("tree/src/a.cc"), edited)

    def test_changing_or_deleting_a_line_of_upstreams_is_an_error_that_names_it(self):
        for words in ("1 x 2 THREE y 4 5", "1 x 2 y 4 5"):
            self.edit(words)
            self.assertRegex(self.refresh().stderr, r"src/a.cc, line 4: a line of upstream's was changed or deleted")


class FetchTest(Folder):
    def fetch(self, tarball):
        return subprocess.run([os.path.join(SCRIPTS, "fetch-nccl"), self.path("cache")], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              env=dict(os.environ, NCCL_TARBALL=tarball))

    def test_a_tarball_with_another_checksum_is_refused_in_one_line_that_says_what_to_do(self):
        done = self.fetch(self.tarball)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr,
                         r"^fetch-nccl: NCCL_TARBALL=\S+ has sha256 \w+, not that of NCCL .*set NCCL_TARBALL=.*\n$")

    def test_a_tarball_that_is_not_there_is_refused_in_one_line(self):
        done = self.fetch(self.path("none"))
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^fetch-nccl: NCCL_TARBALL=\S+: no readable file there; .*\n$")


if __name__ == "__main__":
    unittest.main()
