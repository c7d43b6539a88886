#!/usr/bin/env python3
"""Tests of what the first part finds out, with processes that are not there."""
import sys
import types
import unittest
import unittest.mock

sys.dont_write_bytecode = True
import paths  # noqa: E402,F401

from gpu_verify import environment  # noqa: E402
from gpu_verify.errors import VerifyError  # noqa: E402


def processes(answers):
    """A RanksProcess whose answer depends on the transport: a list of wrong values, or an error."""
    class Process:
        def __init__(self, layout, variant, ranks, frames, more, allowance):
            self.answer = answers["host" if layout.transport else "direct"]

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def ask(self, command, timeout_s):
            if isinstance(self.answer, Exception):
                raise self.answer
            return {"wrong": self.answer}
    return Process


def choose(answers):
    layout = types.SimpleNamespace(transport={})
    with unittest.mock.patch.object(environment, "RanksProcess", processes(answers)):
        name, reasons = environment.choose_transport(layout, "frames", None)
    return name, reasons, layout.transport


class EnvironmentTest(unittest.TestCase):
    def test_direct_pointers_are_taken_where_they_work(self):
        self.assertEqual(choose({"direct": [], "host": VerifyError("not asked")}), ("direct pointers", [], {}))

    def test_host_memory_is_taken_where_direct_pointers_hang_or_give_wrong_values(self):
        for failure in (VerifyError("no answer in time"), ["rank 1: element 0 is 3, expected 4"]):
            name, reasons, transport = choose({"direct": failure, "host": []})
            self.assertEqual((name, transport), ("shared host memory", {"NCCL_P2P_DISABLE": "1"}))
            self.assertEqual(len(reasons), 1)
            self.assertIn("direct pointers: ", reasons[0])

    def test_without_either_the_other_parts_still_run(self):
        name, reasons, transport = choose({"direct": VerifyError("a"), "host": VerifyError("b")})
        self.assertEqual((name, reasons, transport), ("none", ["direct pointers: a", "shared host memory: b"], {}))

    MACHINE = {"cores": 16, "shm_free_bytes": 64 << 30, "locked_memory_max_bytes": None}

    def test_missing_tools_are_named_and_no_problem(self):
        result = environment.judge({"device": "H200"}, "direct pointers", [], self.MACHINE, {"compute-sanitizer": None, "torch": True})
        self.assertEqual((result.status, result.summary), ("passed", "H200; data by direct pointers; without compute-sanitizer"))

    def test_ranks_that_cannot_exchange_data_and_a_small_shm_are_problems(self):
        result = environment.judge({"device": "H200"}, "none", ["direct pointers: a"], dict(self.MACHINE, shm_free_bytes=64 << 20), {})
        self.assertEqual(result.problems, ["ranks of one process cannot exchange data: direct pointers: a", "/dev/shm has 64 MiB, frames may need 256"])


if __name__ == "__main__":
    unittest.main()
