"""scripts/fuzz: what it takes from libFuzzer's output, and how its runs add up."""
import importlib.machinery
import importlib.util
import os
import unittest

import paths

LOADER = importlib.machinery.SourceFileLoader("fuzz", os.path.join(paths.ROOT, "scripts", "fuzz"))
fuzz = importlib.util.module_from_spec(importlib.util.spec_from_loader("fuzz", LOADER))
LOADER.exec_module(fuzz)

LOG = """#4096\tpulse  cov: 100 ft: 300 corp: 20/1Kb exec/s: 10 rss: 90Mb
Slowest unit: 2 s:
#8192\tDONE   cov: 120 ft: 400 corp: 31/2Kb lim: 4096 exec/s: 9 rss: 91Mb
stat::number_of_executed_units: 8200
stat::average_exec_per_sec:     9
stat::new_units_added:          31
stat::slowest_unit_time_sec:    2
stat::peak_rss_mb:              93
"""


def run(commit):
    return {"date": "2026-01-31", "commit": commit, "compiler": "clang 19", "seconds": 60}


def result(target, executions, found=(), **others):
    return {"target": target, "executions": executions, "seconds": 61, "edges": 7, "inputs": 5, "rss_mb": 90, "slowest_s": 0,
            "found": list(found), "slow": [], "failed": bool(found), "log": ""} | others


class FuzzResultsTest(unittest.TestCase):
    def test_numbers_are_those_of_the_end_of_the_output(self):
        self.assertEqual(fuzz.numbers_of(LOG), {"executions": 8200, "edges": 120, "inputs": 31, "rss_mb": 93, "slowest_s": 2})
        self.assertEqual(fuzz.numbers_of("#12\tNEW cov: 3 corp: 2/4b\nkilled")["executions"], 12)
        self.assertEqual(fuzz.numbers_of("")["executions"], 0)

    def test_runs_add_up(self):
        first = fuzz.added(None, run("a"), [result("verdict", 100, slowest_s=3, rss_mb=200), result("http", 10)])
        both = fuzz.added(first, run("b-dirty"), [result("verdict", 50, found=["x"], edges=9, seconds=20)])
        self.assertEqual(both["executions"], 160)
        self.assertEqual([r["commit"] for r in both["runs"]], ["a", "b-dirty"])
        self.assertEqual([(r["targets"], r["executions"], r["found"]) for r in both["runs"]], [(2, 110, 0), (1, 50, 1)])
        self.assertEqual([row["target"] for row in both["targets"]], ["http", "verdict"])
        self.assertEqual(both["targets"][1], {"target": "verdict", "executions": 150, "seconds": 81, "edges": 9, "inputs": 5, "rss_mb": 200,
                                              "slowest_s": 3, "found": 1})
        self.assertEqual(both["executions"], sum(r["executions"] for r in both["runs"]))
        self.assertEqual(first["executions"], 110)

    def test_a_file_of_newest_numbers_counts_as_one_run(self):
        row = {"target": "keys", "executions": 40, "seconds": 12, "edges": 1, "inputs": 1, "rss_mb": 50, "found": 0}
        old = {"machine": "m", "compiler": "clang 16", "date": "2025-12-31", "executions": 40, "targets": [row]}
        new = fuzz.added(old, run("a"), [result("keys", 2)])
        self.assertEqual(new["executions"], 42)
        self.assertEqual((new["runs"][0]["commit"], new["runs"][0]["seconds"], new["runs"][0]["executions"]), ("unknown", 12, 40))
        self.assertEqual((new["targets"][0]["seconds"], new["targets"][0]["slowest_s"]), (73, 0))
        self.assertEqual((new["date"], new["compiler"]), ("2026-01-31", "clang 19"))


if __name__ == "__main__":
    unittest.main()
