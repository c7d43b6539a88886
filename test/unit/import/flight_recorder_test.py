#!/usr/bin/env python3
"""What `ccld import` says of Flight Recorder dumps: verdicts of jobs with known faults, and errors that name the place.

CCLD_EXECUTABLE names the program.
"""
import json
import os
import pickle
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

from flight_recorder_dumps import Group, Rank  # noqa: E402

CCLD = os.environ.get("CCLD_EXECUTABLE", "ccld")
WORLD = Group("0", range(4), "default_pg")


def run(*arguments):
    return subprocess.run((CCLD, "import") + arguments, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="ccld-import-")
        self.addCleanup(lambda: subprocess.run(["rm", "-r", self.folder], check=True))

    def findings(self, ranks, protocol=2):
        for rank in ranks:
            rank.write(self.folder, protocol)
        return self.read()

    def read(self):
        done = run(self.folder, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def only(self, ranks):
        incidents = self.findings(ranks)["incidents"]
        self.assertEqual(len(incidents), 1, [i["title"] for i in incidents])
        return incidents[0]


def ranks_of(group=WORLD, groups=None, calls=3):
    made = [Rank(r, groups or [group]) for r in group.ranks]
    for rank in made:
        for _ in range(calls):
            rank.call(group)
    return made


class Verdicts(Case):
    def test_a_healthy_job_has_no_incident_in_any_protocol(self):
        for protocol in (2, 3, 4):
            found = self.findings(ranks_of(), protocol)
            self.assertEqual(found["incidents"], [], protocol)
            self.assertEqual(found["source"], "flight-recorder")

    def test_the_json_form_says_the_same(self):
        ranks = ranks_of()
        for rank in ranks[:3]:
            rank.call(WORLD, state="started", timed_out=True)
        pickled = self.findings(ranks)["incidents"][0]
        for rank in ranks:
            os.remove(os.path.join(self.folder, "nccl_trace_rank_%d" % rank.rank))
            rank.write_json(self.folder)
        plain = self.read()["incidents"][0]
        for key in ("class", "state", "ranks", "op_seq", "confidence"):
            self.assertEqual(plain[key], pickled[key], key)

    def test_the_rank_that_did_not_call_is_named(self):
        ranks = ranks_of()
        for rank in (ranks[0], ranks[1], ranks[3]):
            rank.call(WORLD, state="started", frame=77, timed_out=True)
        verdict = self.only(ranks)
        self.assertEqual((verdict["class"], verdict["state"], verdict["ranks"], verdict["op_seq"]), ("H1", "confirmed", [2], 4))
        self.assertEqual(verdict["culprits"][0]["condition"], "not_called")
        self.assertGreaterEqual(verdict["confidence"], 0.9)
        self.assertIn("/home/user/train.py:77", verdict["next_step"])
        self.assertEqual(verdict["victims"]["count"], 3)

    def test_without_a_timeout_the_verdict_is_only_suspected(self):
        ranks = ranks_of()
        for rank in ranks[1:]:
            rank.call(WORLD, state="started")
        verdict = self.only(ranks)
        self.assertEqual((verdict["class"], verdict["state"], verdict["ranks"]), ("H1", "suspected", [0]))
        self.assertLess(verdict["confidence"], 0.7)

    def test_differing_sizes_are_a_mismatch_although_nothing_hangs(self):
        ranks = ranks_of()
        for rank in ranks:
            rank.call(WORLD, sizes=((16, 5),) if rank.rank == 1 else ((16, 4),))
        verdict = self.only(ranks)
        self.assertEqual((verdict["class"], verdict["ranks"], verdict["op_seq"]), ("H2", [1], 4))
        self.assertIn("80 against 64", verdict["culprits"][0]["reason"])

    def test_equal_numbers_of_elements_in_other_dimensions_are_no_mismatch(self):
        ranks = ranks_of()
        for rank in ranks:
            rank.call(WORLD, sizes=((8, 8),) if rank.rank == 1 else ((16, 4),))
        self.assertEqual(self.findings(ranks)["incidents"], [])

    def test_differing_data_types_are_a_mismatch(self):
        ranks = ranks_of()
        for rank in ranks:
            rank.call(WORLD, dtype="Half" if rank.rank == 3 else "Float")
        verdict = self.only(ranks)
        self.assertEqual((verdict["class"], verdict["ranks"]), ("H2", [3]))
        self.assertIn("Half against Float", verdict["culprits"][0]["reason"])

    def test_another_order_of_operations_is_a_mismatch_that_hangs(self):
        ranks = ranks_of()
        for rank in ranks:
            first, second = ("all_gather", "all_reduce") if rank.rank == 2 else ("all_reduce", "all_gather")
            rank.call(WORLD, first, state="started").call(WORLD, second, state="scheduled")
        verdict = self.only(ranks)
        self.assertEqual((verdict["class"], verdict["ranks"], verdict["op_seq"]), ("H2", [2], 4))
        self.assertIn("type differs: all_gather against all_reduce", verdict["culprits"][0]["reason"])

    def test_a_skipped_call_is_told_from_another_one(self):
        ranks = ranks_of()
        names = ["broadcast", "all_gather", "reduce_scatter", "all_reduce"]
        for rank in ranks:
            for name in names[1:] if rank.rank == 0 else names:
                rank.call(WORLD, name)
        verdict = self.only(ranks)
        self.assertEqual(verdict["culprits"][0]["condition"], "call_skipped")
        self.assertEqual(verdict["ranks"], [0])

    def test_two_ranks_that_disagree_leave_both_as_candidates(self):
        pair = Group("0", range(2))
        ranks = ranks_of(pair)
        ranks[0].call(pair, "all_gather")
        ranks[1].call(pair, "all_reduce")
        verdict = self.only(ranks)
        self.assertEqual((verdict["class"], verdict["ranks"], verdict["candidates"]), ("H2", [], [0, 1]))

    def test_an_all_to_all_whose_totals_differ_is_a_mismatch(self):
        ranks = ranks_of()
        for rank in ranks:
            rank.call(WORLD, "all_to_all_single", sizes=((8 + rank.rank,),), outputs=[[10 - rank.rank]] if rank.rank else [[11]])
        verdict = self.only(ranks)
        self.assertEqual((verdict["class"], verdict["ranks"]), ("H2", []))
        self.assertIn("38 elements", verdict["title"])

    def test_a_collective_that_all_have_entered_and_none_ends_is_only_suspected(self):
        ranks = ranks_of()
        for rank in ranks:
            rank.call(WORLD, state="started", timed_out=True)
        verdict = self.only(ranks)
        self.assertEqual((verdict["class"], verdict["state"], verdict["ranks"], verdict["candidates"]), ("H3", "suspected", [], [0, 1, 2, 3]))
        self.assertLess(verdict["confidence"], 0.5)

    def test_a_call_under_way_when_the_dump_was_written_is_no_incident(self):
        ranks = ranks_of()
        for rank in ranks:
            path = rank.call(WORLD, state="started").write(self.folder)
            os.utime(path, ns=(rank.now_ns, rank.now_ns))
        found = self.read()
        self.assertEqual(found["incidents"], [])
        self.assertIn("nothing shows that it stands", found["notes"][0])

    def test_kernels_that_have_not_started_narrow_the_candidates(self):
        ranks = ranks_of()
        for rank in ranks:
            rank.call(WORLD, state="scheduled" if rank.rank == 1 else "started", timed_out=True)
        verdict = self.only(ranks)
        self.assertEqual((verdict["class"], verdict["candidates"]), ("H3", [1]))

    def test_a_send_without_receive_names_who_did_not_receive(self):
        ranks = ranks_of()
        ranks[0].send(WORLD, 1)
        ranks[1].receive(WORLD, 0)
        ranks[0].send(WORLD, 1, state="started", timed_out=True)
        verdict = self.only(ranks)
        self.assertEqual((verdict["class"], verdict["ranks"]), ("H1", [1]))
        self.assertEqual(verdict["culprits"][0]["reason"], "did not call recv from rank 0")

    def test_a_pipeline_that_stands_names_its_first_stage(self):
        ranks = ranks_of()
        for rank in ranks[1:]:
            rank.receive(WORLD, rank.rank - 1, state="started", timed_out=True)
        verdict = self.only(ranks)
        self.assertEqual((verdict["class"], verdict["ranks"]), ("H1", [0]))

    def test_a_transfer_whose_ends_disagree_about_its_size_is_a_mismatch(self):
        ranks = ranks_of()
        ranks[0].send(WORLD, 1, sizes=((8,),))
        ranks[1].receive(WORLD, 0, sizes=((9,),), state="started")
        verdict = self.only(ranks)
        self.assertEqual((verdict["class"], verdict["candidates"]), ("H2", [0, 1]))

    def test_coalesced_transfers_have_the_state_of_their_group(self):
        ranks = ranks_of()
        ranks[0].coalesced(WORLD, [(1, True), (1, False)])
        ranks[1].coalesced(WORLD, [(0, False), (0, True)])
        self.assertEqual(self.findings(ranks)["incidents"], [])
        ranks[0].coalesced(WORLD, [(1, True), (1, False)], state="started", timed_out=True)
        verdict = self.only(ranks)
        self.assertEqual((verdict["class"], verdict["state"], verdict["ranks"]), ("H1", "confirmed", [1]))

    def test_a_healthy_pipeline_with_coalesced_transfers_has_no_incident(self):
        for version in ("2.4", "2.10"):
            made = [Rank(r, [WORLD], version) for r in range(4)]
            for rank in made:
                rank.call(WORLD)
                for _ in range(3):  # the stages in the middle make more such calls than those at the ends
                    if rank.rank > 0:
                        rank.coalesced(WORLD, [(rank.rank - 1, False), (rank.rank - 1, True)])
                    if rank.rank < 3:
                        rank.coalesced(WORLD, [(rank.rank + 1, True), (rank.rank + 1, False)])
                if version != "2.4":  # there a coalesced transfer moves the number of collectives
                    rank.call(WORLD)
            self.assertEqual(self.findings(made)["incidents"], [], version)

    def test_a_coalesced_transfer_that_stands_leaves_the_collective_before_it_as_it_was(self):
        ranks = ranks_of()
        ranks[0].coalesced(WORLD, [(1, True)], state="started", timed_out=True)
        verdict = self.only(ranks)
        self.assertEqual((verdict["class"], verdict["ranks"]), ("H1", [1]))
        self.assertEqual(verdict["culprits"][0]["reason"], "did not call recv from rank 0")

    def test_a_coalesced_call_that_the_buffer_cut_in_two_is_no_mismatch(self):
        ranks = ranks_of()
        for rank in ranks:
            rank.coalesced_collectives(WORLD, [("broadcast", 8), ("broadcast", 9), ("broadcast", 10)]).call(WORLD)
        ranks[2].overwritten(5)  # two of the three broadcasts, too
        self.assertEqual(self.findings(ranks)["incidents"], [])
        for rank in ranks[:2]:
            rank.call(WORLD, state="started", timed_out=True)
        ranks[3].call(WORLD, state="started", timed_out=True)
        verdict = self.only(ranks)
        self.assertEqual((verdict["class"], verdict["ranks"]), ("H1", [2]))

    def test_who_runs_ahead_with_its_sends_does_not_make_the_receiver_guilty(self):
        ranks = ranks_of()
        ranks[0].send(WORLD, 1).send(WORLD, 1, state="started", timed_out=True).send(WORLD, 1, state="scheduled")
        ranks[1].receive(WORLD, 0).receive(WORLD, 0, state="started", timed_out=True)
        verdict = self.only(ranks)
        self.assertEqual((verdict["class"], verdict["ranks"], verdict["candidates"]), ("H3", [], [0, 1]))

    def test_who_waits_in_the_next_call_of_a_group_is_no_cause(self):
        one, two = Group("1", (0, 1), "one", 1), Group("2", (1, 2), "two", 2)
        made = [Rank(r, [one, two]) for r in range(3)]
        made[0].call(one, state="started", timed_out=True)
        made[1].call(one).call(one, state="started", timed_out=True)
        made[2].call(two, state="started", timed_out=True)  # rank 1 has not come so far
        verdict = self.only(made)
        self.assertEqual((verdict["class"], verdict["comm_name"], verdict["candidates"]), ("H3", "one (group 1)", [0]))
        self.assertEqual([c["comm_name"] for c in verdict["victim_communicators"]], ["two (group 2)"])

    def test_groups_that_a_process_made_a_second_time_count_from_the_beginning(self):
        old, new = Group("1", range(4), "tp", 1), Group("1", range(4), "tp", 5)
        made = ranks_of(old, calls=7)
        for rank in made:
            rank.groups, rank.numbers = [new], {}
            rank.call(new)
        self.assertEqual(self.findings(made)["incidents"], [])
        for rank in made[1:]:
            rank.call(new, state="started", timed_out=True)
        verdict = self.only(made)
        self.assertEqual((verdict["class"], verdict["ranks"], verdict["op_seq"]), ("H1", [0], 2))

    def test_a_group_whose_ranks_are_not_listed_is_that_of_all(self):
        again = Group("0", range(4), "default_pg", 1)
        made = ranks_of(again)
        for rank in made[1:]:
            rank.call(again, state="started", timed_out=True)
        again.ranks_as_dumped = "[]"
        verdict = self.only(made)
        self.assertEqual((verdict["class"], verdict["ranks"]), ("H1", [0]))
        os.remove(os.path.join(self.folder, "nccl_trace_rank_0"))
        verdict = self.read()["incidents"]
        self.assertEqual([(i["class"], i["ranks"], i["candidates"]) for i in verdict], [("H1", [], [0])])

    def test_one_cause_over_several_groups_is_one_incident(self):
        tensor = Group("1", (0, 1), "tp", 1)
        data = Group("2", (1, 3), "dp", 2)
        made = [Rank(r, [WORLD, tensor, data]) for r in range(4)]
        made[1].call(tensor, state="started", timed_out=True)   # rank 0 did not come
        made[3].call(data, state="started", timed_out=True)     # rank 1 waits in tp
        verdict = self.only(made)
        self.assertEqual(verdict["culprits"][0]["job_rank"], 0)
        self.assertIn("tp", verdict["comm_name"])
        self.assertEqual([c["comm_name"] for c in verdict["victim_communicators"]], ["dp (group 2)"])

    def test_a_rank_that_several_groups_miss_is_one_incident_at_the_oldest_call(self):
        tensor = Group("1", (2, 3), "tp", 1)
        made = [Rank(r, [WORLD, tensor]) for r in range(4)]
        made[2].call(tensor, state="started", timed_out=True)   # rank 3 did not come
        for rank in made[:2]:
            rank.call(WORLD).call(WORLD, state="started", timed_out=True)
        made[2].call(WORLD)
        made[3].call(WORLD)
        verdict = self.only(made)
        self.assertEqual((verdict["culprits"][0]["job_rank"], verdict["comm_name"]), (3, "tp (group 1)"))
        self.assertEqual([c["comm_name"] for c in verdict["victim_communicators"]], ["default_pg (group 0)"])

    def test_groups_called_in_different_orders_are_a_circle(self):
        one, two = Group("1", (0, 1), "one", 1), Group("2", (0, 1), "two", 2)
        made = [Rank(r, [one, two]) for r in range(2)]
        made[0].call(one, state="started", timed_out=True)
        made[1].call(two, state="started", timed_out=True)
        verdict = self.only(made)
        self.assertEqual((verdict["class"], len(verdict["cycle"])), ("H2", 2))
        self.assertEqual({(s["comm_name"], s["rank"], s["waits_for"]) for s in verdict["cycle"]},
                         {("one (group 1)", 0, 1), ("two (group 2)", 1, 0)})

    def test_a_rank_without_a_dump_is_a_candidate_not_a_culprit(self):
        ranks = ranks_of()
        for rank in ranks[:3]:
            rank.call(WORLD, state="started", timed_out=True)
        verdict = self.only(ranks[:3])
        self.assertEqual((verdict["ranks"], verdict["candidates"], verdict["state"]), ([], [3], "suspected"))

    def test_a_rank_whose_finished_calls_are_left_out_is_not_absent(self):
        ranks = ranks_of()
        ranks[0].call(WORLD)
        for rank in ranks[1:]:
            rank.call(WORLD, state="started", timed_out=True)
        ranks[0].entries = []  # a dump of active calls only
        verdict = self.only(ranks)
        self.assertEqual((verdict["class"], verdict["ranks"], verdict["candidates"]), ("H3", [], [1, 2, 3]))


class Text(Case):
    def test_it_reads_as_explain_does_and_says_what_is_not_shown(self):
        ranks = ranks_of()
        for rank in ranks[1:]:
            rank.call(WORLD, state="started", timed_out=True)
        for rank in ranks:
            rank.write(self.folder, 4)
        done = run(self.folder)
        out = done.stdout.decode()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(out.startswith("HANG: rank 0 did not call AllReduce #4"), out)
        self.assertIn("\nNot shown by these data: ", out)
        self.assertTrue(out.rstrip().endswith("."))
        self.assertNotIn("ccld explain", out)
        self.assertIn("dumps of 4 ranks, 1 process group, 15 calls", done.stderr.decode())


class Errors(Case):
    def refused(self, path_or_bytes, code, *needles):
        path = path_or_bytes
        if isinstance(path_or_bytes, bytes):
            path = os.path.join(self.folder, "nccl_trace_rank_0")
            with open(path, "wb") as file:
                file.write(path_or_bytes)
        done = run(path)
        self.assertEqual((done.returncode, done.stdout), (code, b""), done.stderr)
        for needle in (path,) + needles:
            self.assertIn(needle, done.stderr.decode())

    def document(self):
        return Rank(0, [WORLD]).call(WORLD).document()

    def dumped(self, change):
        document = self.document()
        change(document)
        return pickle.dumps(document, protocol=2)

    def test_code_in_a_pickle_is_not_run(self):
        marker = os.path.join(self.folder, "ran")

        class Attack:
            def __reduce__(self):
                return os.system, ("touch " + marker,)

        for protocol in (2, 3, 4):
            self.refused(pickle.dumps({"version": "2.4", "entries": [Attack()]}, protocol=protocol), 1, "byte ", "opcode ", "runs code")
        self.assertFalse(os.path.exists(marker))

    def test_members_of_a_wrong_kind_are_named(self):
        self.refused(self.dumped(lambda d: d.update(version="3.0")), 1, "version", "3.0")
        self.refused(self.dumped(lambda d: d.pop("version") and d), 2, "no dump")
        self.refused(self.dumped(lambda d: d.pop("pg_config")), 1, "pg_config")
        self.refused(self.dumped(lambda d: d["entries"][0].update(state="lost")), 1, "entries[0].state", "lost")
        self.refused(self.dumped(lambda d: d["entries"][0].update(profiling_name="nccl:juggle")), 1, "entries[0].profiling_name", "juggle")
        self.refused(self.dumped(lambda d: d["entries"][0].update(profiling_name="nccl:send 1->9")), 1, "entries[0].profiling_name")
        self.refused(self.dumped(lambda d: d["entries"][0].update(input_sizes=[["a"]])), 1, "entries[0].input_sizes[0]")
        self.refused(self.dumped(lambda d: d["entries"][0].update(process_group=("7", "x"))), 1, "entries[0].process_group", "'7'")
        self.refused(self.dumped(lambda d: d["pg_config"]["0"].update(ranks="0, 1")), 1, "pg_config[0].ranks")
        self.refused(self.dumped(lambda d: d["entries"].append(5)), 1, "entries[1]", "a dict is expected, found an integer")

    def test_a_dump_cut_off_anywhere_is_refused(self):
        whole = self.dumped(lambda d: None)
        for size in range(1, len(whole), max(1, len(whole) // 40)):
            self.refused(whole[:size], 1, "byte ")

    def test_files_that_are_no_dumps(self):
        self.refused(b"", 1, "empty")
        self.refused(b"hello", 2, "no dump that is known")
        self.refused(b'{"version": "2.4", "entries": [', 1, "byte ")
        self.refused(os.path.join(self.folder, "missing"), 1, "cannot read")
        self.assertEqual(run().returncode, 2)

    def test_other_files_of_a_folder_are_left_out_and_noted(self):
        ranks_of()[0].write(self.folder)
        with open(os.path.join(self.folder, "train.log"), "w", encoding="utf-8") as file:
            file.write("epoch 1\n")
        found = self.read()
        self.assertTrue(any("train.log" in n for n in found["notes"]), found["notes"])
        self.assertTrue(any("ranks 1, 2, 3" in n for n in found["notes"]), found["notes"])

    def test_a_dump_that_cannot_be_read_counts_as_missing_beside_others(self):
        ranks = ranks_of()
        for rank in ranks:
            if rank.rank != 2:
                rank.call(WORLD, state="started", timed_out=True)
        paths = [rank.write(self.folder) for rank in ranks]
        os.truncate(paths[2], os.path.getsize(paths[2]) // 2)
        open(os.path.join(self.folder, "rank2.err"), "w").close()
        with open(os.path.join(self.folder, "optimizer.pkl"), "wb") as file:
            file.write(pickle.dumps(subprocess.run))  # names code
        for arguments in ([self.folder], paths):
            done = run("--json", *arguments)
            self.assertEqual(done.returncode, 0, done.stderr)
            found = json.loads(done.stdout)
            verdict = found["incidents"][0]
            self.assertEqual((verdict["class"], verdict["ranks"], verdict["candidates"]), ("H1", [], [2]))
            self.assertTrue(any("cannot be read" in note and paths[2] in note for note in found["notes"]), found["notes"])

    def test_a_second_dump_of_a_rank_is_refused(self):
        rank = ranks_of()[0]
        rank.write(self.folder)
        rank.write(self.folder, prefix="copy_rank_")
        done = run(self.folder)
        self.assertEqual(done.returncode, 1)
        self.assertIn("another dump of rank 0", done.stderr.decode())


if __name__ == "__main__":
    unittest.main()
