import unittest

import paths  # noqa: F401
import scoring
from faults.plan import Expectation

PLANTED, UNTIL = 1000.0, 1020.0
PIDS = {100 + rank: rank for rank in range(8)}


def expect(fault_class="H1", ranks=(), links=(), rank_components=(), link_components=(), comm_name="", candidates=False, directed=False):
    return Expectation(fault_class, frozenset(ranks), tuple(links), (fault_class,), frozenset(rank_components), frozenset(link_components),
                       comm_name, candidates, directed)


def moment(seconds):
    from datetime import datetime, timezone
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def culprit(rank, component, peer=None, pid=None):
    return {"rank": rank, "pid": 100 + rank if pid is None else pid, "peer": peer, "component": component}


def line(fault_class="H1", culprits=(), incident=1, state="confirmed", at=1003.0, suspected=1002.0, **more):
    return dict({"time": moment(at), "incident": incident, "class": fault_class, "state": state, "culprits": list(culprits), "candidates": [],
                 "rank_count": 8, "comm_name": None, "suspected_time": moment(suspected), "confirmed_time": moment(at),
                 "located_time": moment(suspected)}, **more)


def score(lines, wanted, layout=None):
    return scoring.score(lines, wanted, PLANTED, UNTIL, PIDS, layout)


RANK_5 = expect(ranks=[5], rank_components=["application"])
LINK = expect("S2", links=[(3, 4)], link_components=["link", "nic"])


class ScoreTest(unittest.TestCase):
    def test_the_right_verdict_is_right_in_everything_and_its_times_count_from_the_planting(self):
        result = score([line(culprits=[culprit(5, "application")])], RANK_5)
        self.assertTrue(scoring.is_right(result))
        self.assertEqual((result["suspect_ms"], result["confirm_ms"], result["locate_ms"]), (2000, 3000, 2000))

    def test_silence_is_not_detected(self):
        result = score([], RANK_5)
        self.assertFalse(result["detected"])
        self.assertEqual(result["said"], "nothing")

    def test_a_suspicion_alone_is_not_detected_and_no_false_alarm_either(self):
        result = score([line(culprits=[culprit(5, "application")], state="suspected")], RANK_5)
        self.assertFalse(result["detected"])
        self.assertEqual(result["false_alarms"], 0)

    def test_each_respect_is_judged_for_itself(self):
        self.assertEqual([score([line("H3", [culprit(5, "application")])], RANK_5)[aspect] for aspect in scoring.ASPECTS], [False, True, True])
        self.assertEqual([score([line("H1", [culprit(5, "gpu")])], RANK_5)[aspect] for aspect in scoring.ASPECTS], [True, True, False])

    def test_the_right_component_of_the_wrong_rank_is_not_right(self):
        self.assertFalse(score([line(culprits=[culprit(4, "application")])], RANK_5)["component_right"])

    def test_a_victim_named_beside_the_culprit_is_wrong(self):
        self.assertFalse(score([line(culprits=[culprit(5, "application"), culprit(4, "application")])], RANK_5)["rank_right"])

    def test_further_incidents_are_false_alarms_even_if_they_resolve(self):
        lines = [line(culprits=[culprit(5, "application")]), line("S1", [culprit(2, "gpu")], incident=2, state="resolved")]
        result = score(lines, RANK_5)
        self.assertEqual((result["false_alarms"], result["false_alarm_classes"]), (1, ["S1"]))
        self.assertFalse(scoring.is_right(result))

    def test_an_incident_from_before_the_planting_is_never_the_answer(self):
        result = score([line(culprits=[culprit(5, "application")], suspected=999.0)], RANK_5)
        self.assertFalse(result["detected"])
        self.assertEqual(result["false_alarms"], 1)

    def test_what_is_said_after_the_watch_does_not_count(self):
        lines = [line(culprits=[culprit(5, "application")]), line("H3", [culprit(1, "process")], incident=2, at=1021.0, suspected=1021.0)]
        self.assertTrue(scoring.is_right(score(lines, RANK_5)))

    def test_the_last_line_of_an_incident_counts(self):
        lines = [line(culprits=[culprit(5, "application")]), line(culprits=[culprit(4, "application")], at=1005.0)]
        self.assertFalse(score(lines, RANK_5)["rank_right"])


