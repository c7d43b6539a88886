import os
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import transform


class OutputFolderTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)

    def update(self, files):
        output = transform.OutputFolder(self.folder)
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
        with open(self.path("in"), "wb") as f:
            f.write(b"caf\xe9\r\n")
        self.update({"in": transform.read(self.path("in")), "out": transform.read(self.path("in"))})
        with open(self.path("out"), "rb") as f:
            self.assertEqual(f.read(), b"caf\xe9\r\n")


class OwnHeadersTest(unittest.TestCase):
    def test_our_headers_are_mirrored_under_their_path_with_their_ptx_rewritten(self):
        root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, root)
        os.makedirs(os.path.join(root, "probe", "device"))
        with open(os.path.join(root, "probe", "device", "x_device.h"), "w") as f:
            f.write('asm volatile("st.relaxed.sys.global.u32 [%0], %1;" :: "l"(p), "r"(v) : "memory");\n')
        output = transform.OutputFolder(root)
        transform.add_own_headers(root, ["probe/device/x_device.h"], output)
        self.assertEqual(output.files, {"ours/probe/device/x_device.h":
                                        '::ccld::cpu_device::ptx<"st.relaxed.sys.global.u32 [%0], %1;">(p, v);\n'})


if __name__ == "__main__":
    unittest.main()
