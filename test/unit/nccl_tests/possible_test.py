import os
import unittest

import paths
from faults.plan import ALL_KINDS, APPLICATION_KINDS, DEVICE_KINDS, LINK_KINDS, PROCESS_KINDS, PROXY_KINDS, Plan, load
from nccl_tests import possible
from nccl_tests.possible import Shape
from nccl_tests.progress import ABSENT, slots_of
from nccl_tests.runs import sizes_of

ONE_PROCESS = Shape(1, 1, 8, True)
THREADS = Shape(1, 4, 2, True)
PROCESSES = Shape(8, 1, 1, True)
GPUS = Shape(1, 1, 8, False)
DEMO = os.path.join(paths.ROOT, "test", "support", "faults", "plans", "demo")


def plan(workload=None, fault=None, **fields):
    document = dict({"name": "x", "title": "x", "workload": workload or {}}, **fields)
    if fault:
        document.update(faults=[fault], expect={"class": "H3", "ranks": [3]})
    return Plan(document, "plan.json")


FROZEN = {"kind": "freeze_channel", "rank": 3, "channel": 1}


class PossibleTest(unittest.TestCase):
    def possible_kinds(self, shape):
        return {kind for kind in ALL_KINDS if possible.why_not_fault(kind, shape) is None}

    def test_every_kind_is_possible_or_has_a_reason(self):
        for shape in (ONE_PROCESS, THREADS, PROCESSES, GPUS):
            for kind in ALL_KINDS:
                reason = possible.why_not_fault(kind, shape)
                self.assertTrue(reason is None or len(reason) > 20, kind)

    def test_one_process_suffers_faults_of_its_gpus_only(self):
        self.assertEqual(self.possible_kinds(ONE_PROCESS), set(DEVICE_KINDS))
        self.assertEqual(self.possible_kinds(THREADS), set(DEVICE_KINDS))

    def test_processes_suffer_faults_of_processes_too(self):
        self.assertEqual(self.possible_kinds(PROCESSES), set(DEVICE_KINDS) | set(PROCESS_KINDS) | set(PROXY_KINDS))

    def test_a_real_gpu_cannot_be_told_to_fail(self):
        self.assertEqual(self.possible_kinds(GPUS), set())
        self.assertEqual(self.possible_kinds(Shape(8, 1, 1, False)), set(PROCESS_KINDS) | set(PROXY_KINDS))

    def test_what_the_application_does_and_links_are_never_possible(self):
        for kind in set(APPLICATION_KINDS) | set(LINK_KINDS):
            self.assertIsNotNone(possible.why_not_fault(kind, PROCESSES))

    def test_a_plan_is_refused_with_the_field(self):
        for document, shape, field in (
                (plan(fault={"kind": "skip", "rank": 3}), ONE_PROCESS, "faults[0].kind: skip"),
                (plan(fault={"kind": "sigstop", "rank": 3}), ONE_PROCESS, "faults[0].kind: sigstop"),
                (plan(fault=FROZEN), GPUS, "faults[0].kind: freeze_channel"),
                (plan({"tp": 2, "pp": 2, "dp": 2}), ONE_PROCESS, "workload.tp"),
                (plan({"irregular": True}), ONE_PROCESS, "workload.irregular"),
                (plan({"operation": "mix"}), ONE_PROCESS, "workload.operation"),
                (plan({"check": 1}), ONE_PROCESS, "workload.check"),
                (plan(ranks=4), ONE_PROCESS, "ranks: the plan has 4")):
            self.assertTrue(any(line.startswith(field) for line in possible.refusals(document, shape)), field)
        self.assertEqual(possible.refusals(plan(fault=FROZEN), ONE_PROCESS), [])
        self.assertEqual(possible.refusals(plan({"check": 1}), GPUS), [])

    def test_the_demo_s_faults_of_gpus_can_be_planted_and_the_others_are_refused(self):
        refused = {name: possible.refusals(load(os.path.join(DEMO, name + ".json")), ONE_PROCESS) for name in ("h1", "h2", "h3", "s1", "s2", "s3")}
        self.assertEqual({name for name, lines in refused.items() if not lines}, {"h3", "s1"})

    def test_the_workload_becomes_a_command_line(self):
        document = plan({"operation": "allgather", "bytes_min": "64K", "bytes_max": "1M", "factor": 4, "iterations": 7, "compute_ms": 10})
        self.assertEqual(possible.program(document), "all_gather_perf")
        arguments = possible.arguments(document, THREADS, check=False)
        self.assertEqual(arguments[:6], ["-t", "4", "-g", "2", "-c", "0"])
        options = dict(zip(arguments[::2], arguments[1::2]))
        self.assertEqual((options["-b"], options["-e"], options["-f"], options["-n"]), ("64K", "1M", "4", "7"))
        self.assertEqual(possible.without_meaning(document), ["compute_ms"])
        self.assertEqual(sizes_of(arguments), [65536, 262144, 1048576])

    def test_a_run_with_a_fault_goes_on_at_one_size_until_it_is_ended(self):
        arguments = possible.arguments(plan({"bytes_min": "64K", "iterations": 7}, FROZEN), ONE_PROCESS, check=False)
        options = dict(zip(arguments[::2], arguments[1::2]))
        self.assertEqual((options["-b"], options["-e"]), ("64K", "64K"))
        self.assertGreater(int(options["-n"]), 1e8)
        self.assertNotIn("-z", options)  # hosts run ahead of their GPUs, as in training


    def test_a_slow_gpu_may_be_slow_in_its_transfers(self):
        document = load(os.path.join(DEMO, "s1.json"))
        self.assertIn("S2 of the slow GPU is right", possible.adapt_expectation(document))
        self.assertEqual((document.expect.classes, document.expect.ranks), (("S1", "S2"), frozenset({6})))
        for name in ("h3", "healthy"):
            document = load(os.path.join(DEMO, name + ".json"))
            before = document.expect
            self.assertIsNone(possible.adapt_expectation(document))
            self.assertEqual(document.expect, before)


def rank_status(rank, completed, p2p_completed=0):
    return {"rank": rank, "pid": 100 + rank, "gpu": rank, "up": True, "entered": completed + 2, "completed": completed,
            "p2p": {"in_flight": 1 if p2p_completed else 0, "completed": p2p_completed}}


class ProgressTest(unittest.TestCase):
    def test_progress_is_that_of_the_communicator_with_all_ranks(self):
        status = {"communicators": [{"rank_count": 2, "ranks": [rank_status(0, 99), rank_status(1, 99)]},
                                    {"rank_count": 3, "ranks": [rank_status(0, 5), rank_status(2, 6)]}]}
        slots = slots_of(status, 3)
        self.assertEqual((slots[0].completed_round, slots[0].entered_round, slots[0].pid, slots[0].gpu), (5, 7, 100, 0))
        self.assertEqual(slots[1], ABSENT)
        self.assertEqual(slots[2].completed_round, 6)

    def test_send_and_recv_count_as_progress(self):
        slots = slots_of({"communicators": [{"rank_count": 2, "ranks": [rank_status(0, 0, 40), rank_status(1, 0, 41)]}]}, 2)
        self.assertEqual([slot.completed_round for slot in slots], [40, 41])
        self.assertGreater(slots[0].entered_round, slots[0].completed_round)

    def test_before_anything_was_heard_everybody_is_absent(self):
        self.assertEqual(slots_of({"communicators": []}, 2), [ABSENT, ABSENT])


if __name__ == "__main__":
    unittest.main()
