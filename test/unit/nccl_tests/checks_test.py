import unittest

import paths  # noqa: F401
import samples
from nccl_tests.checks import Asked, troubles, wrong_values
from nccl_tests.output import parse


def asked(program="all_reduce_perf", ranks=2, sizes=None, check=True):
    return Asked(program, ranks, sizes, check)


class ChecksTest(unittest.TestCase):
    def fine(self, text, **what):
        self.assertEqual(troubles(parse(text), asked(**what)), [])

    def trouble(self, word, text, **what):
        found = troubles(parse(text), asked(**what))
        self.assertTrue(any(word in line for line in found), "%s not in %s" % (word, found))

    def test_good_tables_of_all_versions_are_fine(self):
        self.fine(samples.OLD, sizes=[32768, 65536])
        self.fine(samples.OLD_BLANK, program="broadcast_perf")
        self.fine(samples.V2_13, ranks=4)
        self.fine(samples.TIMESTAMPS)
        self.fine(samples.ITERATIONS)
        self.fine(samples.SEND_RECV, program="sendrecv_perf")

    def test_results_that_nobody_looked_at_are_fine_only_if_nobody_was_asked_to(self):
        self.fine(samples.UNCHECKED, ranks=4, check=False)
        self.trouble("were not looked at", samples.UNCHECKED, ranks=4)

    def test_wrong_values_are_named_with_their_place(self):
        self.trouble("96 wrong values of 128 (1024 bytes, in place)", samples.WRONG, program="all_gather_perf")
        self.trouble("out of bounds values: 1", samples.WRONG, program="all_gather_perf")
        self.assertEqual(len(wrong_values(parse(samples.WRONG))), 1)

    def test_a_bandwidth_that_is_not_size_by_time_is_named(self):
        self.trouble("algbw is 75.81", samples.V2_13.replace("25.27", "75.81"), ranks=4)
        self.trouble("busbw is 25.27 GB/s, but algbw of 4 ranks makes it 37.9", samples.V2_13.replace("37.90", "25.27"), ranks=4)

    def test_a_bus_bandwidth_of_another_number_of_ranks_is_named(self):
        self.trouble("busbw", samples.V2_13, ranks=2)

    def test_times_of_the_host_do_not_make_bandwidths(self):
        text = samples.SEND_RECV.replace(" time", " cputime").replace("40960", "   17")
        self.fine(text, program="sendrecv_perf")

    def test_an_average_that_is_not_the_mean_of_the_table_is_named(self):
        self.trouble("mean of the table is 13.13", samples.SEND_RECV.replace("13.1321", "19.2"), program="sendrecv_perf")

    def test_a_bandwidth_below_what_the_user_asked_for_is_named(self):
        self.trouble("NCCL_TESTS_MIN_BW", samples.SEND_RECV.replace("13.1321", "13.1321 FAILED"), program="sendrecv_perf")

    def test_an_operation_of_unknown_bandwidths_is_not_compared(self):
        self.fine(samples.SEND_RECV.replace("13.11   13.11", "13.11   99.00").replace("13.1321", "56.08"), program="hypercube_perf")

    def test_missing_rows_and_missing_last_lines_are_named(self):
        self.trouble("2 rows for 3 sizes", samples.V2_13, ranks=4, sizes=[8, 1024, 1048576])
        self.trouble("the output ends without", samples.V2_13[:samples.V2_13.index("# Out")], ranks=4)
        self.trouble("the table has no rows", "# nothing\n")

    def test_a_time_of_nothing_is_impossible(self):
        self.trouble("a time of 0 us", samples.V2_13.replace("41.50", " 0.00"), ranks=4)

    def test_what_the_binary_says_of_its_failure_is_passed_on(self):
        self.trouble("Test NCCL failure", samples.FAILED)


if __name__ == "__main__":
    unittest.main()
