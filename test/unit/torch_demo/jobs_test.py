"""The jobs, their faults and plans, and verdicts in ranks of the job."""
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest

import paths  # noqa: F401
from faults.plan import PlanError
from torch_demo import plans
from torch_demo.job import JobRankVerdicts
from torch_demo.rank.board import BoardLine
from torch_demo.rank.fault_file import Changes, FaultFile, parse
from torch_demo.rank.jobs import JOBS, METRICS, StopsCalling
from run.board import Board

FAULTY = {"name": "x", "title": "x", "job": "ddp", "faults": [{"kind": "skip", "rank": 2, "rounds": 0}], "expect": {"class": "H1", "ranks": [2]}}


class Group:
    def __init__(self, name, ranks):
        self.name, self.ranks = name, ranks


class NotingEngine:
    """Notes what a rank does."""

    def __init__(self, rank, rank_count=4):
        self.rank, self.rank_count, self.done = rank, rank_count, []
        self.groups = {}

    def group(self, name, ranks):
        self.groups[name] = ranks
        return Group(name, ranks)

    def __getattr__(self, name):
        def note(group, slot, count):
            self.done.append((name, group.name, count))
        return note

    def exchange(self, group, send_slot, send_to, receive_slot, receive_from):
        self.done.append(("send", group.name, send_to) if send_to is not None else ("receive", group.name, receive_from))

    def fill(self, slot, value):
        pass

    def holds(self, slot, value):
        return True

    def synchronize(self):
        pass

    def data_parallel(self, group):
        return lambda: self.done.append(("step", group.name))

    def stage(self, group):
        engine = self

        class Stage:
            def forward(self, micro_batch):
                engine.done.append(("forward", micro_batch))

            def backward(self, micro_batch):
                engine.done.append(("backward", micro_batch))

            def reduce_and_step(self):
                engine.done.append(("step", group.name))
        return Stage()


def iterate(job, rank, *faults, round_number=1, **files):
    engine = NotingEngine(rank)
    made = JOBS[job](engine, **files)
    engine.done.clear()
    try:
        made.iterate(round_number, Changes(faults))
    except StopsCalling:
        engine.done.append("stops")
    return engine


class JobsTest(unittest.TestCase):
    def test_every_send_of_the_pipeline_has_its_receive_in_the_same_order(self):
        first, second = iterate("pipeline", 2).done, iterate("pipeline", 3).done
        self.assertEqual([each for each in first if each[0] in ("send", "receive")],
                         [("send", "PP1", 3)] * 4 + [("receive", "PP1", 3)] * 4)
        self.assertEqual([each for each in second if each[0] in ("send", "receive")],
                         [("receive", "PP1", 2)] * 4 + [("send", "PP1", 2)] * 4)
        self.assertEqual([each[1] for each in second if each[0] == "backward"], [3, 2, 1, 0])

    def test_all_ranks_name_the_same_groups(self):
        groups = [iterate("pipeline", rank).groups for rank in range(4)]
        self.assertEqual(groups, [{"PP0": [0, 1], "PP1": [2, 3], "DP0": [0, 2], "DP1": [1, 3]}] * 4)

    def test_faults_change_the_metrics_or_end_the_calls(self):
        self.assertIn(("all_reduce", "DP", METRICS), iterate("ddp", 1).done)
        self.assertIn(("all_reduce", "DP", METRICS // 2), iterate("ddp", 1, {"kind": "other_count", "factor": 0.5}).done)
        self.assertIn(("broadcast", "DP", METRICS), iterate("ddp", 1, {"kind": "other_operation", "operation": "broadcast"}).done)
        self.assertEqual(iterate("ddp", 1, {"kind": "skip"}).done, ["stops"])
        self.assertEqual(iterate("pipeline", 1, {"kind": "skip"}).done, [("receive", "PP0", 0), ("forward", 0), "stops"])


class FaultFileTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "faults.json")
        self.file = FaultFile(self.path, rank=1)

    def write(self, *faults):
        with open(self.path + ".part", "w") as file:
            json.dump({"faults": faults}, file)
        os.rename(self.path + ".part", self.path)
        self.file.refresh()

    def test_a_fault_lasts_its_rounds_and_concerns_its_rank(self):
        self.file.refresh()
        self.assertEqual(self.file.of_round(), [])
        self.write({"kind": "delay", "rank": 1, "ms": 5, "rounds": 2}, {"kind": "skip", "rank": 0, "rounds": 0})
        self.assertEqual([len(self.file.of_round()) for _ in range(3)], [1, 1, 0])
        self.write({"kind": "delay", "rank": 1, "ms": 5, "rounds": 2}, {"kind": "skip", "rank": 0, "rounds": 0},
                   {"kind": "delay", "rank": 1, "ms": 7, "rounds": 0})
        self.assertEqual([self.file.of_round()[0]["ms"] for _ in range(3)], [7, 7, 7])
        self.assertEqual(self.file.version, 2)

    def test_a_text_that_cannot_be_used_leaves_the_faults_as_they_were(self):
        self.write({"kind": "delay", "rank": 1, "ms": 5, "rounds": 0})
        with contextlib.redirect_stderr(io.StringIO()) as errors:
            self.write({"kind": "freeze", "rank": 1})
        self.assertIn("faults[0].kind", errors.getvalue())
        self.assertEqual(len(self.file.of_round()), 1)
        with self.assertRaisesRegex(ValueError, r"faults\[0\].rank"):
            parse('{"faults": [{"kind": "skip"}]}')


class MicroBatchesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "micro-batches.json")

    def write(self, document):
        with open(self.path + ".part", "w") as file:
            json.dump(document, file)
        os.rename(self.path + ".part", self.path)

    def forwards(self, rank, round_number):
        done = iterate("pipeline", rank, round_number=round_number, micro_batches_file=self.path).done
        self.assertEqual([each[0] for each in done].count("backward"), [each[0] for each in done].count("forward"))
        return [each[0] for each in done].count("forward")

    def test_each_replica_takes_its_own_from_the_round_on_that_the_file_names(self):
        self.assertEqual(self.forwards(0, 9), 4)
        self.write({"from_round": 9, "micro_batches": [5, 3]})
        self.assertEqual([self.forwards(rank, 8) for rank in range(4)], [4, 4, 4, 4])
        self.assertEqual([self.forwards(rank, 9) for rank in range(4)], [5, 5, 3, 3])

    def test_what_the_hook_of_act_writes_can_be_read(self):
        hook = os.path.join(paths.ROOT, "scripts", "deploy", "act", "hooks", "micro-batches")
        request = {"action": "micro_batches", "strategy": {"equal_share": 4, "micro_batches": [{"replicas": "0", "count": 5}, {"replicas": "1", "count": 3}]}}
        subprocess.run([sys.executable, "-B", hook], input=json.dumps(request), text=True, check=True, stdout=subprocess.DEVNULL,
                       env=dict(os.environ, CCLD_MICRO_BATCHES_FILE=self.path, CCLD_FROM_ROUND="9"))
        self.assertEqual([self.forwards(rank, 9) for rank in range(4)], [5, 5, 3, 3])

    def test_a_file_that_cannot_be_used_leaves_the_numbers_as_they_were(self):
        for document, field in (({"from_round": -1, "micro_batches": [5, 3]}, "from_round"), ({"from_round": 1, "micro_batches": [5]}, "micro_batches"),
                                ({"from_round": 1, "micro_batches": [5, 0]}, "micro_batches"), ([], "object")):
            self.write(document)
            with contextlib.redirect_stderr(io.StringIO()) as errors:
                self.assertEqual(self.forwards(0, 9), 4)
            self.assertIn(field, errors.getvalue())


