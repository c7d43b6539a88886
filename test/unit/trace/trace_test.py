#!/usr/bin/env python3
"""What a user gets of `ccld trace`: golden recordings as traces, read by a decoder that knows only the formats.

CCLD_EXECUTABLE names the program.
"""
import datetime
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from collections import Counter as Count, defaultdict

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, HERE)

import perfetto_trace  # noqa: E402

CCLD = os.environ.get("CCLD_EXECUTABLE", "ccld")
RECORDINGS = os.path.join(HERE, "..", "..", "golden", "recordings")
RANKS = ["rank %d" % rank for rank in range(8)]


def recording(name):
    return os.path.join(RECORDINGS, name + ".ccldrec")


def run(*arguments):
    return subprocess.run((CCLD, "trace") + arguments, stdin=subprocess.DEVNULL, capture_output=True, timeout=120)


def trace(name, *arguments):
    done = run(recording(name), "-o", "-", *arguments)
    assert done.returncode == 0, done.stderr
    return perfetto_trace.Trace(done.stdout), done.stderr.decode()


def json_trace(name, *arguments):
    done = run(recording(name), "-o", "-", "--format", "json", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["traceEvents"]


def verdicts(name):
    with open(os.path.join(RECORDINGS, name + ".jsonl")) as file:
        return [json.loads(line) for line in file]


def rank_of(group):
    return int(group.split()[1])


def kernels(of, ended=True):
    return [s for s in of.slices if s.category == "kernel" and s.name.endswith("(not ended)") != ended]


def ns(microseconds):
    return round(microseconds * 1000)


class Healthy(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.trace, cls.said = trace("healthy")

    def test_every_rank_is_a_group_that_says_where_it_runs(self):
        groups = [group for group in self.trace.groups if group != "incidents"]
        self.assertEqual([group.split(" on ")[0] for group in groups], RANKS)
        for group in groups:
            self.assertRegex(self.trace.groups[group], r"^node\d, GPU \d.*, pid \d+, clock: ")

    def test_every_operation_of_a_communicator_is_there_on_each_rank_once(self):
        seen = defaultdict(Count)
        for s in kernels(self.trace):
            if "operation" in s.args:
                seen[s.args["communicator"]][s.args["operation"], rank_of(s.group)] += 1
        self.assertTrue(seen)
        for calls in seen.values():
            operations = {operation for operation, _ in calls}
            # From the first to the last without a gap.
            self.assertEqual(operations, set(range(min(operations), max(operations) + 1)))
            self.assertEqual(set(calls.values()), {1})
            whole = [operation for operation in operations if all((operation, rank) in calls for rank in range(8))]
            # The newest may not have been reported by all when the recording ended.
            self.assertGreaterEqual(len(whole), len(operations) - 2)

    def test_slices_of_a_row_begin_before_they_end_and_kernels_do_not_overlap(self):
        rows = defaultdict(list)
        for s in self.trace.slices:
            self.assertLessEqual(s.begin_ns, s.end_ns)
            if s.category in ("kernel", "gap", "wait"):
                rows[s.group, s.row].append((s.begin_ns, s.end_ns))
        for spans in rows.values():
            spans.sort()
            for before, after in zip(spans, spans[1:]):
                self.assertLessEqual(before[1], after[0])

    def test_arrows_connect_the_same_call_on_all_ranks(self):
        calls = {}
        for s in kernels(self.trace):
            for arrow in s.arrows:
                calls.setdefault(arrow, []).append((s.args.get("communicator"), s.args.get("operation"), rank_of(s.group)))
        connected = [members for members in calls.values() if len(members) > 1]
        self.assertTrue(connected)
        for members in connected:
            self.assertEqual(len({(communicator, operation) for communicator, operation, _ in members}), 1)
            self.assertEqual(len({rank for _, _, rank in members}), len(members))
        self.assertGreater(sum(len(members) == 8 for members in connected), 0.9 * len(connected))

    def test_each_call_leads_to_its_kernel_and_not_back_in_time(self):
        begins = {arrow: s for s in kernels(self.trace) for arrow in s.arrows}
        calls = [s for s in self.trace.slices if s.category == "host" and s.arrows]
        self.assertTrue(calls)
        for call in calls:
            kernel = begins[call.arrows[0]]
            self.assertEqual((kernel.group, kernel.args["operation"]), (call.group, call.args["operation"]))
            self.assertLessEqual(call.begin_ns, kernel.begin_ns)
            self.assertLessEqual(call.end_ns, kernel.begin_ns)

    def test_no_collective_ends_before_it_has_begun_everywhere(self):
        """What the order of events proves is true on the common time line."""
        calls = defaultdict(list)
        for s in kernels(self.trace):
            if s.name in ("AllReduce", "AllGather", "ReduceScatter"):
                calls[s.args["communicator"], s.args["operation"]].append((s.begin_ns, s.end_ns))
        wrong = sum(min(end for _, end in spans) < max(begin for begin, _ in spans) for spans in calls.values() if len(spans) == 8)
        self.assertLessEqual(wrong, 0.01 * len(calls))

    def test_clock_errors_are_counters_that_contain_the_truth(self):
        """Ranks of a node share one clock on the CPU device: an interval that is wrong would be negative."""
        self.assertEqual({rank_of(c.group) for c in self.trace.counters}, set(range(8)))
        self.assertTrue(all(c.value >= 0 for c in self.trace.counters))

    def test_gaps_lie_between_operations(self):
        gaps = [s for s in self.trace.slices if s.category == "gap"]
        self.assertTrue(gaps)
        busy = defaultdict(list)
        for s in kernels(self.trace) + kernels(self.trace, ended=False):
            busy[s.group].append((s.begin_ns, s.end_ns))
        for gap in gaps:
            for begin_ns, end_ns in busy[gap.group]:
                self.assertTrue(end_ns <= gap.begin_ns or begin_ns >= gap.end_ns)

    def test_links_show_stages_of_both_ends(self):
        names = {s.name for s in self.trace.slices if s.category == "link"}
        self.assertIn("step: network", names)
        self.assertIn("step: awaited from the sender", names)

    def test_nothing_is_marked(self):
        self.assertEqual(self.trace.instants, [])


class BothFormats(unittest.TestCase):
    def check(self, name, *arguments):
        one, _ = trace(name, *arguments)
        groups, rows, slices, instants, counters = {}, {}, [], [], []
        arrows = defaultdict(list)
        events = json_trace(name, *arguments)
        for e in events:
            if e["ph"] == "M":
                if e["name"] == "process_name":
                    groups[e["pid"]] = e["args"]["name"]
                if e["name"] == "thread_name":
                    rows[e["pid"], e["tid"]] = e["args"]["name"]
        for e in events:
            if e["ph"] == "X":
                begin, duration = ns(e["ts"]), ns(e["dur"])
                slices.append((groups[e["pid"]], rows[e["pid"], e["tid"]], begin, begin + duration, e["name"], e["cat"], repr(sorted(e["args"].items()))))
            elif e["ph"] == "i":
                instants.append((groups[e["pid"]], rows[e["pid"], e["tid"]], ns(e["ts"]), e["name"], repr(sorted(e["args"].items()))))
            elif e["ph"] == "C":
                counters.append((groups[e["pid"]], e["name"], ns(e["ts"]), e["args"]["value"]))
            elif e["ph"] in "stf":
                arrows[int(e["id"], 16)].append((ns(e["ts"]), groups[e["pid"]], rows[e["pid"], e["tid"]]))
        self.assertEqual(sorted(slices), sorted((s.group, s.row, s.begin_ns, s.end_ns, s.name, s.category, repr(sorted(s.args.items()))) for s in one.slices))
        self.assertEqual(sorted(instants), sorted((i.group, i.row, i.at_ns, i.name, repr(sorted(i.args.items()))) for i in one.instants))
        self.assertEqual(sorted(counters), sorted((c.group, c.row, c.at_ns, c.value) for c in one.counters))
        self.assertEqual({arrow: sorted(points) for arrow, points in arrows.items()}, {arrow: points for arrow, points in one.flows.items() if len(points) > 1})
        # An arrow begins, passes and ends in this order of time, each within a slice or at an instant.
        spans = defaultdict(list)
        for group, row, begin_ns, end_ns, *_ in slices:
            spans[group, row].append((begin_ns, end_ns))
        for e in events:
            if e["ph"] in "stf":
                at_ns = ns(e["ts"])
                self.assertTrue(any(begin <= at_ns <= end for begin, end in spans[groups[e["pid"]], rows[e["pid"], e["tid"]]]))

    def test_collectives_and_links_are_the_same(self):
        self.check("s2_slow_link", "--ranks", "2-4")

    def test_sends_and_recvs_are_the_same(self):
        self.check("s2_pipeline_link", "--from", "2", "--to", "6")

    def test_a_hang_is_the_same(self):
        self.check("h1_skipped")


class Incidents(unittest.TestCase):
    def test_the_hang_is_marked_and_its_operation_has_not_ended(self):
        of, _ = trace("h1_skipped")
        last = verdicts("h1_skipped")[-1]
        marks = [i for i in of.instants if i.group == "incidents"]
        self.assertEqual([m.name.split()[2].rstrip(":") for m in sorted(marks, key=lambda m: m.at_ns)], ["onset", "suspected", "located", "advice", "confirmed"])
        for m in marks:
            self.assertEqual(m.args["class"], last["class"])
            self.assertIn("rank %d" % last["ranks"][0], m.args["culprit"])
        at = {m.name.split()[2].rstrip(":"): m.at_ns for m in marks}
        self.assertAlmostEqual((at["confirmed"] - at["onset"]) / 1e6, last["confirmed_ms"], delta=0.01)
        own = [i for i in of.instants if i.group != "incidents"]
        self.assertEqual([rank_of(i.group) for i in own], last["ranks"])
        waiting = kernels(of, ended=False)
        self.assertEqual({rank_of(s.group) for s in waiting}, set(range(8)) - set(last["ranks"]))
        self.assertEqual({s.args["operation"] for s in waiting}, {last["op_seq"]})
        for s in waiting:
            self.assertLess(s.begin_ns, at["suspected"])
            self.assertGreater(s.end_ns, at["suspected"])
        idle = [s for s in of.slices if s.name == "after its last operation" and rank_of(s.group) in last["ranks"]]
        self.assertEqual(len(idle), 1)
        self.assertGreater(idle[0].end_ns, at["suspected"])

    def test_every_recording_with_a_fault_marks_its_culprits(self):
        for name in ("h2_other_order", "h3_frozen_ring", "s1_slow_clock", "s2_start_proxy", "s3_clock_and_link"):
            with self.subTest(name):
                of, _ = trace(name)
                last = {v["incident"]: v for v in verdicts(name)}
                self.assertEqual({i.args["incident"] for i in of.instants if i.group == "incidents"}, set(last))
                ranks = {rank for v in last.values() for rank in v["ranks"]}
                self.assertEqual({rank_of(i.group) for i in of.instants if i.category == "incident" and i.group != "incidents"}, ranks)

    def test_what_was_advised_stands_where_the_cause_was_found(self):
        of, _ = trace("s1_slow_clock")
        marks = {i.name.split()[2].rstrip(":"): i for i in of.instants if i.group == "incidents"}
        advice = marks["advice"].args["advice"]
        self.assertTrue(advice)
        self.assertTrue(marks["advice"].name.endswith(advice))
        self.assertEqual(marks["advice"].at_ns, marks["located"].at_ns)
        self.assertEqual(marks["confirmed"].args["advice"], advice)

    def test_validation_and_actions_stand_when_they_were(self):
        last = verdicts("s1_slow_clock")[-1]
        at = datetime.datetime.fromisoformat(last["time"].replace("Z", "+00:00"))
        second = datetime.timedelta(seconds=1)
        culprit = last["culprits"][0]
        with tempfile.TemporaryDirectory() as folder:
            def file(name, document):
                path = os.path.join(folder, name)
                with open(path, "w") as out:
                    json.dump(document, out)
                return path
            healthy = {"schema": "ccld-validate/1", "time": at.isoformat(), "verdict": "healthy", "failure": None, "rows": [{}] * 9, "members": [{}] * 8,
                       "incidents": []}
            suspect = dict(healthy, time=(at - second).isoformat(), verdict="suspect",
                           incidents=[{"class": "S1", "title": "a GPU computes slowly", "culprits": [culprit], "next_step": "replace it"}])
            acted = {"done": [{"key": "run-1/1/micro_batches", "time_s": (at - 2 * second).timestamp(), "title": "a GPU is slow"}]}
            of, _ = trace("s1_slow_clock", "--validation", file("h.json", healthy), "--validation", file("s.json", suspect), "--actions", file("a.json", acted))
            marks = {i.name.split(":")[0] + i.name.split(":")[1]: i for i in of.instants if i.category == "mark" and i.group == "incidents"}
            self.assertEqual(set(marks), {"validation healthy", "validation suspect", "action micro_batches because of incident 1"})
            self.assertEqual(marks["validation healthy"].args["checks"], 9)
            self.assertAlmostEqual((marks["validation healthy"].at_ns - marks["validation suspect"].at_ns) / 1e9, 1, delta=0.002)
            self.assertAlmostEqual((marks["validation suspect"].at_ns - marks["action micro_batches because of incident 1"].at_ns) / 1e9, 1, delta=0.002)
            own = [i for i in of.instants if i.category == "mark" and i.group != "incidents"]
            self.assertEqual([rank_of(i.group) for i in own], [culprit["rank"]])

            for flag, document, word in (("--validation", {}, "schema"), ("--validation", dict(healthy, time="noon"), "time"), ("--validation", dict(healthy, time="infinite-past"), "time"),
                                         ("--validation", dict(healthy, incidents=1), "incidents"), ("--actions", {}, "done"),
                                         ("--actions", {"done": [{"key": "1", "time_s": 1}]}, "done[0].key"),
                                         ("--actions", {"done": [{"key": "a/1/b", "time_s": "x"}]}, "done[0].time_s"),
                                         ("--actions", {"done": [{"key": "a/1/b", "time_s": 9.5e9}]}, "done[0].time_s"),
                                         ("--actions", {"done": [{"key": "a/1/b", "time_s": -1}]}, "done[0].time_s")):
                done = run(recording("s1_slow_clock"), "-o", "-", flag, file("bad.json", document))
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(flag, done.stderr.decode())
                self.assertIn(word, done.stderr.decode())

    def test_a_slow_link_shows_where_steps_wait(self):
        of, _ = trace("s2_slow_link")
        since = min(i.at_ns for i in of.instants if "suspected" in i.name)
        stages = defaultdict(list)
        for s in of.slices:
            if s.row.startswith("link from 3") and rank_of(s.group) == 4 and s.begin_ns > since:
                stages[s.name].append(s.args["mean_of_step_ns"])
        usual = {name: sorted(times)[len(times) // 2] for name, times in stages.items()}
        self.assertEqual(max(usual, key=usual.get), "step: awaited from the sender")
        self.assertGreater(usual["step: awaited from the sender"], 1e6)

    def test_a_slow_gpu_computes_longer_between_operations(self):
        of, _ = trace("s1_slow_clock")
        gaps = defaultdict(list)
        since = min(i.at_ns for i in of.instants if "suspected" in i.name)
        for s in of.slices:
            if s.category == "gap" and s.begin_ns > since:
                gaps[rank_of(s.group)].append(s.end_ns - s.begin_ns)
        usual = {rank: sorted(lengths)[len(lengths) // 2] for rank, lengths in gaps.items()}
        self.assertEqual(max(usual, key=usual.get), 6)

    def test_an_incident_chooses_its_time(self):
        whole, _ = trace("s2_start_proxy")
        part, said = trace("s2_start_proxy", "--incident", "1", "--from", "0", "--to", "3")
        self.assertLess(len(part.slices), len(whole.slices))
        self.assertIn("left out: what is not between 0 s and 3 s", said)
        _, said = trace("s2_start_proxy", "--incident", "1")
        self.assertIn("left out: what is not between", said)


class Transfers(unittest.TestCase):
    def test_arrows_lead_from_a_send_to_where_its_recv_ends(self):
        of, _ = trace("s2_pipeline_link")
        received = {arrow: i for i in of.instants if i.category == "kernel" for arrow in i.arrows}
        sends = [(arrow, s) for s in kernels(of) for arrow in s.arrows if arrow in received]
        self.assertTrue(sends)
        for arrow, send in sends:
            self.assertEqual(received[arrow].name, "received from %s" % received[arrow].name[len("received from "):])
            self.assertIn("received from %d" % rank_of(send.group), received[arrow].name)
        late = sum(received[arrow].at_ns < send.begin_ns for arrow, send in sends)
        self.assertLessEqual(late, 0.01 * len(sends))


class Choice(unittest.TestCase):
    def test_ranks_and_times_are_those_asked_for(self):
        of, said = trace("healthy", "--ranks", "0-2,5", "--from", "20", "--to", "21")
        self.assertEqual([rank_of(group) for group in of.groups if group != "incidents"], [0, 1, 2, 5])
        self.assertIn("rank 0-2, 5 of 8 ranks", said)
        self.assertIn("left out: 4 ranks with ", said)
        self.assertIn("left out: what is not between 20 s and 21 s of the recording", said)
        self.assertTrue(of.slices)

    def test_the_file_is_named_after_the_recording_and_the_same_every_time(self):
        with tempfile.TemporaryDirectory(prefix="ccld-trace-") as folder:
            for _ in range(2):
                done = subprocess.run((CCLD, "trace", os.path.realpath(recording("h1_skipped"))), cwd=folder, capture_output=True, timeout=120)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(b"h1_skipped.pftrace: ", done.stderr)
            self.assertEqual(os.listdir(folder), ["h1_skipped.pftrace"])
            with open(os.path.join(folder, "h1_skipped.pftrace"), "rb") as file:
                self.assertEqual(file.read(), run(recording("h1_skipped"), "-o", "-").stdout)


class WrongArguments(unittest.TestCase):
    def check(self, status, text, *arguments):
        done = run(*arguments)
        self.assertEqual(done.returncode, status, done.stderr)
        lines = done.stderr.decode().splitlines()
        self.assertEqual(len(lines), 1, lines)
        self.assertIn(text, lines[0])
        self.assertEqual(done.stdout, b"")

    def test_each_is_one_line_that_names_the_flag(self):
        of = recording("h1_skipped")
        self.check(2, "--ranks: 'x' is not a rank", of, "--ranks", "x", "-o", "-")
        self.check(2, "--ranks: the range '7-0' ends before it begins", of, "--ranks", "7-0", "-o", "-")
        self.check(2, "--ranks: the recording has no rank 8; its last one is 7", of, "--ranks", "0-4000000", "-o", "-")
        self.check(1, "--incident: there is no incident 9: the recording has 1 to 1", of, "--incident", "9", "-o", "-")
        self.check(1, "--incident: there is no incident 1: the recording has none", recording("healthy"), "--incident", "1", "-o", "-")
        self.check(2, "--to: the end is before --from", of, "--from", "3", "--to", "2", "-o", "-")
        self.check(2, "--from: seconds", of, "--from", "nan", "-o", "-")
        self.check(2, "--format: perfetto or json", of, "--format", "xml", "-o", "-")
        self.check(2, "-o: this is the recording itself", of, "-o", of)
        self.check(1, "-o: /nowhere/x", of, "-o", "/nowhere/x")
        self.check(1, "cannot", os.path.join(RECORDINGS, "missing.ccldrec"), "-o", "-")
        self.check(1, "not a recording", os.path.join(RECORDINGS, "h1_skipped.jsonl"), "-o", "-")

    def test_a_full_disk_is_one_line(self):
        self.check(1, "-o: /dev/full", recording("h1_skipped"), "-o", "/dev/full")

    def test_of_a_damaged_recording_what_came_before_is_written_and_the_damage_is_told(self):
        with tempfile.TemporaryDirectory(prefix="ccld-trace-") as folder:
            damaged, out = os.path.join(folder, "damaged.ccldrec"), os.path.join(folder, "out")
            shutil.copy(recording("healthy"), damaged)
            with open(damaged, "r+b") as file:
                file.seek(os.path.getsize(damaged) * 2 // 3)
                file.write(b"\xff" * 64)
            done = run(damaged, "-o", out)
            self.assertEqual(done.returncode, 1)
            self.assertIn(b"offset", done.stderr)
            with open(out, "rb") as file:
                self.assertTrue(kernels(perfetto_trace.Trace(file.read())))


if __name__ == "__main__":
    unittest.main()
