"""What the verdicts of one case are worth, and the sums over all cases. Pure functions over verdict lines (decision/report/README.md).

The answer of a case is the incident that is confirmed and open at the end (if there are several, the one that is right in most respects).
Every other incident of the case is a false alarm, also one that resolved itself or was reported before anything was planted.

- class right: the answer has the planted class.
- rank right: the culprits are exactly the ranks at fault; a link at fault: one of its ends or both, and nobody else; both: the rank, an
  end, and nobody else. Ranks are those of the job: culprits are known by their process ids.
- component right: each culprit's component is what was planted there, and of a link the edge is named, with the other end as peer. Where both
  directions have the same two ends (`directed`: the links of a pipeline), the culprit is the sender and its peer the receiver.
"""
from run.verdicts import describe, realtime_of

import topology

ASPECTS = ("class_right", "rank_right", "component_right")
# Two seconds from its arrival; it arrives when nothing has moved for frozen_s, or siblings have looked at a process, within three.
HARD_EVIDENCE_MS = 5000
CLASSES = ("H1", "H2", "H3", "S1", "S2", "S3")


def incidents_of(lines, until=None):
    """The last line of each incident among those written until then, in order of appearance."""
    latest = {}
    for line in lines:
        if until is None or realtime_of(line["time"]) <= until:
            latest[line["incident"]] = line
    return list(latest.values())


class JobRanks:
    """Which rank of the job a verdict means. `layout`: the groups of the job's communicators, None: it has one."""

    def __init__(self, rank_of_pid, layout=None):
        self._rank_of_pid, self._layout = rank_of_pid, layout

    def of_culprit(self, verdict, culprit):
        """None: nobody knows."""
        return self._rank_of_pid.get(culprit.get("pid") or None, self.of_member(verdict, culprit["rank"]))

    def of_member(self, verdict, rank):
        """Of a rank in the verdict's communicator."""
        if rank is None or verdict.get("rank_count") == len(self._rank_of_pid):
            return rank  # a communicator with all ranks has them in the job's order
        members = topology.members(self._layout, verdict.get("comm_name")) if self._layout else None
        return members[rank] if members and 0 <= rank < len(members) else None


def culprits_of(verdict, job_ranks):
    """(rank of the job or None, that of the peer or None, component) of each culprit."""
    return [(job_ranks.of_culprit(verdict, culprit), job_ranks.of_member(verdict, culprit.get("peer")), culprit.get("component", "unknown"))
            for culprit in verdict.get("culprits", [])]


def class_right(verdict, expect):
    return verdict["class"] in expect.classes


def rank_right(verdict, expect, job_ranks):
    if expect.comm_name and verdict.get("comm_name") != expect.comm_name:
        return False
    culprits = culprits_of(verdict, job_ranks)
    ranks = {rank for rank, _, _ in culprits}
    if not culprits and expect.candidates:
        return _among_candidates(verdict, expect)
    if expect.candidates and expect.ranks <= ranks and len(ranks) <= 2:
        return True  # both of a pair
    if not expect.links:
        return bool(ranks) and ranks == expect.ranks
    ends = frozenset().union(*expect.links)
    return bool(ranks & ends) and expect.ranks <= ranks and ranks <= expect.ranks | ends


def _among_candidates(verdict, expect):
    """Candidates are ranks of the communicator; of the whole job they can be compared, of another one their small number must do."""
    candidates = verdict.get("candidates", [])
    return 0 < len(candidates) <= 2 or (len(candidates) <= 4 and expect.ranks <= set(candidates))


def component_right(verdict, expect, job_ranks):
    culprits = culprits_of(verdict, job_ranks)
    if not culprits:
        return expect.candidates
    if expect.links and not any(_names(culprits, link, expect.directed) for link in expect.links):
        return False
    for rank, _, component in culprits:
        allowed = expect.rank_components if rank in expect.ranks else expect.link_components
        if rank in expect.ranks and any(rank in link for link in expect.links):
            allowed = expect.rank_components | expect.link_components
        if component not in allowed:
            return False
    return True


def _names(culprits, link, directed):
    return any((rank, peer) == tuple(link) or (not directed and (peer, rank) == tuple(link)) for rank, peer, _ in culprits)


def score(lines, expect, planted, until, rank_of_pid, layout=None):
    """Of a case with a fault that was planted and watched between two moments (seconds since the epoch)."""
    job_ranks = JobRanks(rank_of_pid, layout)
    incidents = incidents_of(lines, until)
    late = [verdict for verdict in incidents if not _before(verdict, planted)]
    answers = [verdict for verdict in late if verdict["state"] == "confirmed"]

    def judged(verdict):
        return {"class_right": class_right(verdict, expect), "rank_right": rank_right(verdict, expect, job_ranks),
                "component_right": component_right(verdict, expect, job_ranks)}
    answer = max(answers, key=lambda verdict: [judged(verdict)[aspect] for aspect in ASPECTS], default=None)
    result = {"detected": answer is not None, "class": answer["class"] if answer else None}
    result.update(judged(answer) if answer else dict.fromkeys(ASPECTS, False))
    # A component is right only at the right place.
    result["component_right"] = result["component_right"] and result["rank_right"]
    for name in ("suspect", "confirm", "locate"):
        moment = realtime_of(answer.get(_TIMES[name])) if answer else None
        result[name + "_ms"] = None if moment is None else round((moment - planted) * 1e3)
    others = [verdict for verdict in incidents if verdict is not answer and (answer is not None or verdict["state"] != "suspected" or _before(verdict, planted))]
    result["false_alarms"] = len(others)
    result["false_alarm_classes"] = sorted(verdict["class"] for verdict in others)
    result["said"] = "; ".join(map(said, ([answer] if answer else []) + [verdict for verdict in incidents if verdict is not answer])) or "nothing"
    return result