class BoardTest(unittest.TestCase):
    def test_what_a_rank_writes_the_launcher_reads(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "board")
            board = Board(path, 2)
            self.addCleanup(board.close)
            line = BoardLine(path, 1, 2)
            line.set(pid=7, state="ready", entered_round=3, completed_round=2, wrong_results=1, fault_first_ns=1 << 40)
            line.release(9)
            slot = board.slot(1)
            self.assertEqual((slot.pid, slot.state, slot.entered_round, slot.completed_round, slot.wrong_results, slot.fault_first_ns),
                             (7, "ready", 3, 2, 1, 1 << 40))
            self.assertEqual(board.slot(0).state, "absent")
            self.assertEqual(BoardLine(path, 0, 2).released(), 9)


class PlansTest(unittest.TestCase):
    def refused(self, document, word):
        with self.assertRaises(PlanError) as caught:
            plans.TorchPlan(document, "plan.json")
        self.assertIn("plan.json", str(caught.exception))
        self.assertIn(word, str(caught.exception))

    def test_all_plans_of_the_demo_can_be_used(self):
        loaded = [plans.load(name) for name in plans.names()]
        self.assertEqual({plan.job for plan in loaded}, set(JOBS))
        for name, plan in zip(plans.names(), loaded):
            self.assertEqual(plan.name, name)
            self.assertEqual(bool(plan.faults), plan.seconds == 0)

    def test_errors_name_the_field(self):
        self.refused(dict(FAULTY, job="tensor"), "job")
        self.refused(dict(FAULTY, seconds=5), "seconds")
        self.refused(dict(FAULTY, workload={}), "workload")
        self.refused(dict(FAULTY, ranks=2, job="pipeline", faults=[{"kind": "skip", "rank": 1}], expect={"class": "H1", "ranks": [1]}), "ranks")
        self.refused(dict(FAULTY, faults=[{"kind": "freeze_device", "rank": 2}]), "faults[0].kind")
        self.refused(dict(FAULTY, faults=[{"kind": "other_order", "rank": 2}]), "faults[0].kind")


class JobRankVerdictsTest(unittest.TestCase):
    def test_a_culprit_is_known_by_its_process(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "verdicts")
            with open(path, "w") as file:
                for rank_count, culprit in ((2, {"rank": 1, "pid": 103, "peer": 0}), (4, {"rank": 1, "pid": 101, "peer": 0}),
                                            (2, {"rank": 0, "pid": 99, "peer": None})):
                    file.write(json.dumps({"incident": 1, "rank_count": rank_count, "culprits": [culprit]}) + "\n")
            verdicts = JobRankVerdicts(path)
            verdicts.rank_of_pid = {100 + rank: rank for rank in range(4)}
            self.assertEqual([(line["culprits"][0]["rank"], line["culprits"][0]["peer"]) for line in verdicts.poll()], [(3, None), (1, 0), (0, None)])


if __name__ == "__main__":
    unittest.main()
