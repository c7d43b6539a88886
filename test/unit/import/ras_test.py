#!/usr/bin/env python3
"""What `ccld import` says of the output of `ncclras -f json`. The documents have the members that NCCL 2.29 writes.

CCLD_EXECUTABLE names the program.
"""
import copy
import json
import os
import subprocess
import tempfile
import unittest

CCLD = os.environ.get("CCLD_EXECUTABLE", "ccld")


def rank(number, all_reduce=100, **changes):
    status = {"init_state": 0, "async_error": 0, "finalize_called": False, "destroy_flag": False, "abort_flag": False}
    counts = {"Broadcast": 1, "Reduce": 0, "AllGather": 5, "ReduceScatter": 5, "AllReduce": all_reduce}
    for key, value in changes.items():
        (status if key in status else counts)[key] = value
    return {"rank": number, "host": "10.0.0.%d" % (number // 2 + 1), "pid": 1000 + number, "cuda_dev": number % 2, "nvml_dev": number % 2,
            "status": status, "collective_counts": counts}


def missing(number, unresponsive=True, dead=False):
    return {"rank": number, "host": "10.0.0.9", "pid": 1000 + number, "cuda_dev": 1, "nvml_dev": 1,
            "status": {"unresponsive": unresponsive, "considered_dead": dead}}


def moment(ranks, lost=(), second=0, size=None):
    return {"nccl_version": "2.29.7", "cuda_runtime_version": 12090, "cuda_driver_version": 12090, "timestamp": "2026-01-31 12:00:%02d" % second,
            "communicators_count": 1,
            "communicators": [{"hash": "0xfeed1234", "secondary_hash": "0x1:0x2", "size": size or len(ranks) + len(lost), "ranks_count": len(ranks),
                               "missing_ranks_count": len(lost), "ranks": ranks, "missing_ranks": list(lost)}],
            "ras": {"collection_time_sec": 0.002, "timeouts_count": 0}}


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="ccld-import-")
        self.addCleanup(lambda: subprocess.run(["rm", "-r", self.folder], check=True))

    def run_on(self, *moments, flags=("--json",)):
        for index, document in enumerate(moments):
            with open(os.path.join(self.folder, "ras%d.json" % index), "w", encoding="utf-8") as file:
                file.write(document if isinstance(document, str) else json.dumps(document, indent=2))
        return subprocess.run((CCLD, "import", self.folder) + flags, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)

    def findings(self, *moments):
        done = self.run_on(*moments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def only(self, *moments):
        incidents = self.findings(*moments)["incidents"]
        self.assertEqual(len(incidents), 1, [i["title"] for i in incidents])
        return incidents[0]


class Verdicts(Case):
    def test_equal_counts_are_no_incident(self):
        found = self.findings(moment([rank(r) for r in range(4)]))
        self.assertEqual((found["source"], found["incidents"]), ("ras", []))

    def test_a_dead_process_is_named_with_its_host(self):
        verdict = self.only(moment([rank(r) for r in range(3)], [missing(3, dead=True)]))
        self.assertEqual((verdict["class"], verdict["state"], verdict["ranks"]), ("H1", "confirmed", [3]))
        culprit = verdict["culprits"][0]
        self.assertEqual((culprit["condition"], culprit["host"], culprit["pid"]), ("gone", "10.0.0.9", 1003))

    def test_a_process_that_does_not_answer_is_suspected(self):
        verdict = self.only(moment([rank(r) for r in range(3)], [missing(3)]))
        self.assertEqual((verdict["state"], verdict["culprits"][0]["condition"]), ("suspected", "silent"))

    def test_a_rank_that_left_while_its_process_lives_is_suspected(self):
        verdict = self.only(moment([rank(r) for r in range(3)], [missing(3, unresponsive=False)]))
        self.assertEqual((verdict["state"], verdict["culprits"][0]["condition"]), ("suspected", "left"))

    def test_fewer_calls_at_one_moment_are_only_suspected(self):
        verdict = self.only(moment([rank(r, 99 if r == 2 else 100) for r in range(4)]))
        self.assertEqual((verdict["class"], verdict["state"], verdict["ranks"]), ("H1", "suspected", [2]))
        self.assertLess(verdict["confidence"], 0.5)
        self.assertIn("AllReduce: 99 against 100", verdict["culprits"][0]["reason"])

    def test_fewer_calls_that_do_not_move_between_two_moments_are_confirmed(self):
        ranks = [rank(r, 99 if r == 2 else 100) for r in range(4)]
        verdict = self.only(moment(ranks, second=30), moment(ranks, second=10))
        self.assertEqual((verdict["state"], verdict["ranks"]), ("confirmed", [2]))

    def test_counts_that_move_are_no_incident(self):
        self.assertEqual(self.findings(moment([rank(0, 10), rank(1, 11), rank(2, 11)]), moment([rank(0, 30), rank(1, 31), rank(2, 31)], second=20))["incidents"], [])

    def test_one_rank_ahead_of_all_others_leaves_them_as_candidates(self):
        verdict = self.only(moment([rank(r, 101 if r == 0 else 100) for r in range(4)]))
        self.assertEqual((verdict["ranks"], verdict["candidates"]), ([], [1, 2, 3]))

    def test_counts_that_contradict_each_other_are_a_mismatch(self):
        verdict = self.only(moment([rank(r, 99, AllGather=6) if r == 1 else rank(r) for r in range(4)]))
        self.assertEqual((verdict["class"], verdict["ranks"]), ("H2", [1]))
        self.assertEqual(verdict["culprits"][0]["component"], "process")

    def test_an_error_of_its_own_is_told_from_one_of_a_peer(self):
        verdict = self.only(moment([rank(0, async_error=6), rank(1, async_error=2), rank(2, async_error=6), rank(3)]))
        self.assertEqual((verdict["class"], verdict["ranks"]), ("H3", [1]))
        self.assertIn("system error", verdict["culprits"][0]["reason"])
        self.assertEqual(verdict["victims"]["count"], 2)

    def test_a_call_that_nccl_refuses_is_the_programs_fault_and_not_the_hardwares(self):
        verdict = self.only(moment([rank(0, async_error=6), rank(1, async_error=5), rank(2)]))
        self.assertEqual((verdict["class"], verdict["ranks"], verdict["culprits"][0]["component"]), ("H1", [1], "application"))
        self.assertIn("invalid usage", verdict["culprits"][0]["reason"])
        self.assertEqual(verdict["victims"]["count"], 1)

    def test_an_abort_is_named(self):
        verdict = self.only(moment([rank(r, abort_flag=(r == 3)) for r in range(4)]))
        self.assertEqual((verdict["ranks"], verdict["culprits"][0]["condition"]), ([3], "aborted"))

    def test_an_initialization_that_goes_on_is_suspected(self):
        verdict = self.only(moment([rank(r, init_state=7 if r == 1 else 0) for r in range(4)]))
        self.assertEqual((verdict["state"], verdict["candidates"]), ("suspected", [1]))


class Output(Case):
    def test_the_text_has_no_times_that_nobody_measured(self):
        done = self.run_on(moment([rank(r, 99 if r == 2 else 100) for r in range(4)]), flags=())
        out = done.stdout.decode()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("HANG: process of rank 2: called fewer collectives", out)
        self.assertNotIn("1970", out)
        self.assertIn("\nNot shown by these data: ", out)

    def test_wrong_members_are_named(self):
        good = moment([rank(0), rank(1)])

        def refused(change, *needles):
            document = copy.deepcopy(good)
            change(document)
            done = self.run_on(document)
            self.assertEqual((done.returncode, done.stdout), (1, b""))
            for needle in ("ras0.json",) + needles:
                self.assertIn(needle, done.stderr.decode())

        refused(lambda d: d.update(timestamp="noon"), "timestamp")
        refused(lambda d: d["communicators"].append(7), "communicators[1]", "a dict is expected")
        refused(lambda d: d["communicators"][0].update(hash="xyz"), "communicators[0].hash")
        refused(lambda d: d["communicators"][0].update(size=0), "communicators[0].size")
        refused(lambda d: d["communicators"][0]["ranks"][1].update(rank=2), "communicators[0].ranks[1].rank", "2 is not from 0 to 1")
        refused(lambda d: d["communicators"][0]["ranks"][1].update(rank=0), "named before")
        refused(lambda d: d["communicators"][0]["ranks"][0].pop("status"), "communicators[0].ranks[0].status", "missing")
        refused(lambda d: d["communicators"][0]["ranks"][0]["collective_counts"].update(AllReduce=-1), "collective_counts")

    def test_a_document_that_is_cut_off_is_refused_with_its_byte(self):
        done = self.run_on(json.dumps(moment([rank(0), rank(1)]))[:200])
        self.assertEqual(done.returncode, 1)
        self.assertIn("byte 20", done.stderr.decode())

    def test_formats_are_not_mixed(self):
        with open(os.path.join(self.folder, "nccl_trace_rank_0.json"), "w", encoding="utf-8") as file:
            json.dump({"version": "2.4", "pg_config": {}, "entries": []}, file)
        done = self.run_on(moment([rank(0), rank(1)]))
        self.assertEqual(done.returncode, 2)
        self.assertIn("one format at a time", done.stderr.decode())
        done = self.run_on(moment([rank(0), rank(1)]), flags=("--format", "ras"))
        self.assertEqual(done.returncode, 2)


if __name__ == "__main__":
    unittest.main()
