"""What nccl-tests-faults says about numbers, exit statuses and tables: the stand-in misbehaves in one way at a time."""
import unittest

import stand_in
from stand_in import Tool


def healthy(how=None, *more):
    arguments = ["--binary", "all_reduce_perf", "--ranks", "2"] + list(more)
    return Tool(*arguments, *(["--env", "CCLD_STAND_IN_BREAK=" + how] if how else []))


class NumbersTest(unittest.TestCase):
    def trouble(self, how, *words):
        run = healthy(how)
        self.assertEqual(run.status, 1, run)
        self.assertFalse(run.runs[0]["right"])
        for word in words:
            self.assertTrue(any(word in line for line in run.runs[0]["troubles"]), "%s not in %s" % (word, run.runs[0]["troubles"]))

    def test_a_good_run_is_right_and_its_table_is_in_the_report(self):
        for shape in ((), ("--threads", "2")):
            run = healthy(None, *shape)
            self.assertEqual(run.status, 0, run)
            self.assertEqual([row["size"] for row in run.runs[0]["rows"]], [65536, 262144, 1048576])
            self.assertIsNone(run.runs[0]["rows"][0]["out_of_place"]["wrong"])
            self.assertEqual(run.left_behind, set())

    def test_a_wrong_number_is_reported(self):
        self.trouble("wrong", "3 wrong values of", "out of bounds values", "ended with status 1")

    def test_a_bandwidth_that_cannot_be_is_reported(self):
        self.trouble("bandwidth", "but size by time is")

    def test_a_binary_that_fails_is_reported(self):
        self.trouble("status", "all_reduce_perf ended with status 1")
        self.trouble("cuda", "Test CUDA failure", "ended with status 1")

    def test_a_table_that_cannot_be_read_is_reported_with_its_line(self):
        self.trouble("garbage", "the output cannot be read: line 12 cannot be read: this is no table")

    def test_an_output_that_ends_early_is_reported(self):
        self.trouble("short", "the output ends without")

    def test_looking_at_results_is_refused_on_the_cpu_device(self):
        run = healthy(None, "--check", "1")
        self.assertEqual(run.status, 2, run)
        self.assertIn("do not run on the CPU device", run.errors)

    def test_a_folder_without_binaries_is_refused(self):
        run = Tool("--dir", "/usr/share")
        self.assertEqual(run.status, 2, run)
        self.assertIn("no binary of nccl-tests", run.errors)


if __name__ == "__main__":
    stand_in.main()
