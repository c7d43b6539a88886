#!/usr/bin/env python3
"""What `ccld import` says of logs of NCCL Inspector. The lines have the members that the plugin of NCCL 2.29 writes.

CCLD_EXECUTABLE names the program.
"""
import json
import os
import subprocess
import tempfile
import unittest

CCLD = os.environ.get("CCLD_EXECUTABLE", "ccld")
RANKS = 8


def line(rank, number, took_us, kind="AllReduce", source="kernel_gpu", bytes_=1 << 20, version="v4.0", ranks=RANKS):
    return {"header": {"id": "0x7f8c496ae9f661", "rank": rank, "n_ranks": ranks, "nnodes": 2},
            "metadata": {"inspector_output_format_version": version, "git_rev": "", "rec_mechanism": "nccl_profiler_interface",
                         "dump_timestamp_us": 1_748_030_377_000_000 + number * 10_000, "hostname": "node%d" % (rank // 4), "pid": 4000 + rank},
            "coll_perf": {"coll": kind, "coll_sn": number, "coll_msg_size_bytes": bytes_, "coll_exec_time_us": took_us, "coll_timing_source": source,
                          "coll_algobw_gbs": 1.0, "coll_busbw_gbs": 1.75}}


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="ccld-import-")
        self.addCleanup(lambda: subprocess.run(["rm", "-r", self.folder], check=True))

    def write(self, rank, text):
        with open(os.path.join(self.folder, "node%d-pid%d.log" % (rank // 4, 4000 + rank)), "w", encoding="utf-8") as file:
            file.write(text)

    def write_all(self, took_us, rounds=100, **members):
        for rank in range(RANKS):
            self.write(rank, "".join(json.dumps(line(rank, n, took_us(rank, n), **members)) + "\n" for n in range(1, rounds + 1)))

    def run_import(self, *flags):
        return subprocess.run((CCLD, "import", self.folder) + flags, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)

    def findings(self):
        done = self.run_import("--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def only(self):
        incidents = self.findings()["incidents"]
        self.assertEqual(len(incidents), 1, [i["title"] for i in incidents])
        return incidents[0]


class Verdicts(Case):
    def test_ranks_that_take_turns_at_being_last_are_no_incident(self):
        self.write_all(lambda rank, n: 500 if rank == n % RANKS else 1000)
        found = self.findings()
        self.assertEqual((found["source"], found["incidents"]), ("inspector", []))

    def test_small_differences_are_no_incident(self):
        self.write_all(lambda rank, n: 950 if rank == 3 else 1000)
        self.assertEqual(self.findings()["incidents"], [])

    def test_from_where_on_it_is_trouble_can_be_changed(self):
        self.write_all(lambda rank, n: 950 if rank == 3 else 1000)
        done = self.run_import("--json", "--set", "waited_part_min=0.03")
        self.assertEqual([(i["class"], i["ranks"]) for i in json.loads(done.stdout)["incidents"]], [("S1", [3])])
        for wrong, said in (("waited_part=1", "with a name of: stall_shown_s, "), ("slower_min=much", "slower_min=much: a number from 1.01 to 1000 is expected"),
                            ("rounds_min=0", "rounds_min=0: a number from 4 to")):
            done = self.run_import("--set", wrong)
            self.assertEqual(done.returncode, 2)
            self.assertEqual(len(done.stderr.splitlines()), 1)
            self.assertIn("--set: ", done.stderr.decode())
            self.assertIn(said, done.stderr.decode())

    def test_the_rank_with_the_shortest_time_comes_last(self):
        self.write_all(lambda rank, n: 400 if rank == 5 else 1000 + (rank + n) % 7)
        verdict = self.only()
        self.assertEqual((verdict["class"], verdict["state"], verdict["ranks"]), ("S1", "suspected", [5]))
        culprit = verdict["culprits"][0]
        self.assertEqual((culprit["host"], culprit["pid"]), ("node1", 4005))
        self.assertIn("comes last in 100 % of 100 calls", culprit["reason"])
        self.assertAlmostEqual(verdict["gain"]["share"], 0.6, delta=0.02)

    def test_a_transfer_that_became_slower_names_nobody(self):
        self.write_all(lambda rank, n: (1000 if n <= 60 else 3000) + (rank * 7 + n) % 5, rounds=120)
        verdict = self.only()
        self.assertEqual((verdict["class"], verdict["ranks"], verdict["state"]), ("S2", [], "suspected"))

    def test_times_of_the_host_are_not_compared(self):
        self.write_all(lambda rank, n: 400 if rank == 5 else 1000, source="collective_cpu")
        found = self.findings()
        self.assertEqual(found["incidents"], [])
        self.assertTrue(any("host only" in n for n in found["notes"]))

    def test_collectives_with_a_root_are_not_compared(self):
        self.write_all(lambda rank, n: 400 if rank == 5 else 1000, kind="Broadcast")
        self.assertEqual(self.findings()["incidents"], [])

    def test_rounds_that_miss_a_rank_are_not_compared(self):
        self.write_all(lambda rank, n: 400 if rank == 5 else 1000)
        os.remove(os.path.join(self.folder, "node0-pid4000.log"))
        found = self.findings()
        self.assertEqual(found["incidents"], [])
        self.assertTrue(any("no lines of 1 ranks" in n for n in found["notes"]))


class Output(Case):
    def test_the_text_reads_as_explain_does(self):
        self.write_all(lambda rank, n: 400 if rank == 5 else 1000)
        done = self.run_import()
        out = done.stdout.decode()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(out.startswith("SLOW: process of rank 5: comes last"), out)
        self.assertIn("\nNot shown by these data: calls that have not ended, so no hang", out)

    def test_a_wrong_line_is_named(self):
        good = json.dumps(line(0, 1, 10)) + "\n"

        def refused(bad, *needles):
            self.write(0, good + bad + "\n" + good)
            done = self.run_import()
            self.assertEqual((done.returncode, done.stdout), (1, b""))
            for needle in ("node0-pid4000.log: line 2: ",) + needles:
                self.assertIn(needle, done.stderr.decode())

        refused("{", "byte ")
        refused("[]", "a dict is expected")
        refused(json.dumps(line(0, 1, 10, version="v5.0")), "v5.0")
        refused(json.dumps(line(9, 1, 10)), "header.rank", "9 is not from 0 to 7")
        refused(json.dumps(line(0, 1, 10, ranks=4)), "header.n_ranks")
        refused(json.dumps(line(0, 1, -1)), "coll_perf.coll_exec_time_us")
        refused(json.dumps(line(0, 1, "x")), "coll_perf.coll_exec_time_us")
        refused("{" * 300_000, "longer than")

    def test_a_last_line_that_is_cut_off_is_noted(self):
        self.write(0, json.dumps(line(0, 1, 10)) + "\n" + json.dumps(line(0, 2, 10))[:50])
        found = self.findings()
        self.assertTrue(any("cut off" in n for n in found["notes"]))


if __name__ == "__main__":
    unittest.main()