class LinkTest(unittest.TestCase):
    def test_an_end_of_the_link_with_the_other_end_as_peer_names_it(self):
        self.assertTrue(scoring.is_right(score([line("S2", [culprit(3, "link", peer=4)])], LINK)))
        self.assertTrue(scoring.is_right(score([line("S2", [culprit(4, "nic", peer=3)])], LINK)))

    def test_an_end_alone_or_another_edge_is_the_right_rank_and_not_the_right_component(self):
        for peer in (None, 2):
            result = score([line("S2", [culprit(3, "link", peer=peer)])], LINK)
            self.assertEqual((result["rank_right"], result["component_right"]), (True, False))

    def test_a_rank_elsewhere_is_wrong_also_beside_the_link(self):
        self.assertFalse(score([line("S2", [culprit(2, "link", peer=3)])], LINK)["rank_right"])
        self.assertFalse(score([line("S2", [culprit(3, "link", peer=4), culprit(6, "gpu")])], LINK)["rank_right"])

    def test_rank_and_link_are_both_asked_for_each_with_its_component(self):
        both = expect("S3", ranks=[1], links=[(3, 4)], rank_components=["gpu"], link_components=["link"])
        self.assertTrue(scoring.is_right(score([line("S3", [culprit(1, "gpu"), culprit(3, "link", peer=4)])], both)))
        self.assertFalse(score([line("S3", [culprit(3, "link", peer=4)])], both)["rank_right"])
        self.assertFalse(score([line("S3", [culprit(1, "link"), culprit(3, "link", peer=4)])], both)["component_right"])


class LayoutTest(unittest.TestCase):
    def test_ranks_of_a_smaller_communicator_are_known_by_their_processes(self):
        verdict = line(culprits=[culprit(1, "application", pid=105)], rank_count=2, comm_name="tp2")
        self.assertTrue(scoring.is_right(score([verdict], RANK_5)))
        verdict = line(culprits=[culprit(5, "application", pid=101)], rank_count=2, comm_name="tp0")
        self.assertFalse(score([verdict], RANK_5)["rank_right"])

    def test_the_communicator_at_fault_must_be_the_one_that_is_named(self):
        wanted = expect("H2", ranks=[5], rank_components=["application"], comm_name="dp3")
        self.assertFalse(score([line("H2", [culprit(1, "application", pid=105)], rank_count=2, comm_name="tp2")], wanted)["rank_right"])
        self.assertTrue(score([line("H2", [culprit(1, "application", pid=105)], rank_count=2, comm_name="dp3")], wanted)["rank_right"])

    def test_where_a_pair_cannot_be_told_apart_candidates_are_right_but_not_half_the_job(self):
        wanted = expect("H2", ranks=[5], rank_components=["application"], candidates=True)
        self.assertTrue(scoring.is_right(score([line("H2", candidates=[0, 1], rank_count=2)], wanted)))
        self.assertFalse(score([line("H2", candidates=list(range(6)))], wanted)["rank_right"])
        self.assertFalse(score([line("H2", candidates=[0, 1], rank_count=2)], RANK_5)["rank_right"])


class PipelineTest(unittest.TestCase):
    LAYOUT = {"tp": 1, "pp": 2, "dp": 4}
    FORWARD = expect("S2", links=[(0, 4), (1, 5), (2, 6), (3, 4), (3, 7)], link_components=["link", "nic"], directed=True)

    def verdict(self, sender, receiver, name, component="link"):
        # In the communicator of a pair the ranks are 0 and 1.
        return line("S2", [culprit(sender, component, peer=receiver, pid=100 + 4 * sender + int(name[2:]))], rank_count=2, comm_name=name)

    def test_any_pair_whose_transfers_cross_the_link_is_right(self):
        for name in ("pp0", "pp3"):
            self.assertTrue(scoring.is_right(score([self.verdict(0, 1, name)], self.FORWARD, self.LAYOUT)))
        self.assertTrue(scoring.is_right(score([self.verdict(0, 1, "pp1", "nic")], self.FORWARD, self.LAYOUT)))

    def test_the_ring_of_the_whole_job_that_crosses_it_is_right_too(self):
        self.assertTrue(scoring.is_right(score([line("S2", [culprit(3, "link", peer=4)], comm_name="world")], self.FORWARD, self.LAYOUT)))

    def test_several_of_the_pairs_named_together_are_right(self):
        culprits = [culprit(sender, "link", peer=sender + 4) for sender in (0, 1, 3)]
        self.assertTrue(scoring.is_right(score([line("S2", culprits, comm_name="world")], self.FORWARD, self.LAYOUT)))

    def test_the_other_direction_is_not_the_right_component(self):
        result = score([self.verdict(1, 0, "pp2")], self.FORWARD, self.LAYOUT)
        self.assertEqual((result["rank_right"], result["component_right"]), (True, False))
        both_ways = self.FORWARD._replace(directed=False)
        self.assertTrue(scoring.is_right(score([self.verdict(1, 0, "pp2")], both_ways, self.LAYOUT)))

    def test_the_peer_of_a_pair_is_known_by_the_name_of_its_communicator_only(self):
        self.assertFalse(score([self.verdict(0, 1, "pp0")], self.FORWARD)["component_right"])

    def test_a_link_to_a_rank_that_no_transfer_goes_to_is_wrong(self):
        verdict = line("S2", [culprit(2, "link", peer=7)], comm_name="world")
        self.assertEqual([score([verdict], self.FORWARD, self.LAYOUT)[aspect] for aspect in scoring.ASPECTS], [True, True, False])
        one_pair = expect("S2", links=[(1, 5)], link_components=["link"], directed=True)
        self.assertFalse(score([self.verdict(0, 1, "pp0")], one_pair, self.LAYOUT)["rank_right"])


