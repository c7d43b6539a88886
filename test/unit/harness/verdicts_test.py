import json
import os
import tempfile
import unittest

import paths  # noqa: F401
from faults.plan import Expectation
from run.verdicts import VerdictFile, describe, why_wrong

PLANTED = 1000.0
AFTER = "1970-01-01T00:16:45.500Z"   # 1005.5 s
BEFORE = "1970-01-01T00:16:39.000Z"  # 999 s


def verdict(incident=1, fault_class="H1", state="confirmed", culprits=({"rank": 3},), time=AFTER):
    return {"incident": incident, "class": fault_class, "state": state, "culprits": list(culprits), "time": time, "suspected_time": time}


class Lines:
    """Stands for a verdict file that was read."""
    def __init__(self, *verdicts):
        self._incidents = {each["incident"]: each for each in verdicts}

    def incidents(self):
        return list(self._incidents.values())


RANK = Expectation("H1", frozenset({3}), ())
LINK = Expectation("S2", frozenset(), ((3, 4),))
BOTH = Expectation("S3", frozenset({1}), ((3, 4),))
EDGE = {"rank": 3, "peer": 4, "component": "link", "channel": 0}


class JudgeTest(unittest.TestCase):
    def right(self, expect, *verdicts):
        self.assertIsNone(why_wrong(Lines(*verdicts), expect, PLANTED))

    def wrong(self, expect, word, *verdicts):
        self.assertIn(word, why_wrong(Lines(*verdicts), expect, PLANTED))

    def test_the_planted_class_and_exactly_the_planted_ranks_are_right(self):
        self.right(RANK, verdict())
        self.wrong(RANK, "class H3", verdict(fault_class="H3"))
        self.wrong(RANK, "rank 2", verdict(culprits=[{"rank": 2}]))
        self.wrong(RANK, "rank 2", verdict(culprits=[{"rank": 3}, {"rank": 2}]))
        self.wrong(RANK, "nobody", verdict(culprits=[]))

    def test_any_of_several_expected_classes_is_right(self):
        either = RANK._replace(classes=("H1", "H3"))
        self.right(either, verdict())
        self.right(either, verdict(fault_class="H3"))
        self.wrong(either, "class S1 instead of H1 or H3", verdict(fault_class="S1"))

    def test_an_expected_communicator_has_to_be_named(self):
        named = RANK._replace(comm_name="DP")
        self.right(named, dict(verdict(), comm_name="DP"))
        self.wrong(named, "communicator PP0 instead of DP", dict(verdict(), comm_name="PP0"))
        self.wrong(named, "communicator None", verdict())

    def test_silence_suspicion_and_alarms_before_planting_are_wrong(self):
        self.wrong(RANK, "no verdict")
        self.wrong(RANK, "never confirmed", verdict(state="suspected"))
        self.wrong(RANK, "before anything was planted", verdict(time=BEFORE))

    def test_a_second_incident_is_wrong_also_when_it_resolved_itself(self):
        self.wrong(RANK, "2 incidents", verdict(), verdict(incident=2, fault_class="S1"))
        self.wrong(RANK, "2 incidents", verdict(), verdict(incident=2, state="resolved"))
        self.wrong(RANK, "lasts", verdict(state="resolved"))

    def test_a_link_is_named_by_either_end_with_the_other_as_peer(self):
        self.right(LINK, verdict(fault_class="S2", culprits=[EDGE]))
        self.right(LINK, verdict(fault_class="S2", culprits=[{"rank": 4, "peer": 3}]))
        self.wrong(LINK, "names", verdict(fault_class="S2", culprits=[{"rank": 3}]))
        self.wrong(LINK, "names", verdict(fault_class="S2", culprits=[{"rank": 3, "peer": 2}]))
        self.wrong(LINK, "names", verdict(fault_class="S2", culprits=[EDGE, {"rank": 7, "peer": 0}]))

    def test_of_several_cut_edges_one_must_be_named(self):
        cut = Expectation("H3", frozenset(), ((3, 4), (7, 0)))
        self.right(cut, verdict(fault_class="H3", culprits=[{"rank": 7, "peer": 0}]))
        self.wrong(cut, "names", verdict(fault_class="H3", culprits=[{"rank": 7, "peer": 4}]))

    def test_a_mixed_fault_needs_the_rank_and_the_edge(self):
        self.right(BOTH, verdict(fault_class="S3", culprits=[{"rank": 1, "peer": None}, EDGE]))
        self.wrong(BOTH, "names", verdict(fault_class="S3", culprits=[EDGE]))
        self.wrong(BOTH, "names", verdict(fault_class="S3", culprits=[{"rank": 1}]))

    def test_a_culprit_reads_as_a_sentence(self):
        self.assertEqual(describe(verdict(fault_class="S2", culprits=[EDGE])), "S2 confirmed rank 3 -> rank 4 link channel 0")


class FileTest(unittest.TestCase):
    def test_lines_are_taken_when_they_are_complete_and_the_latest_of_an_incident_counts(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "verdicts")
            followed = VerdictFile(path)
            self.assertEqual(followed.poll(), [])
            first, second = json.dumps(verdict(state="suspected")), json.dumps(verdict())
            with open(path, "w") as file:
                file.write(first + "\n" + second[:10])
                file.flush()
                self.assertEqual(len(followed.poll()), 1)
                file.write(second[10:] + "\n")
                file.flush()
                self.assertEqual(len(followed.poll()), 1)
            self.assertEqual([each["state"] for each in followed.incidents()], ["confirmed"])

    def test_what_is_said_of_a_busy_machine_does_not_count(self):
        short, stuck = {"rank": 1, "condition": "processors_short"}, {"rank": 2, "condition": "proxy_stuck"}
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "verdicts")
            followed = VerdictFile(path)
            with open(path, "w") as file:
                for line in (verdict(1, "H3", culprits=[short]), verdict(2, "H3", culprits=[short, stuck]), verdict(3, "S1", culprits=[short])):
                    file.write(json.dumps(line) + "\n")
            followed.poll()
            self.assertEqual([each["incident"] for each in followed.incidents()], [1, 2, 3])
            followed.machine_is_busy = lambda: True
            self.assertEqual([each["incident"] for each in followed.incidents()], [2, 3])


if __name__ == "__main__":
    unittest.main()
