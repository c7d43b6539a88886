"""One run: what a seed has drawn happens to a real job and a real service, and everything that can be judged is looked at.

    row = ChaosRun(build, document, folder, settings).run()

`folder` gets the logs and verdicts and stays; processes, mounts and files elsewhere are gone afterwards, however it ends.
"""
import contextlib
import os
import shutil
import subprocess
import time

from faults import inject
from faults.plan import Plan
from run.errors import RunError
from run.processes import wait_for, wait_while_moving

import events
import judging
from chaos_job import NAMES, ChaosJob
from place import Place
from service import Service

FRAMES_KIB, TOO_LITTLE_KIB = 256 << 10, 64  # of the folder of frames
READY_WITHIN_S = 180.0
STUCK_S = 120.0                 # a rank that does not get on for so long never will
SETTLE_S = 2.0
WARM_UP_ROUNDS = 8
STATE_FILES = ("history.db", "history.db-wal", "history.db-shm", "recordings", "lock", "reserve")


class ChaosRun:
    def __init__(self, build, document, folder, settings, progress=lambda text: None):
        self.build, self.document, self.folder, self.begin = build, document, folder, time.monotonic()
        self.progress = lambda text: progress("%5.1f s  %s" % (time.monotonic() - self.begin, text))
        self.plan = Plan(document["plan"], "seed %d" % document["seed"], settings)
        self.name = NAMES[0]
        self.place = self.service = self.job = None
        self.planted = self.works_since = None
        self.windows, self.complaints = [], []
        self.communicators = {}  # of the job: id -> (name, rank count)
        self._addresses = ["127.0.0.%d" % number for number in range(3, 3 + len(document["events"]))]

    def next_address(self):
        return self._addresses.pop(0)

    def run(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        with contextlib.ExitStack() as stack:
            self.place = stack.enter_context(Place(self.folder, self._frames_kib(), {self.name: "127.0.0.2"}))
            self.service = Service(self.build, self.place, self.folder, self._flags())
            stack.callback(self.service.end)
            variables = self._conditions()
            self.service.start()
            with ChaosJob(self.build, self.plan, self.folder, self.place, self.service, variables) as self.job:
                row = self._with_job()
            row["left_behind"] = self._left_behind(ended_by_itself=row.pop("ended_by_itself"))
            if self.complaints:
                self._keep()
        row.update(seed=self.document["seed"], complaints=self.complaints, right=not self.complaints, seconds=round(time.monotonic() - self.begin, 1))
        return row

    # ---- how it begins

    def _frames_kib(self):
        return TOO_LITTLE_KIB if self.document["service"]["frames_without_room"] else FRAMES_KIB

    def _flags(self):
        flags, drawn = [], self.document["service"]
        for name, value in self.plan.settings.items():
            flags += ["--set", "%s=%s" % (name, value)]
        if drawn["memory_max"]:
            flags += ["--memory-max", drawn["memory_max"]]
        if drawn["keys"]:
            flags += ["--telemetry-secret-file", self._file("service.key"), "--telemetry-allow-file", self._file("probes")]
        return flags

    def _conditions(self):
        """Sets the scene; returns variables of the ranks."""
        drawn = self.document["service"]
        kinds = {each["kind"] for each in self.document["events"]}
        self.service.files_max, self.service.record = drawn["files_max"], drawn["record"]
        variables = {"NCCL_PROBE_ENDPOINT": self.service.endpoint(self.name), "NCCL_PROBE_FRAMES_DIR": self.place.frames,
                     "NCCL_DEBUG_FILE": self._file("nccl-%p.log")}  # whose lines are there also when the process is killed
        if drawn["keys"]:
            self._ccld("keys", "make", self._file("service.key"), out="service.pub")
            self._ccld("keys", "make", self._file("probe.key"), out="probe.pub")
            with open(self._file("probe.pub")) as file:
                self._ccld("keys", "add", file.read().strip(), "--list", self._file("probes"))
            variables.update(NCCL_PROBE_SERVER_KEY=self._file("service.pub"), NCCL_PROBE_KEY_FILE=self._file("probe.key"))
        for whose in ("service", "node0", "node1"):
            with open(os.path.join(self.folder, "clock-" + whose), "wb") as file:
                file.write(bytes(8))
        library = os.path.join(self.build.plugin_folder, "ccld-clock-jump.so")
        if "clock" in kinds:
            self.service.environment.update(LD_PRELOAD=library, CCLD_TEST_CLOCK_JUMP=os.path.join(self.folder, "clock-service"))
        if "rank_clock" in kinds:
            variables["LD_PRELOAD"] = library
        return variables

    def _file(self, name):
        return os.path.join(self.folder, name)

    def _ccld(self, *words, out=None):
        done = subprocess.run([self.build.service] + list(words), stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            raise RunError("ccld %s: %s" % (" ".join(words[:2]), done.stderr.strip()))
        if out:
            with open(self._file(out), "w") as file:
                file.write(done.stdout)

    # ---- what happens

    def _with_job(self):
        self.job.wait_ready(READY_WITHIN_S)
        self.progress("%d ranks are ready" % self.plan.rank_count)
        self._warm_up()
        self._look("calm", self.document["lead_s"])
        self._ask_service()
        for index, event in enumerate(self.document["events"]):
            here = self.document["fault"] is not None and self.document["fault"]["event"] == index
            if here and self.document["fault"]["part"] == 0:
                self._plant()
            self._event(event, self.document["fault"]["part"] if here and self.planted is None else None)
            self._look("calm", event["calm_s"])
            self._ask_service()
        if self.plan.faults and self.planted is None:
            self._plant()
        score = self._await_verdict()
        self.progress("the service says: %s" % (score["said"] if score else "nothing was planted"))
        self.service.sample()
        hangs = self.plan.faults and self.plan.expect.fault_class.startswith("H")
        if not hangs:
            self._end_job()
        wait_for(lambda: self.service.poll() and False, SETTLE_S, 0.05)
        until = time.time()
        status = self.service.end()
        if status != 0:
            self.complaints.append("the service was asked to end and did so with status %s" % status)
        return self._row(score, until, hangs)

    def _warm_up(self):
        """The first rounds are slower: connections are made, memory is touched."""
        def warm():
            self.job.check_alive()
            return self.job.rounds_done() >= WARM_UP_ROUNDS
        if not wait_while_moving(warm, self.job.rounds_done, STUCK_S, 0.01):
            raise RunError("the job did not begin: no round in %.0f s; see %s" % (STUCK_S, self.folder))

    def _ask_service(self):
        """It answers whenever nothing happens to it. What it knows of communicators names ranks when a later one does not know them yet."""
        self.service.sample()
        for each in self.service.get("/v1/communicators?limit=1000&job=" + self.plan.name)["communicators"]:
            if each["comm_name"] is not None if self.plan.has_layout() else each["rank_count"] == self.plan.rank_count:
                self.communicators[each["communicator"]] = (each["comm_name"], each["rank_count"])

    def _event(self, event, plant_at):
        self.progress("%s for %.1f s" % (event["kind"], event["hold_s"]))
        with events.happening(self, event):
            parts = [event["hold_s"]] if plant_at is None else [event["hold_s"] * plant_at, event["hold_s"] * (1 - plant_at)]
            for number, seconds in enumerate(parts):
                if number == 1:
                    self._plant()
                if event.get("kill") and number == len(parts) - 1:
                    self._look(event["kind"], seconds / 2)
                    self.service.kill(may_lose=event["kind"] == "disk_full")
                    self.progress("kill, too")
                    self.service.start()
                    seconds /= 2
                self._look(event["kind"], seconds)
        self.works_since = time.time()
        self.progress("over")

    def _look(self, what, seconds):
        """Lets time pass and notes how many rounds the job did in it."""
        begin, before = time.monotonic(), self.job.rounds_done()
        deadline = begin + seconds

        def over():
            self.job.check_alive()
            self.service.poll()
            return time.monotonic() >= deadline
        wait_for(over, seconds + 1, 0.02)
        if self.planted is None:
            self.windows.append({"what": what, "seconds": time.monotonic() - begin, "rounds": self.job.rounds_done() - before})

    def _plant(self):
        at = inject.plant(self.plan, self.job)
        self.planted = at + time.time() - time.monotonic()
        self.progress("planted: %s" % "+".join(fault.kind for fault in self.plan.faults))

    def _lines(self):
        return judging.lines_of_job(self.service.poll(), self.plan.name, self.communicators)

    def _judge(self, until):
        ranks = {slot.pid: rank for rank, slot in enumerate(self.job.board.slots())}
        reported = self.service.poll()
        alone = judging.alone(reported, self.plan.name)
        return judging.verdict(self.document, self._lines(), self.planted, until, ranks, alone)

    def _await_verdict(self):
        if not self.plan.faults:
            return None
        deadline = max(self.planted, self.works_since or 0) + judging.within_s(self.document)

        def right():
            self.job.check_alive()
            self.service.check_alive()
            _, score = self._judge(time.time())
            return score["class_right"] and score["rank_right"]
        wait_for(right, deadline - time.time(), 0.1)
        return self._judge(time.time())[1]

    def _end_job(self):
        self.job.board.end_job()

        def ended():
            self.job.check_alive()
            self.service.poll()
            return all(child.exit_status() is not None for child in self.job.children)
        if not wait_while_moving(ended, self.job.rounds_done, STUCK_S, 0.02):
            raise RunError("the job did not end, and did not get on for %.0f s; see %s" % (STUCK_S, self.folder))

    # ---- what came of it

    def _row(self, score, until, hangs):
        complaints, _ = self._judge(until)
        slots = self.job.board.slots()
        statuses = [child.exit_status() for child in self.job.children]
        if hangs:
            wrong = sum(slot.wrong_results for slot in slots)
            if wrong and self.plan.expect.fault_class != "H2":
                complaints.append("%d wrong results" % wrong)
        else:
            complaints += judging.training(statuses, slots, self.job.board.released_rounds(), bool(self.plan.workload.get("check")))
        reported = self.service.poll()
        of_revisions, revisions = judging.revisions(reported, self.service.stored())
        samples = [start.samples for start in self.service.starts]
        memory_max = self.document["service"]["memory_max"]
        of_speed, rate, ratio = judging.speed(self.windows)
        if self.plan.workload.get("irregular"):
            of_speed, ratio = [], None  # no two windows are alike
        warnings = [_warnings(self._file("nccl-%d.log" % pid)) for pid in self.job.pids()]
        if max(warnings) > judging.LIMITS["warnings"]:
            complaints.append("a rank's log has %d warnings" % max(warnings))
        self.complaints += complaints + of_revisions + judging.service(samples, int(memory_max[:-1]) if memory_max else None) + of_speed
        reference = max(self.planted, self.works_since or 0) if self.planted else None
        ends = [each[-1] for each in samples if each]
        return {
            "ended_by_itself": not hangs, "rounds": self.job.rounds_done(), "checked_results": sum(slot.checked_results for slot in slots),
            "said": score["said"] if score else None, "found_s": _seconds(score, self.planted, reference), "bound_s": judging.within_s(self.document) if score else None,
            "starts": len(self.service.starts), "starts_without_history": sum(not each.keeps_history for each in self.service.starts),
            "revisions": revisions, "rounds_a_second": _rounded(rate), "speed_ratio": _rounded(ratio), "warnings_most": max(warnings),
            "windows": [dict(each, seconds=round(each["seconds"], 1)) for each in self.windows],
            "service": {"rss_mb_most": round(max(each["rss_kb"] for of_start in samples for each in of_start) / 1024, 1),
                        "threads": [ends[0]["threads"], ends[-1]["threads"]], "files": [ends[0]["files"], ends[-1]["files"]]},
        }

    def _keep(self):
        """For who looks for the cause: what the service wrote goes with the place otherwise."""
        for name in ("disk", "records"):
            shutil.copytree(self.place.path(os.path.join(self.folder, name)), self._file("kept-" + name))

    def _left_behind(self, ended_by_itself):
        """Names what should not be there any more; the place still is."""
        wait_for(lambda: not self.place.processes(), 10)
        left = ["process %d" % pid for pid in self.place.processes()]
        if not ended_by_itself:  # killed: a living process of the job, or an operator, removes the frames
            subprocess.run(self.place.command([self.build.service, "frames", "--clean", "--dir", self.place.frames]), stdin=subprocess.DEVNULL, capture_output=True)
        replaced = any(each["kind"] == "frames_replaced" for each in self.document["events"])
        left += ["frame " + name for name in sorted(os.listdir(self.place.path(self.place.frames))) if not (replaced and name.endswith(".frame"))]
        if ended_by_itself:  # what a killed NCCL leaves is not the probe's
            left += ["/dev/shm/" + name for name in sorted(os.listdir(self.place.path("/dev/shm")))]
        left += ["state folder: " + name for name in sorted(os.listdir(self.place.path(self.service.state_folder))) if name not in STATE_FILES]
        self.complaints += ["left behind: " + each for each in left]
        return left


def _seconds(score, planted, reference):
    """From when it could be known: planted, and the service able to work."""
    if not score or score["confirm_ms"] is None:
        return None
    return round(planted + score["confirm_ms"] / 1e3 - reference, 1)


def _rounded(value):
    return None if value is None else round(value, 3)


def _warnings(path):
    if not os.path.exists(path):
        return 0
    with open(path, errors="replace") as file:
        return sum(" NCCL WARN " in line for line in file)
