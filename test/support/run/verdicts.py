"""The verdicts of the decision service, as they come in, and whether they are right.

Right means: there is exactly one incident, also counting those that resolved themselves, it was reported after the fault was planted, it is
open and confirmed, its class is the planted one (or one of them), its communicator has the expected name if the plan has one, and it names whom it should name:
  - ranks at fault: the ranks of the culprits are exactly these;
  - a link at fault (sender, receiver): every culprit's rank is an end of the link, and at least one culprit names the edge, that
    is, its peer is the other end; where a cut between two nodes takes several edges, naming one of them is enough;
  - both (S3): the ranks at fault are all among the culprits, every other culprit is an end of the link, and the edge is named.

On a machine that does other work, too (`machine_is_busy`), threads may stand still for want of a processor. A verdict that says just that is
about the machine, and does not count.
"""
import json
from datetime import datetime


class VerdictFile:
    """Follows the JSON lines that `ccld serve --verdicts` writes."""

    def __init__(self, path):
        self._path = path
        self._offset = 0
        self.lines = []
        self.machine_is_busy = lambda: False

    def poll(self):
        """Reads what is new and returns it."""
        try:
            with open(self._path, "rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return []
        complete = data[:data.rfind(b"\n") + 1]
        self._offset += len(complete)
        new = [json.loads(line) for line in complete.splitlines() if line.strip()]
        self.lines += new
        return new

    def incidents(self):
        """Latest verdict of each incident, in order of appearance."""
        latest = {}
        for verdict in self.lines:
            latest[verdict["incident"]] = verdict
        return [verdict for verdict in latest.values() if not (lacks_processors(verdict) and self.machine_is_busy())]


def realtime_of(text):
    """Seconds since the epoch of "2026-01-31T12:00:00.123Z"; None for null."""
    return None if text is None else datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def culprit_ranks(verdict):
    return {culprit["rank"] for culprit in verdict.get("culprits", [])}


def lacks_processors(verdict):
    """A standstill of which it says that those who would end it get no processor."""
    culprits = verdict.get("culprits", [])
    return verdict["class"].startswith("H") and bool(culprits) and all(culprit.get("condition") == "processors_short" for culprit in culprits)


def is_confirmed(verdict):
    return verdict["state"] == "confirmed"


def is_located(verdict):
    return bool(verdict.get("culprits"))


def names_whom_it_should(verdict, expect):
    ranks = culprit_ranks(verdict)
    if not expect.links:
        return ranks == expect.ranks
    edges = [{culprit["rank"], culprit.get("peer")} for culprit in verdict.get("culprits", [])]
    edge_named = any(set(link) in edges for link in expect.links)
    return edge_named and expect.ranks <= ranks and ranks <= expect.ranks.union(*expect.links)


def why_wrong(verdicts, expect, planted_realtime):
    """None if the verdicts are right for a fault planted at that moment (seconds since the epoch), otherwise one line."""
    early = [verdict for verdict in verdicts.incidents() if realtime_of(verdict["suspected_time"] or verdict["time"]) < planted_realtime]
    if early:
        return "an alarm before anything was planted: %s" % describe(early[0])
    incidents = verdicts.incidents()
    if not incidents:
        return "no verdict"
    if len(incidents) > 1:
        return "%d incidents for one fault: %s" % (len(incidents), "; ".join(map(describe, incidents)))
    verdict = incidents[0]
    if verdict["state"] == "resolved":
        return "no verdict that lasts: %s" % describe(verdict)
    classes = expect.classes or (expect.fault_class,)
    if verdict["class"] not in classes:
        return "class %s instead of %s" % (verdict["class"], " or ".join(classes))
    if expect.comm_name and verdict.get("comm_name") != expect.comm_name:
        return "on communicator %s instead of %s" % (verdict.get("comm_name"), expect.comm_name)
    if not names_whom_it_should(verdict, expect):
        return "names %s" % describe(verdict)
    if not is_confirmed(verdict):
        return "never confirmed"
    return None


def describe(verdict):
    return "%s %s %s" % (verdict["class"], verdict["state"], "; ".join(map(describe_culprit, verdict.get("culprits", []))) or "nobody")


def describe_culprit(culprit):
    text = "rank %d" % culprit["rank"]
    if culprit.get("peer") is not None:
        text += " -> rank %d" % culprit["peer"]
    component = culprit.get("component", "unknown")
    if component != "unknown":
        text += " " + component
    channel = culprit.get("channel")
    if channel is not None:
        text += " channel %d" % channel
    return text
