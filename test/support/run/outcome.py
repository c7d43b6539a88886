"""Runs plans and says what came of them."""
import os
import time

from faults import inject

from .errors import RunError
from .job import Job
from .other_work import OtherWork
from .processes import wait_for
from .verdicts import describe, is_confirmed, is_located, realtime_of, why_wrong


class FaultOutcome:
    """What a plan with faults led to. Times are milliseconds from the moment the fault was planted; None: did not happen."""

    def __init__(self, plan):
        self.plan = plan
        self.verdict = None
        self.suspected_ms = self.confirmed_ms = self.located_ms = None
        self.was_run = True
        self.why_wrong = "no verdict"
        self.other_incidents = []

    @property
    def right(self):
        return self.why_wrong is None

    def report(self):
        return {
            "planted": {"class": self.plan.expect.fault_class, "ranks": self.plan.planted_ranks(), "detail": self.plan.title},
            "verdict": self.verdict, "suspected_ms": self.suspected_ms, "confirmed_ms": self.confirmed_ms,
            "located_ms": self.located_ms, "right": self.right, "why_wrong": self.why_wrong,
        }


class HealthyOutcome:
    def __init__(self, seconds, rounds, alarms, wrong_results):
        self.seconds, self.rounds, self.alarms, self.wrong_results = seconds, rounds, alarms, wrong_results

    def report(self):
        return {"seconds": round(self.seconds, 1), "rounds": self.rounds, "false_alarms": len(self.alarms)}


def run_fault(build, plan, folder, progress=lambda text: None, make_job=Job):
    """Plants the plan's faults in a fresh job and waits for the verdict."""
    outcome = FaultOutcome(plan)
    other_work = OtherWork()
    with make_job(build, plan, folder) as job:
        job.service.verdicts.machine_is_busy = other_work.is_busy
        progress("starting %d ranks" % plan.rank_count)
        job.wait_ready()
        progress("healthy traffic")
        planted_at = inject.plant(plan, job)
        planted_realtime = planted_at + time.time() - time.monotonic()
        progress("planted: %s" % plan.title)
        verdicts = job.service.verdicts

        shown = set()

        def decided():
            job.service.check_alive()
            for verdict in verdicts.poll():
                text = describe(verdict)
                if text not in shown:
                    shown.add(text)
                    progress("%.1f s: %s" % (time.monotonic() - planted_at, text))
            return any(is_confirmed(verdict) and is_located(verdict) for verdict in verdicts.incidents())
        if wait_for(decided, plan.within_s, 0.02):
            # A verdict that is right for an instant only is not right.
            wait_for(lambda: decided() and False, plan.settle_s, 0.02)
        outcome.why_wrong = why_wrong(verdicts, plan.expect, planted_realtime)
        _take_over(outcome, verdicts, planted_realtime)
    return outcome


def _take_over(outcome, verdicts, planted_realtime):
    incidents = verdicts.incidents()
    chosen = [verdict for verdict in incidents if is_confirmed(verdict)] or incidents
    if not chosen:
        return
    outcome.verdict = chosen[0]
    outcome.other_incidents = [verdict for verdict in incidents if verdict is not chosen[0]]


    def after_planting(field):
        moment = realtime_of(outcome.verdict.get(field))
        return None if moment is None else round((moment - planted_realtime) * 1e3)
    outcome.suspected_ms = after_planting("suspected_time")
    outcome.confirmed_ms = after_planting("confirmed_time")
    outcome.located_ms = after_planting("located_time")


def run_healthy(build, plan, folder, progress=lambda text: None, make_job=Job):
    """Runs a plan without faults to its end; the service must have nothing to say."""
    other_work = OtherWork()
    with make_job(build, plan, folder) as job:
        job.service.verdicts.machine_is_busy = other_work.is_busy
        progress("starting %d ranks" % plan.rank_count)
        job.wait_ready()
        ready = time.monotonic()
        progress("healthy traffic")
        job.wait_finished(plan.within_s)
        seconds = time.monotonic() - ready
        slots = job.board.slots()
        for rank, slot in enumerate(slots):
            if slot.state != "finished":
                raise RunError("rank %d did not finish; see %s" % (rank, os.path.join(folder, "rank-%d.log" % rank)))
        # What the ranks sent last must be looked at, too, and their end must not alarm.
        wait_for(job.service.verdicts.poll, plan.settle_s, 0.02)
        job.service.end()
        job.service.verdicts.poll()
        alarms = job.service.verdicts.incidents()
    return HealthyOutcome(seconds, min(slot.completed_round for slot in slots), alarms, sum(slot.wrong_results for slot in slots))
