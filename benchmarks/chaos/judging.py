"""What a run is worth. Pure functions over what was seen; each returns a list of complaints, one line each, empty: all is well."""
import scoring
from faults.plan import Plan

LIMITS = {
    "hang_within_s": 60,     # a restarted service hears of communicators when probes repeat themselves: every 30 s at the latest
    "slow_within_s": 120,    # two windows more than a hang, on a busy machine
    "keys_more_s": 70,       # a probe that was turned away tries again after 2, 4, ... 60 s
    "rss_mb": 320,           # of the service, always; with a limit of memory that one
    "files_more": 48,        # open files of the last process of the service beyond those of the first at its end
    "threads_more": 4,
    "warnings": 40,          # lines of NCCL's log of a rank
    "speed_least": 0.5,      # iterations a second while something happens, to those while nothing does; of one run, on a busy machine
}


def within_s(document):
    """How long after the service can work again the verdict may take."""
    fault = document["fault"]
    limit = LIMITS["slow_within_s" if fault and fault["class"].startswith("S") else "hang_within_s"]
    return limit + (LIMITS["keys_more_s"] if document["service"]["keys"] else 0)


def lines_of_job(reported, job, communicators=None):
    """Verdict lines about the job, each incident with a number of its own: numbers repeat where a service kept no history.

    communicators: {id: (name, rank count)}, of which a service that was just started may know neither when it says who it is.
    """
    numbers, lines = {}, []
    for _, line in reported:
        if line["job"] != job:
            continue
        name, rank_count = (communicators or {}).get(line["communicator"], (line["comm_name"], line["rank_count"]))
        number = numbers.setdefault((line["run"], line["incident"]), len(numbers) + 1)
        lines.append(dict(line, incident=number, comm_name=name, rank_count=rank_count))
    return lines


def alone(reported, job):
    """Of the incidents of lines_of_job(), those of starts without a history: whatever they found, others find again under another number."""
    lines = lines_of_job(reported, job)
    of_job = [start for start, line in reported if line["job"] == job]
    return {line["incident"] for start, line in zip(of_job, lines) if not start.keeps_history}


def verdict(document, lines, planted, until, rank_of_pid, alone):
    """(complaints, the score or None). `alone`: numbers of the incidents of starts that knew nothing of the others: they may repeat what is right."""
    plan = Plan(document["plan"], "seed %d" % document["seed"])
    if not plan.faults:
        said = scoring.score_benign(lines)
        return (["nothing was planted, and the service says: " + said["said"]] if lines else []), None
    layout = {name: plan.workload.get(name, 1) for name in ("tp", "pp", "dp", "ep")} if plan.has_layout() else None
    score = scoring.score(lines, plan.expect, planted, until, rank_of_pid, layout)
    complaints = []
    if not score["class_right"] or not score["rank_right"]:
        complaints.append("wanted %s %s; said: %s" % ("/".join(plan.expect.classes), plan.planted_ranks(), score["said"]))
    others = [line for line in scoring.incidents_of(lines, until) if not _is_right(line, plan, planted, rank_of_pid, layout)]
    repeated = len([line for line in scoring.incidents_of(lines, until) if line["incident"] not in alone]) - len(
        [line for line in others if line["incident"] not in alone])
    if not complaints and others:
        complaints.append("further incidents: " + "; ".join(map(scoring.said, others)))
    if repeated > 1:
        complaints.append("%d incidents for one fault" % repeated)
    return complaints, score


def _is_right(line, plan, planted, rank_of_pid, layout):
    """Of an incident as it is in the end: it speaks of what was planted, in part at least if it was cut short."""
    score = scoring.score([dict(line, state="confirmed")], plan.expect, planted, float("inf"), rank_of_pid, layout)
    named = bool(line.get("culprits"))
    return score["detected"] and score["class_right"] and (score["rank_right"] or not named)


def training(statuses, slots, released, checked):
    """Of a job that ended by itself: every rank did every round, and every result that was looked at is right."""
    complaints = []
    for rank, (status, slot) in enumerate(zip(statuses, slots)):
        if status != 0 or slot.state != "finished":
            complaints.append("rank %d: exit status %s, state %s" % (rank, status, slot.state))
        elif slot.completed_round != released:
            complaints.append("rank %d did %d of %d rounds" % (rank, slot.completed_round, released))
        elif slot.wrong_results:
            complaints.append("rank %d: %d of %d results are wrong" % (rank, slot.wrong_results, slot.checked_results))
    if checked and not any(slot.checked_results for slot in slots):
        complaints.append("no result was looked at")
    return complaints


def revisions(reported, stored):
    """(complaints, counts). reported: (start, line); stored: {(incident, revision): document} of the history.

    Of starts with a history every line is stored, once and as it was reported; those that were killed while the disk was full may have lost some.
    """
    seen = set()
    counts = {"reported": 0, "stored": len(stored), "lost": 0, "doubled": 0, "differing": 0}
    for start, line in reported:
        if not start.keeps_history:
            continue
        key = (line["incident"], line["revision"])
        counts["reported"] += 1
        counts["doubled"] += key in seen
        seen.add(key)
        counts["lost"] += key not in stored and not start.may_lose
        counts["differing"] += key in stored and stored[key] != line and not start.may_lose
    by_incident = {}
    for incident, revision in stored:
        by_incident.setdefault(incident, []).append(revision)
    counts["missing"] = sum(sorted(each) != list(range(1, len(each) + 1)) for each in by_incident.values())
    may_lose = any(start.may_lose for start, _ in reported)
    wrong = [name for name in ("lost", "doubled", "differing") + (() if may_lose else ("missing",)) if counts[name]]
    return ["revisions %s: %d" % (name, counts[name]) for name in wrong], counts


def service(samples, memory_max_mb):
    """samples: of each start a list of {"rss_kb", "threads", "files"}."""
    complaints = []
    rss_mb = max((each["rss_kb"] for of_start in samples for each in of_start), default=0) / 1024
    bound = memory_max_mb or LIMITS["rss_mb"]
    if rss_mb > bound:
        complaints.append("the service took %.0f MB, %d are allowed" % (rss_mb, bound))
    ends = [of_start[-1] for of_start in samples if of_start]
    for name in ("threads", "files"):
        if ends and ends[-1][name] > ends[0][name] + LIMITS[name + "_more"]:
            complaints.append("the last process of the service has %d %s, the first one had %d" % (ends[-1][name], name, ends[0][name]))
    return complaints


SPEED_SECONDS_MIN = 4  # of calm, and of events; less says more of the machine than of us


def speed(windows):
    """(complaints, iterations a second in calm, ratio). windows: {"what", "seconds", "rounds"}, "calm" or an event. None: too short to tell."""
    def rate(chosen):
        seconds = sum(each["seconds"] for each in chosen)
        return sum(each["rounds"] for each in chosen) / seconds if seconds >= SPEED_SECONDS_MIN else None
    calm = rate([each for each in windows if each["what"] == "calm"])
    disturbed = rate([each for each in windows if each["what"] != "calm"])
    if not calm or disturbed is None:
        return [], calm, None
    ratio = disturbed / calm
    return (["the job ran at %.2f of its speed" % ratio] if ratio < LIMITS["speed_least"] else []), calm, ratio
