import json
import os
import tempfile
import unittest
from collections import namedtuple

import paths  # noqa: F401
from results import Results
from scoring import score_benign

Case = namedtuple("Case", "id")
CASES = [Case("a"), Case("b"), Case("c")]
HEADER = {"sources": "s1", "seed": 1, "settings": {"hang_suspect_s": "2"}}


def row(name):
    return {"id": name, "suite": "benign", "fault_class": "benign", "healthy_s": 60.0, "planted": None, "rules": {"default": score_benign([])}}


class ResultsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "results", "accuracy.json")

    def results(self, commit="c1", **header):
        return Results(self.path, CASES, dict(HEADER, **header), commit)

    def file(self):
        with open(self.path) as file:
            return json.load(file)

    def test_a_row_is_in_the_file_at_once(self):
        self.results().add(row("b"))
        self.assertEqual([(r["id"], r["commit"]) for r in self.file()["rows"]], [("b", "c1")])
        self.assertFalse(self.file()["complete"])

    def test_a_later_run_adds_its_rows_and_keeps_the_others(self):
        self.results().add(row("c"))
        later = self.results("c2")
        self.assertEqual(later.known(CASES[2])["commit"], "c1")
        self.assertIsNone(later.known(CASES[0]))
        for name in "ab":
            later.add(row(name))
        self.assertEqual([(r["id"], r["commit"]) for r in self.file()["rows"]], [("a", "c2"), ("b", "c2"), ("c", "c1")])
        self.assertTrue(self.file()["complete"])

    def test_rows_of_other_sources_settings_or_seeds_go(self):
        for change in ({"sources": "s2"}, {"settings": {}}, {"seed": 2}, {"sources": None}):
            self.results().add(row("a"))
            self.assertIsNone(self.results(**change).known(CASES[0]), change)
            self.results(**change).add(row("b"))
            self.assertEqual([r["id"] for r in self.file()["rows"]], ["b"], change)

    def test_a_damaged_file_is_written_anew(self):
        self.results().add(row("a"))
        with open(self.path, "w") as file:
            file.write("{")
        self.results().add(row("b"))
        self.assertEqual([r["id"] for r in self.file()["rows"]], ["b"])


if __name__ == "__main__":
    unittest.main()
