import os
import struct
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__)))))
sys.path[:0] = [os.path.join(ROOT, "benchmarks", "sass"), os.path.join(ROOT, "benchmarks", "ptxas")]
import bars  # noqa: E402
import flow  # noqa: E402
import instruction as code  # noqa: E402
import line_table  # noqa: E402
import ways  # noqa: E402
from program import Function  # noqa: E402

ALWAYS, NEVER, UNLESS_P1 = 0x7, 0xF, 0x9


def word(opcode, predicate=ALWAYS, low=0, high=0):
    return struct.pack("<QQ", opcode | predicate << 12 | low, high)


def branch(words_on, predicate=ALWAYS, high=0x3800000):
    offset = 4 * words_on  # in words of four bytes
    low = (offset & 0xFF) << 16 | (offset >> 8 & (1 << 48) - 1) << 34 & (1 << 64) - 1
    return word(0x947, predicate, low, high | (offset >> 8 & (1 << 48) - 1) >> 30)


def function(*words):
    text = b"".join(words)
    instructions = [code.decode(text, at) for at in range(0, len(text), code.BYTES)]
    return Function("f", instructions, [()] * len(instructions), {})


class Instructions(unittest.TestCase):
    def kind(self, *arguments, **named):
        return code.decode(word(*arguments, **named), 0).kind

    def test_memory_operations_are_told_apart(self):
        self.assertEqual(self.kind(0x981), code.GLOBAL_LOAD)
        self.assertEqual(self.kind(0x386), code.GLOBAL_STORE)
        self.assertEqual(self.kind(0x984), code.SHARED_LOAD)
        self.assertEqual(self.kind(0x983), code.LOCAL_LOAD)
        self.assertEqual(self.kind(0x38C), code.ATOMIC)
        self.assertEqual(self.kind(0xB1D), code.BARRIER)

    def test_a_computation_with_the_same_low_bits_is_none(self):
        self.assertIsNone(self.kind(0x583))
        self.assertIsNone(self.kind(0x210))

    def test_a_fence_of_the_block_is_not_one_of_the_system(self):
        self.assertEqual(self.kind(0x992, high=0x1EC0000008000), code.BLOCK_FENCE)
        self.assertEqual(self.kind(0x992, high=0x4FEC000000B000), code.FENCE)

    def test_what_never_runs_touches_no_memory(self):
        self.assertIsNone(self.kind(0x984, predicate=NEVER))

    def test_padding_does_not_count(self):
        self.assertFalse(code.decode(word(0x918), 0).counts)

    def test_a_branch_goes_on_or_back_by_its_offset(self):
        self.assertEqual(code.decode(branch(3), 0).target, 64)
        self.assertEqual(code.decode(b"\0" * 48 + branch(-2), 48).target, 32)

    def test_a_branch_with_a_predicate_may_also_go_on(self):
        self.assertEqual(code.decode(branch(3), 0).flow, code.JUMP)
        self.assertEqual(code.decode(branch(3, UNLESS_P1), 0).flow, code.BRANCH)
        self.assertEqual(code.decode(branch(3, high=0x1000000), 0).flow, code.BRANCH)  # the second predicate

    def test_the_way_of_diverged_warps_is_not_followed(self):
        self.assertEqual(code.decode(branch(3, high=0xB800000), 0).flow, code.STEP)

    def test_a_jump_through_a_table_is_refused(self):
        with self.assertRaises(code.InstructionError):
            code.decode(word(0x949), 0)


