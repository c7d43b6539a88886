import os
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
from output_folder import OutputFolder


class OutputFolderTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def update(self, files):
        output = OutputFolder(self.folder)
        for path, text in files.items():
            output.add(path, text)
        return output.update()

    def path(self, name):
        return os.path.join(self.folder, name)

    def test_only_files_whose_text_changes_are_written(self):
        self.assertEqual(self.update({"a/1.h": "one", "a/2.h": "two"}), 2)
        os.utime(self.path("a/1.h"), (1000, 1000))
        os.utime(self.path("a/2.h"), (1000, 1000))
        self.assertEqual(self.update({"a/1.h": "one", "a/2.h": "other"}), 1)
        self.assertEqual(os.stat(self.path("a/1.h")).st_mtime, 1000)
        self.assertGreater(os.stat(self.path("a/2.h")).st_mtime, 1000)

    def test_files_that_are_no_longer_made_are_removed(self):
        self.update({"1.h": "one", "a/2.h": "two"})
        self.update({"1.h": "one"})
        self.assertFalse(os.path.exists(self.path("a/2.h")))

    def test_bytes_that_are_not_text_come_through_unchanged(self):
        self.update({"out": "caf\udce9\r\n"})
        with open(self.path("out"), "rb") as f:
            self.assertEqual(f.read(), b"caf\xe9\r\n")


if __name__ == "__main__":
    unittest.main()
