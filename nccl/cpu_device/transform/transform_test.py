import os
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import transform
from output_folder import OutputFolder


class OwnHeadersTest(unittest.TestCase):
    def test_our_headers_are_mirrored_under_their_path_with_their_ptx_rewritten(self):
        root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, root)
        os.makedirs(os.path.join(root, "probe", "device"))
        with open(os.path.join(root, "probe", "device", "x_device.h"), "w") as f:
            f.write('asm volatile("st.relaxed.sys.global.u32 [%0], %1;" :: "l"(p), "r"(v) : "memory");\n')
        output = OutputFolder(root)
        transform.add_own_headers(root, ["probe/device/x_device.h"], output)
        self.assertEqual(output.files, {"ours/probe/device/x_device.h":
                                        '::ccld::cpu_device::ptx<"st.relaxed.sys.global.u32 [%0], %1;">(p, v);\n'})


if __name__ == "__main__":
    unittest.main()
