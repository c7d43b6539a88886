import unittest
from collections import namedtuple

import paths  # noqa: F401
import drawing
import judging

Slot = namedtuple("Slot", "state completed_round wrong_results checked_results")
Start = namedtuple("Start", "keeps_history may_lose")
KEPT, LOST, FULL = Start(True, False), Start(False, False), Start(True, True)


def verdict_line(incident=1, run="a", revision=1, job="training", culprit=3, state="confirmed", fault_class="H1", second=10):
    at = "2026-01-31T12:00:%02d.000Z" % second
    return {"incident": incident, "run": run, "revision": revision, "job": job, "class": fault_class, "state": state, "time": at,
            "suspected_time": at, "confirmed_time": at, "located_time": at, "communicator": "a1", "comm_name": None, "rank_count": 8, "candidates": [],
            "culprits": [] if culprit is None else [{"rank": culprit, "peer": None, "component": "application", "pid": None}]}


PLANTED, UNTIL = 1769860805.0, 1769860900.0  # 12:00:05 of that day
PIDS = {100 + rank: rank for rank in range(8)}


def planted_document():
    for seed in range(1, 2000):
        document = drawing.draw(seed)
        if document["fault"] and document["fault"]["class"] == "H1" and document["plan"]["ranks"] == 8 and "tp" not in document["plan"]["workload"]:
            document["plan"]["expect"] = {"class": "H1", "ranks": [3], "rank_components": ["application"]}
            return document
    raise AssertionError


def healthy_document():
    return next(document for document in map(drawing.draw, range(1, 200)) if document["fault"] is None)


class VerdictTest(unittest.TestCase):
    def judge(self, *reported, document=None):
        lines = judging.lines_of_job(reported, "training")
        return judging.verdict(document or planted_document(), lines, PLANTED, UNTIL, PIDS, judging.alone(reported, "training"))

    def test_the_planted_rank_and_class_are_right(self):
        complaints, score = self.judge((KEPT, verdict_line()))
        self.assertEqual(complaints, [])
        self.assertEqual(score["confirm_ms"], 5000)

    def test_another_rank_another_class_and_silence_are_wrong(self):
        for reported in ([(KEPT, verdict_line(culprit=4))], [(KEPT, verdict_line(fault_class="H3"))], []):
            self.assertEqual(len(self.judge(*reported)[0]), 1)

    def test_an_incident_beside_the_right_one_is_a_complaint(self):
        complaints, _ = self.judge((KEPT, verdict_line()), (KEPT, verdict_line(incident=2, culprit=4)))
        self.assertIn("further incidents", complaints[0])

    def test_an_incident_of_before_the_planting_is_a_complaint(self):
        self.assertEqual(len(self.judge((KEPT, verdict_line()), (KEPT, verdict_line(incident=2, second=1)))[0]), 1)

    def test_the_same_cause_twice_is_a_complaint_unless_a_start_knew_nothing_of_the_other(self):
        twice = self.judge((KEPT, verdict_line()), (KEPT, verdict_line(incident=2)))[0]
        self.assertEqual(twice, ["2 incidents for one fault"])
        self.assertEqual(self.judge((LOST, verdict_line()), (KEPT, verdict_line(run="b")))[0], [])

    def test_what_a_start_without_a_history_says_must_be_right_too(self):
        self.assertEqual(len(self.judge((LOST, verdict_line(culprit=4)), (KEPT, verdict_line(run="b")))[0]), 1)

    def test_without_a_fault_every_incident_of_the_job_is_a_complaint_and_those_of_strangers_are_not(self):
        healthy = healthy_document()
        self.assertEqual(self.judge((KEPT, verdict_line(job="stranger")), document=healthy)[0], [])
        self.assertEqual(len(self.judge((KEPT, verdict_line(state="resolved")), document=healthy)[0]), 1)