class Ways(unittest.TestCase):
    ADD, LOAD, STORE, EXIT = word(0x210), word(0x981), word(0x986), word(0x94D)

    def way(self, graph, *stops):
        return graph.shortest([{graph.entry}] + [graph.nodes(lambda each, _, kind=kind: each.kind == kind) for kind in stops])

    def test_the_shortest_way_takes_the_branch(self):
        graph = flow.Graph({"f": function(self.ADD, branch(2, UNLESS_P1), self.ADD, self.ADD, self.LOAD, self.EXIT)}, "f", None)
        self.assertEqual(self.way(graph, code.GLOBAL_LOAD), [1, 4])

    def test_a_way_that_has_to_come_by_a_place_does(self):
        graph = flow.Graph({"f": function(branch(2, UNLESS_P1), self.STORE, self.ADD, self.LOAD, self.EXIT)}, "f", None)
        self.assertEqual(self.way(graph, code.GLOBAL_LOAD), [3])
        self.assertEqual(self.way(graph, code.GLOBAL_STORE, code.GLOBAL_LOAD), [1, 2, 3])

    def test_it_may_go_round_a_loop_for_that(self):
        graph = flow.Graph({"f": function(self.LOAD, branch(1, UNLESS_P1), branch(-3), self.STORE, self.EXIT)}, "f", None)
        self.assertEqual(self.way(graph, code.GLOBAL_LOAD, code.GLOBAL_STORE), [1, 2, 0, 1, 3])

    def test_there_may_be_none(self):
        graph = flow.Graph({"f": function(self.EXIT, self.LOAD)}, "f", None)
        self.assertIsNone(self.way(graph, code.GLOBAL_LOAD))

    def test_a_function_that_is_followed_comes_back_behind_its_call(self):
        caller, callee = function(word(0x943), self.LOAD, self.EXIT), function(self.STORE, word(0x950))
        caller.callees[0] = "g"
        graph = flow.Graph({"f": caller, "g": callee}, "f", lambda name: name == "g")
        self.assertEqual(flow.count(graph.instructions[node] for node in self.way(graph, code.GLOBAL_LOAD)),
                         dict(dict.fromkeys(("instructions",) + code.KINDS, 0), instructions=3, global_loads=1, global_stores=1))
        graph = flow.Graph({"f": caller, "g": callee}, "f", lambda name: False)
        self.assertEqual(self.way(graph, code.GLOBAL_LOAD), [1])


class LineTable(unittest.TestCase):
    HEAD = struct.pack("<BBbBB", 16, 1, -5, 14, 10) + bytes(9) + b"/src\0\0" + b"a.h\0\1\0\0" + b"b.h\0\1\0\0\0"

    def table(self, program):
        header = struct.pack("<I", len(self.HEAD)) + self.HEAD
        unit = struct.pack("<H", 2) + header + program
        return struct.pack("<I", len(unit)) + unit, len(unit) + 4 - len(program)

    def test_an_instruction_that_was_inlined_names_its_callers(self):
        set_address = b"\0\x09\2" + bytes(8)
        at_line_7 = b"\3\6\1"                      # 6 lines on from line 1
        inlined_in_row_1 = b"\0\3\x90\1\0"
        file_2_line_9 = b"\4\2\3\2\2\2\1"          # two instructions further
        data, at = self.table(set_address + at_line_7 + inlined_in_row_1 + file_2_line_9 + b"\0\1\1")
        rows = line_table.parse(data, {at + 3: "kernel"})
        caller = line_table.Position("/src/a.h", 7)
        self.assertEqual(rows, {"kernel": [(0, (caller,)), (32, (line_table.Position("/src/b.h", 9), caller))]})

    def test_another_version_is_refused(self):
        data, _ = self.table(b"")
        with self.assertRaises(line_table.LineTableError):
            line_table.parse(data[:4] + b"\5" + data[5:], {})


class Bars(unittest.TestCase):
    def row(self, **more):
        pristine = dict(dict.fromkeys(("instructions",) + code.KINDS, 0), instructions=100)
        patched = {kind: number + more.get(kind, 0) for kind, number in pristine.items()}
        return {"architecture": "sm_90", "case": "Ring LL", "part": ways.END, "thread": "any, not watched", "pristine": pristine, "patched": patched}

    def test_upstreams_own_instructions_miss_nothing(self):
        self.assertEqual(bars.missed([self.row()], []), [])

    def test_a_fence_more_is_missed_and_named(self):
        line, = bars.missed([self.row(fences=1)], [])
        self.assertIn("fences", line)
        self.assertIn("Ring LL", line)

    def test_a_hook_may_not_load_from_memory(self):
        hook = dict(dict.fromkeys(("instructions",) + code.KINDS, 0), architecture="sm_90", case="NVLS", hook="ccld_lane_posts", places=1)
        self.assertEqual(bars.missed([], [hook]), [])
        self.assertEqual(len(bars.missed([], [dict(hook, global_loads=1)])), 1)

    def test_a_hook_without_a_bar_is_missed(self):
        hook = dict(dict.fromkeys(("instructions",) + code.KINDS, 0), architecture="sm_90", case="NVLS", hook="ccld_new", places=1)
        self.assertEqual(len(bars.missed([], [hook])), 1)

    def test_a_way_that_is_not_there_is_missed(self):
        self.assertEqual(len(bars.missed([dict(self.row(), patched=None)], [])), 1)


if __name__ == "__main__":
    unittest.main()
