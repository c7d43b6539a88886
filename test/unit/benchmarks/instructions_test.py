import os
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "benchmarks", "overhead"))
import instructions  # noqa: E402

BLOCK = """# callgrind format
version: 1
events: Ir

ob=(1) /lib/libnccl.so.2
fl=(1) ???
fn=(1) ncclDevFunc_SendRecv()
0 100
cob=(2) /lib/libc.so.6
cfn=(2) memcpy
calls=3 0
0 5000
+1 20

ob=(2)
fn=(2)
0 7
fn=(3) pthread_mutex_lock@@GLIBC_2.2.5
0 1000

ob=(3) /build/bin/ccld-bench-operations
fn=(4) hand_over
0 900

totals: 7027
"""
PROBE = "ob=(1) /lib/libnccl.so.2\nfn=(1) ccld::probe::DiagnosticThread::run\n0 555\n\ntotals: 555\n"


class Instructions(unittest.TestCase):
    def read(self, *texts):
        with tempfile.TemporaryDirectory() as folder:
            for number, text in enumerate(texts):
                with open(os.path.join(folder, "out-%02d" % number), "w") as file:
                    file.write(text)
            return instructions.read_counts(os.path.join(folder, "out"))

    def test_counts_what_functions_do_themselves_and_not_what_they_call(self):
        self.assertEqual(self.read(BLOCK)["block"], 100 + 20 + 7)

    def test_leaves_out_the_benchmark_and_functions_that_wait(self):
        self.assertEqual(sum(self.read(BLOCK).values()), 127)

    def test_the_probes_own_threads_are_not_in_the_way_of_training(self):
        counts = self.read(BLOCK, PROBE)
        self.assertEqual(counts["probe"], 555)
        self.assertEqual(instructions.of_training(counts), 127)

    def test_a_thread_that_did_nothing_is_not_there(self):
        self.assertEqual(self.read("totals: 0\n"), {})


if __name__ == "__main__":
    unittest.main()