class CommunicatorsTest(unittest.TestCase):
    def test_what_a_young_service_does_not_know_of_a_communicator_an_earlier_one_told(self):
        line = dict(verdict_line(), comm_name=None, rank_count=1)
        self.assertEqual(judging.lines_of_job([(KEPT, line)], "training", {"a1": ("tp0", 2)})[0]["comm_name"], "tp0")
        self.assertEqual(judging.lines_of_job([(KEPT, line)], "training", {"b2": ("tp1", 2)})[0]["rank_count"], 1)


class TrainingTest(unittest.TestCase):
    def test_all_rounds_on_all_ranks_with_right_results(self):
        fine = Slot("finished", 50, 0, 50)
        self.assertEqual(judging.training([0, 0], [fine, fine], 50, True), [])
        for status, slot in ((1, fine), (0, Slot("failed", 50, 0, 50)), (0, Slot("finished", 49, 0, 49)), (3, Slot("finished", 50, 1, 50)),
                             (0, Slot("finished", 50, 1, 50))):
            self.assertEqual(len(judging.training([0, status], [fine, slot], 50, True)), 1)

    def test_a_job_in_which_nothing_was_looked_at_is_not_right(self):
        self.assertEqual(len(judging.training([0], [Slot("finished", 50, 0, 0)], 50, True)), 1)


class RevisionsTest(unittest.TestCase):
    def complaints(self, reported, stored):
        return judging.revisions(reported, {(line["incident"], line["revision"]): line for line in stored})[0]

    def test_every_line_is_stored_once_and_as_it_was(self):
        lines = [verdict_line(revision=1), verdict_line(revision=2, culprit=4)]
        self.assertEqual(self.complaints([(KEPT, line) for line in lines], lines), [])
        self.assertEqual(self.complaints([(KEPT, line) for line in lines], lines[:1]), ["revisions lost: 1"])
        self.assertEqual(self.complaints([(KEPT, lines[0]), (KEPT, lines[0])], lines), ["revisions doubled: 1"])
        self.assertEqual(self.complaints([(KEPT, verdict_line(culprit=5))], lines[:1]), ["revisions differing: 1"])
        self.assertEqual(self.complaints([], lines[1:]), ["revisions missing: 1"])

    def test_a_start_without_a_history_stores_nothing_and_one_killed_on_a_full_disk_may_lose(self):
        self.assertEqual(self.complaints([(LOST, verdict_line())], []), [])
        self.assertEqual(self.complaints([(FULL, verdict_line())], []), [])


class ServiceTest(unittest.TestCase):
    @staticmethod
    def sample(rss_mb=50, threads=20, files=40):
        return {"rss_kb": rss_mb * 1024, "threads": threads, "files": files}

    def test_memory_is_bounded_and_files_and_threads_do_not_grow_over_restarts(self):
        first = self.sample()
        self.assertEqual(judging.service([[first], [self.sample(rss_mb=60, files=50)]], None), [])
        self.assertEqual(len(judging.service([[first], [self.sample(rss_mb=1000), first]], None)), 1)
        self.assertEqual(len(judging.service([[first], [self.sample(rss_mb=200)]], 160)), 1)
        self.assertEqual(len(judging.service([[first], [self.sample(threads=40)]], None)), 1)
        self.assertEqual(len(judging.service([[first], [self.sample(files=400)]], None)), 1)


class SpeedTest(unittest.TestCase):
    def test_it_is_that_of_the_events_to_that_of_calm(self):
        windows = [{"what": "calm", "seconds": 2, "rounds": 40}, {"what": "kill", "seconds": 4, "rounds": 76}, {"what": "calm", "seconds": 2, "rounds": 40}]
        complaints, rate, ratio = judging.speed(windows)
        self.assertEqual((complaints, rate), ([], 20))
        self.assertAlmostEqual(ratio, 0.95)

    def test_a_job_that_stands_still_is_a_complaint_and_too_short_a_look_is_none(self):
        calm = {"what": "calm", "seconds": 4, "rounds": 80}
        self.assertEqual(len(judging.speed([calm, {"what": "stop", "seconds": 4, "rounds": 1}])[0]), 1)
        self.assertEqual(judging.speed([calm, {"what": "stop", "seconds": 3, "rounds": 0}])[2], None)


if __name__ == "__main__":
    unittest.main()
