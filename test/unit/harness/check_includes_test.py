import importlib.machinery
import importlib.util
import os
import unittest
from unittest import mock

import paths
import source_tree

SCRIPT = os.path.join(paths.ROOT, "scripts", "check-includes")


class CheckIncludesTest(unittest.TestCase):
    def check(self, files):
        return source_tree.check(SCRIPT, files)

    def test_allowed_directions_pass(self):
        status, _ = self.check({
            "schemas/abi/frame.h": "#include <cstdint>\n",
            "probe/a.cc": '#include "schemas/abi/frame.h"\n#include "schemas/wire/telemetry_generated.h"\n',
            "decision/model/b.cc": '#include "schemas/abi/frame.h"\n#include "absl/status/status.h"\n',
            "nccl/hooks/c.cc": '#include "comm.h"\n#include "probe/a.h"\n', "probe/a.h": ""})
        self.assertEqual(status, 0)

    def test_each_wrong_direction_is_named_with_its_line(self):
        status, output = self.check({
            "schemas/s.h": '\n#include "probe/p.h"\n', "probe/p.h": '#include "decision/cli/d.h"\n#include <nccl.h>\n',
            "decision/cli/d.h": '#include "probe/p.h"\n#include "d2.h"\n', "nccl/n.cc": '#include "absl/strings/str_cat.h"\n'})
        self.assertEqual(status, 1)
        for line in ("schemas/s.h:2:", "probe/p.h:1:", "probe/p.h:2:", "decision/cli/d.h:1:", "decision/cli/d.h:2:", "nccl/n.cc:1:"):
            self.assertIn(line, output)

    def check_decision(self, path, *headers):
        files = {"decision/" + header: "" for header in headers}
        files["decision/" + path] = "".join('#include "decision/%s"\n' % header for header in headers)
        return self.check(files)

    def test_decision_goes_from_the_model_to_the_report(self):
        for path, header in (("measure/a.h", "model/m.h"), ("detect/a.h", "measure/m.h"), ("locate/a.h", "detect/d.h"),
                             ("analysis/a.h", "locate/l.h"), ("paper/a.h", "analysis/w.h"), ("analyzer.cc", "paper/p.h"),
                             ("server/a.h", "analyzer.h"), ("cli/a.h", "server/s.h"), ("model/a.h", "settings.h"),
                             ("whatif/a.h", "measure/m.h"), ("model/a.h", "model/b.h")):
            self.assertEqual(self.check_decision(path, header), (0, mock.ANY), (path, header))

    def test_decision_does_not_go_back(self):
        for path, header in (("model/a.h", "locate/finding.h"), ("measure/a.h", "detect/d.h"), ("detect/a.h", "locate/l.h"),
                             ("locate/a.h", "analysis/w.h"), ("analysis/a.h", "paper/p.h"), ("whatif/a.h", "locate/slow.h"),
                             ("report/a.h", "recording/r.h"), ("recording/a.h", "server/s.h"), ("model/a.h", "analyzer.h")):
            status, output = self.check_decision(path, "model/fine.h", header)
            self.assertEqual(status, 1, (path, header))
            self.assertIn("decision/%s:2: includes decision/%s" % (path, header), output)

    def test_a_new_folder_of_decision_has_to_be_given_its_place(self):
        status, output = self.check_decision("new/a.h", "model/m.h")
        self.assertEqual(status, 1)
        self.assertIn("WITHIN_DECISION", output)

    def test_only_what_measures_may_know_nccl_in_decision_and_nobody_may_know_it(self):
        measuring = "decision/validate/device/"
        status, output = self.check({
            measuring + "a.cc": '#include <nccl.h>\n#include <cuda_runtime_api.h>\n#include "nccl/cpu_device/device/kernel_registration.h"\n#include "%sb.h"\n' % measuring,
            measuring + "b.h": "", "nccl/cpu_device/device/kernel_registration.h": "", "test/unit/c.cc": '#include "%sb.h"\n' % measuring})
        self.assertEqual(status, 0, output)
        status, output = self.check({
            measuring + "a.cc": '#include "nccl/hooks/h.h"\n', measuring + "b.h": "", "nccl/hooks/h.h": "",
            "decision/validate/c.cc": '#include "%sb.h"\n#include <nccl.h>\n' % measuring, "decision/cli/d.cc": '#include "%sb.h"\n' % measuring})
        self.assertEqual(status, 1)
        for line in (measuring + "a.cc:1:", "decision/validate/c.cc:1:", "decision/validate/c.cc:2:", "decision/cli/d.cc:1:"):
            self.assertIn(line, output)

    def test_the_order_of_decision_leads_in_no_circle(self):
        loader = importlib.machinery.SourceFileLoader("check_includes", SCRIPT)
        script = importlib.util.module_from_spec(importlib.util.spec_from_loader("check_includes", loader))
        loader.exec_module(script)
        self.assertIsNone(script.circle(script.WITHIN_DECISION))
        self.assertEqual(script.circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}), ["b", "c", "b"])

    def test_a_folder_without_sources_is_an_error(self):
        self.assertEqual(self.check({})[0], 1)


if __name__ == "__main__":
    unittest.main()
