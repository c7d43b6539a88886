import os
import unittest

import paths
import source_tree

SCRIPT = os.path.join(paths.ROOT, "scripts", "check-type-names")


class CheckTypeNamesTest(unittest.TestCase):
    def check(self, files):
        return source_tree.check(SCRIPT, files)

    def test_a_name_that_two_files_define_is_told_with_both(self):
        for kind in ("struct Found {", "class Found final : public Other {", "enum class Found : int {"):
            status, output = self.check({"decision/a.h": "namespace ccld {\n%s};\n}\n" % kind,
                                         "decision/b.h": "namespace ccld {\nvoid f() { }\nstruct Found { int i; };\n}\n"})
            self.assertEqual(status, 1, kind)
            self.assertEqual(output, "ccld::Found: defined in decision/a.h and in decision/b.h; give one of them another name\n")

    def test_what_does_not_meet_is_fine(self):
        status, output = self.check({
            "decision/a.h": "namespace ccld { struct Found { struct Part {}; }; struct Known; }\n",
            "decision/b.h": "namespace ccld::other { struct Found { struct Part {}; }; }\n",
            "decision/c.cc": "namespace ccld { namespace { struct Found {}; } struct Found::Part {}; void f() { struct Found {}; } }\n",
            "decision/d.cc": 'namespace ccld { const char* text = "}"; namespace { struct Found {}; } // struct Found {\n}\n'})
        self.assertEqual((status, output), (0, ""))


if __name__ == "__main__":
    unittest.main()