_TIMES = {"suspect": "suspected_time", "confirm": "confirmed_time", "locate": "located_time"}


def _before(verdict, moment):
    seen = realtime_of(verdict["suspected_time"] or verdict["time"])
    return seen < moment


def said(verdict):
    text = describe(verdict)
    if not verdict.get("culprits") and verdict.get("candidates"):
        text += " (candidates %s)" % ", ".join(map(str, verdict["candidates"][:8]))
    return text + (" in %s" % verdict["comm_name"] if verdict.get("comm_name") else "")


def score_benign(lines):
    incidents = incidents_of(lines)
    return {"false_alarms": len(incidents), "false_alarm_classes": sorted(verdict["class"] for verdict in incidents),
            "said": "; ".join(map(said, incidents)) or "nothing"}


def is_right(score_of_case):
    if "detected" not in score_of_case:
        return score_of_case["false_alarms"] == 0
    return all(score_of_case[aspect] for aspect in ASPECTS) and score_of_case["false_alarms"] == 0


def summarize(rows, rules):
    """The sums of one rule set over all rows that have it. Ratios are None where there is nothing to divide by."""
    scored = [row for row in rows if rules in row["rules"]]
    faults = [row for row in scored if row["suite"] != "benign"]
    healthy = [row for row in scored if row["suite"] == "benign"]
    result = {"cases": len(faults)}
    result["detected"] = sum(row["rules"][rules]["detected"] for row in faults)
    for aspect in ASPECTS:
        result[aspect] = sum(row["rules"][rules][aspect] for row in faults)
    result["false_alarms"] = sum(row["rules"][rules]["false_alarms"] for row in healthy)
    result["benign_minutes"] = round(sum(row["healthy_s"] for row in healthy) / 60, 1)
    result["other_incidents"] = sum(row["rules"][rules]["false_alarms"] for row in faults)
    result["classes"] = {fault_class: _class_sums(scored, rules, fault_class) for fault_class in CLASSES}
    return result


def _class_sums(scored, rules, fault_class):
    """Precision, recall and F1 of one class: right is class and rank; a wrong one and a false alarm of the class count against it."""
    cases = [row for row in scored if fault_class == row["fault_class"]]
    hits = [row for row in cases if row["rules"][rules]["class_right"] and row["rules"][rules]["rank_right"]]
    wrong = 0
    for row in scored:
        verdict = row["rules"][rules]
        wrong += verdict["false_alarm_classes"].count(fault_class)
        if verdict.get("class") == fault_class and not (verdict["class_right"] and verdict["rank_right"]):
            wrong += 1
    precision = _ratio(len(hits), len(hits) + wrong)
    recall = _ratio(len(hits), len(cases))
    f1 = None if precision is None or recall is None else 0.0 if precision + recall == 0 else round(2 * precision * recall / (precision + recall), 4)
    times = {name: _median([row["rules"][rules][name] for row in hits]) for name in ("suspect_ms", "confirm_ms", "locate_ms")}
    return dict({"cases": len(cases), "precision": precision, "recall": recall, "f1": f1}, **times)


def _ratio(part, whole):
    return None if whole == 0 else round(part / whole, 4)


def _median(values):
    values = sorted(value for value in values if value is not None)
    return values[len(values) // 2] if values else None


def has_hard_evidence(row):
    """Every hang leaves some, but for a rank that is well and does not call, and a GPU that has not begun: that could be a long computation."""
    if row["variant"] == "frozen_device" and row["rules"]["default"]["class"] == "H1":
        return False
    return row["fault_class"].startswith("H") and not row["variant"].startswith(("skip", "sleep")) or row["variant"] == "skipped_once"


def missed_bars(summary, rows):
    """One line for each bar that the default rules miss; empty: all are met."""
    missed = []
    cases = summary["cases"]
    for aspect, least in (("class_right", 1.0), ("rank_right", 1.0), ("component_right", 0.95)):
        if cases and summary[aspect] < least * cases:
            missed.append("%s: %d of %d cases, at least %.0f %% are asked for" % (aspect.replace("_", " "), summary[aspect], cases, least * 100))
    if summary["false_alarms"]:
        missed.append("%d false alarms in %.1f minutes without a fault" % (summary["false_alarms"], summary["benign_minutes"]))
    for row in rows:
        verdict = row["rules"].get("default", {})
        if not verdict.get("detected"):
            continue
        if row["fault_class"].startswith("H") and verdict["suspect_ms"] is not None and verdict["suspect_ms"] > 5000:
            missed.append("%s: suspected after %.1f s, 5 are allowed" % (row["id"], verdict["suspect_ms"] / 1e3))
        if has_hard_evidence(row) and verdict["confirm_ms"] > HARD_EVIDENCE_MS:
            missed.append("%s: confirmed after %.1f s in spite of hard evidence" % (row["id"], verdict["confirm_ms"] / 1e3))
        if row["suite"] == "pace" and verdict["locate_ms"] is not None and verdict["locate_ms"] > 30000:
            missed.append("%s: found after %.1f s, three windows are 30" % (row["id"], verdict["locate_ms"] / 1e3))
    return missed
