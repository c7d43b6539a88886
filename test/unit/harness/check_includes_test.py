import os
import subprocess
import tempfile
import unittest

import paths

SCRIPT = os.path.join(paths.ROOT, "scripts", "check-includes")


class CheckIncludesTest(unittest.TestCase):
    def check(self, files):
        with tempfile.TemporaryDirectory() as folder:
            for path, text in files.items():
                os.makedirs(os.path.dirname(os.path.join(folder, path)), exist_ok=True)
                with open(os.path.join(folder, path), "w") as file:
                    file.write(text)
            done = subprocess.run([SCRIPT, folder], capture_output=True, text=True)
            return done.returncode, done.stdout

    def test_allowed_directions_pass(self):
        status, _ = self.check({
            "schemas/abi/frame.h": "#include <cstdint>\n",
            "probe/a.cc": '#include "schemas/abi/frame.h"\n#include "schemas/wire/telemetry_generated.h"\n',
            "decision/b.cc": '#include "schemas/abi/frame.h"\n#include "absl/status/status.h"\n',
            "nccl/hooks/c.cc": '#include "comm.h"\n#include "probe/a.h"\n', "probe/a.h": ""})
        self.assertEqual(status, 0)

    def test_each_wrong_direction_is_named_with_its_line(self):
        status, output = self.check({
            "schemas/s.h": '\n#include "probe/p.h"\n', "probe/p.h": '#include "decision/d.h"\n#include <nccl.h>\n',
            "decision/d.h": '#include "probe/p.h"\n#include "d2.h"\n', "nccl/n.cc": '#include "absl/strings/str_cat.h"\n'})
        self.assertEqual(status, 1)
        for line in ("schemas/s.h:2:", "probe/p.h:1:", "probe/p.h:2:", "decision/d.h:1:", "decision/d.h:2:", "nccl/n.cc:1:"):
            self.assertIn(line, output)

    def test_a_folder_without_sources_is_an_error(self):
        self.assertEqual(self.check({})[0], 1)


if __name__ == "__main__":
    unittest.main()
