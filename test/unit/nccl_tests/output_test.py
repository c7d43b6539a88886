import unittest

import paths  # noqa: F401
import samples
from nccl_tests.output import Device, Measure, OutputError, parse


class OutputTest(unittest.TestCase):
    def test_a_version_with_errors_instead_of_wrong_values_is_read(self):
        result = parse(samples.OLD)
        self.assertEqual([row.size for row in result.rows], [32768, 65536])
        self.assertEqual((result.rows[0].redop, result.rows[0].root), ("sum", None))
        self.assertEqual(result.rows[1].in_place, Measure(13.83, 4.74, 4.74, 0))
        self.assertEqual(result.devices[1], Device(1, 1320, "node-a", 1, "Some GPU 16GB"))
        self.assertTrue(result.finished and result.wrong_ok and result.bandwidth_ok)

    def test_a_column_that_is_missing_in_the_header_is_none(self):
        row = parse(samples.OLD_BLANK).rows[0]
        self.assertEqual((row.type, row.redop, row.root), ("float", None, 0))
        self.assertEqual(row.out_of_place.time_us, 13.57)

    def test_versions_2_13_to_2_16_are_read(self):
        result = parse(samples.V2_13)
        self.assertEqual((result.version, len(result.devices), len(result.rows)), (None, 4, 2))
        self.assertEqual(result.rows[1].root, -1)
        self.assertEqual(result.rows[1].out_of_place, Measure(41.5, 25.27, 37.9, 0))
        self.assertEqual(result.bandwidth, 19.0425)

    def test_results_that_nobody_looked_at_are_none(self):
        for row in parse(samples.UNCHECKED).rows:
            self.assertIsNone(row.out_of_place.wrong)
            self.assertIsNone(row.in_place.wrong)

    def test_version_2_17_says_its_version_and_its_wrong_values(self):
        result = parse(samples.WRONG)
        self.assertEqual(result.version, "2.17.2")
        self.assertEqual(result.rows[0].in_place.wrong, 96)
        self.assertEqual((result.wrong_total, result.wrong_ok), (1, False))

    def test_a_time_of_day_at_the_end_of_rows_is_no_measure(self):
        self.assertEqual(parse(samples.TIMESTAMPS).rows[0].in_place, Measure(41.1, 25.51, 25.51, 0))

    def test_statistics_of_iterations_are_left_alone(self):
        row = parse(samples.ITERATIONS).rows[0]
        self.assertEqual(row.out_of_place, Measure(41.5, 25.27, 25.27, 0))
        self.assertEqual(row.in_place, Measure(41.1, 25.51, 25.51, 0))

    def test_times_of_the_host_are_known_as_such(self):
        self.assertFalse(parse(samples.SEND_RECV).times_of_the_host)
        self.assertTrue(parse(samples.SEND_RECV.replace(" time", " cputime")).times_of_the_host)

    def test_a_failure_in_the_middle_of_a_row_is_a_failure(self):
        result = parse(samples.FAILED)
        self.assertEqual(len(result.failures), 2)
        self.assertIn("Test NCCL failure", result.failures[0])
        self.assertEqual(result.rows, [])
        self.assertFalse(result.finished)

    def test_a_row_without_its_end_is_left_alone(self):
        text = samples.V2_13[:samples.V2_13.index("   41.10")]
        self.assertEqual([row.size for row in parse(text).rows], [8])

    def test_words_of_nccl_between_the_rows_are_no_rows(self):
        text = samples.V2_13.replace("     1048576 ", "node-a:4711:4720 [0] NCCL WARN something\n     1048576 ")
        self.assertEqual(len(parse(text).rows), 2)

    def test_what_cannot_be_read_is_named_with_its_line(self):
        for broken, words in (
                (samples.V2_13.replace("     1048576 ", "this is no table\n     1048576 "), ("line 13", "this is no table")),
                (samples.V2_13.replace("25.27", "fast"), ("line 13", "algbw", "fast")),
                (samples.V2_13.replace("25.27", "nan"), ("line 13", "algbw", "nan")),
                (samples.V2_13.replace("   25.27   37.90      0", ""), ("line 13", "10 words")),
                (samples.V2_13.replace("      0\n", "      0 7 7\n"), ("line 12", "words")),
                (samples.V2_13.replace("busbw", "bandwidth"), ("line 10", "busbw")),
                (samples.V2_13.replace("size         count", "size         elements"), ("line 10", "does not begin")),
                (samples.V2_13.replace("#wrong     time   algbw   busbw #wrong", "#wrong"), ("line 10", "columns"))):
            with self.assertRaises(OutputError) as caught:
                parse(broken)
            for word in words:
                self.assertIn(word, str(caught.exception))

    def test_an_output_without_a_table_has_no_rows(self):
        result = parse("bash: all_reduce_perf: cannot execute\n")
        self.assertEqual((result.rows, result.finished), ([], False))


if __name__ == "__main__":
    unittest.main()