class SummaryTest(unittest.TestCase):
    def row(self, fault_class, lines, wanted, suite="matrix", variant="skip"):
        return {"id": "x", "suite": suite, "fault_class": fault_class, "variant": variant, "rules": {"default": score(lines, wanted)}}

    def test_precision_and_recall_count_misses_confusions_and_false_alarms(self):
        right = self.row("H1", [line(culprits=[culprit(5, "application")])], RANK_5)
        missed = self.row("H1", [], RANK_5)
        confused = self.row("H2", [line("H1", [culprit(5, "application")])], expect("H2", ranks=[5], rank_components=["application"]))
        benign = {"id": "b", "suite": "benign", "fault_class": None, "variant": "ring", "healthy_s": 60.0,
                  "rules": {"default": scoring.score_benign([line("H1", [culprit(2, "gpu")], state="resolved")])}}
        summary = scoring.summarize([right, missed, confused, benign], "default")
        h1 = summary["classes"]["H1"]
        self.assertEqual((h1["cases"], h1["precision"], h1["recall"], h1["f1"]), (2, 0.3333, 0.5, 0.4))
        self.assertEqual((summary["cases"], summary["class_right"], summary["false_alarms"], summary["benign_minutes"]), (3, 1, 1, 1.0))
        self.assertEqual(summary["classes"]["S3"]["precision"], None)

    def test_each_bar_that_is_missed_is_named(self):
        rows = [self.row("H1", [line(culprits=[culprit(5, "gpu")], suspected=1006.0, at=1007.0)], RANK_5)]
        text = "\n".join(scoring.missed_bars(scoring.summarize(rows, "default"), rows))
        self.assertIn("component right: 0 of 1", text)
        self.assertIn("suspected after 6.0 s", text)
        self.assertNotIn("class right", text)

    def test_a_late_confirmation_misses_a_bar_only_if_there_was_hard_evidence(self):
        verdicts = [line(culprits=[culprit(5, "application")], at=1008.0)]
        self.assertEqual(scoring.missed_bars({"cases": 0, "false_alarms": 0}, [self.row("H1", verdicts, RANK_5)]), [])
        missed = scoring.missed_bars({"cases": 0, "false_alarms": 0}, [self.row("H1", verdicts, RANK_5, variant="killed")])
        self.assertIn("confirmed after 8.0 s", missed[0])

    def test_a_gpu_that_has_not_begun_could_be_busy_so_there_is_no_hard_evidence(self):
        wanted = expect("H3", ranks=[5], rank_components=["gpu"])._replace(classes=("H3", "H1"))
        for said, missed in (("H1", 0), ("H3", 1)):
            row = self.row("H3", [line(said, culprits=[culprit(5, "gpu")], at=1008.0)], wanted, variant="frozen_device")
            self.assertEqual(len(scoring.missed_bars({"cases": 0, "false_alarms": 0}, [row])), missed, said)

    def test_all_met_is_said_by_nothing(self):
        rows = [self.row("H1", [line(culprits=[culprit(5, "application")])], RANK_5)]
        self.assertEqual(scoring.missed_bars(scoring.summarize(rows, "default"), rows), [])


if __name__ == "__main__":
    unittest.main()
