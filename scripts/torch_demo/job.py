"""One run: a decision service and the ranks of a torch job, which torchrun starts. As test/support/run/job.py otherwise, whose promises hold."""
import contextlib
import json
import os
import shutil
import signal
import tempfile
import urllib.request

from run.board import Board
from run.errors import RunError
from run.job import Job
from run.processes import Child, state_of, wait_for, wait_while_moving
from run.service import Service
from run.verdicts import VerdictFile

from .machine import problem_of


class RankProcess:
    """A rank: a child of torchrun, in a session of its own."""

    def __init__(self, pid):
        self.pid = pid

    def exit_status(self):
        return None if state_of(self.pid) not in (None, "Z", "X") else 0

    def signal(self, number):
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            pass


class JobRankVerdicts(VerdictFile):
    """Verdicts name ranks of a communicator; here they become ranks of the job, which their process tells. A peer has no process there."""

    def __init__(self, path):
        super().__init__(path)
        self.rank_of_pid = {}

    def poll(self):
        new = super().poll()
        for verdict in new:
            whole_job = verdict.get("rank_count") == len(self.rank_of_pid)
            for culprit in verdict.get("culprits", []):
                culprit["rank"] = self.rank_of_pid.get(culprit.get("pid"), culprit["rank"])
                if not whole_job:
                    culprit["peer"] = None
        return new


class TorchJob(Job):
    """`machine`: machine.Machine, in the place of a build."""

    def _start(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        self.scratch = tempfile.mkdtemp(prefix="ccld-run-")
        self._stack.callback(shutil.rmtree, self.scratch, ignore_errors=True)
        self.service = Service(self.build, self.folder, self.plan.settings)
        self.service.verdicts = JobRankVerdicts(os.path.join(self.folder, "verdicts.jsonl"))
        self._stack.callback(self.service.end)
        self.service.wait_ready()

        self.fault_file = os.path.join(self.scratch, "faults.json")
        board_path = os.path.join(self.scratch, "board")
        self.board = Board(board_path, self.plan.rank_count)
        self._stack.callback(self.board.close)
        self._stack.callback(self._end_ranks)
        self._kept = self._stack.enter_context(contextlib.ExitStack())
        environment = self.build.environment(self.plan.rank_count)
        environment.update({"NCCL_PROBE_ENDPOINT": "tcp://127.0.0.1:%d" % self.service.port, "NCCL_PROBE_JOB": self.plan.name})
        environment.update(self.plan.environment)
        command = self.build.command(self.plan.rank_count, [
            "--job", self.plan.job, "--folder", self.scratch, "--board", board_path, "--faults", self.fault_file, "--log-folder", self.folder,
            "--seconds", str(self.plan.seconds)] + (["--micro-batches-file", self.build.micro_batches_file] if self.build.micro_batches_file else []))
        self.launcher = Child("torchrun", command, os.path.join(self.folder, "torchrun.log"), environment)

    def wait_ready(self, timeout_s=180.0):
        super().wait_ready(timeout_s)
        pids = [slot.pid for slot in self.board.slots()]
        self.children = [RankProcess(pid) for pid in pids]
        self.service.verdicts.rank_of_pid = {pid: rank for rank, pid in enumerate(pids)}
        self._wait_heard()

    def _wait_heard(self, timeout_s=60.0):
        """Returns when the service hears of all ranks; without telemetry there would be no verdict to wait for."""
        status = {}

        def heard():
            self.check_alive()
            with urllib.request.urlopen("http://%s/v1/status" % self.service.http.replace("http://", ""), timeout=10) as answer:
                status.update(json.load(answer))
            return status["process_count"] >= self.plan.rank_count
        complete = wait_for(heard, timeout_s, 0.1)
        with open(os.path.join(self.folder, "status.json"), "w") as file:
            json.dump(status, file, indent=2)
        if not complete:
            raise RunError("the service hears of %d of %d ranks; the probe of rank 0 says: %s" % (
                status["process_count"], self.plan.rank_count, self._last_words(0, "PROBE")))

    def check_alive(self):
        self.service.check_alive()
        wrong = problem_of(self.scratch)
        if wrong:
            raise RunError("through %s: %s" % (self.build.way, wrong))
        failed = [rank for rank, slot in enumerate(self.board.slots()) if slot.state == "failed"]
        if failed:
            raise RunError("rank %d failed: %s" % (failed[0], self._last_words(failed[0])))
        status = self.launcher.exit_status()
        if status not in (None, 0) and not self._may_end:
            raise RunError("the ranks ended with status %d: %s" % (status, " ".join(self.launcher.last_lines(2))))

    def wait_finished(self, timeout_s):
        def all_over():
            self.check_alive()
            self.service.verdicts.poll()
            return self.launcher.exit_status() is not None
        if not wait_while_moving(all_over, self._position, timeout_s, 0.02):
            raise RunError("the ranks did not finish, and did not get on for %.0f s; see %s" % (timeout_s, self.folder))

    def remember_shared_memory(self):
        self._shared_memory.watch(slot.pid for slot in self.board.slots() if slot.pid)

    def _last_words(self, rank, about=""):
        try:
            with open(os.path.join(self.folder, "rank-%d.log" % rank), errors="replace") as log:
                lines = [line.strip() for line in log if line.strip() and about in line]
        except OSError:
            lines = []
        return lines[-1] if lines else "nothing"

    def _end_ranks(self):
        """Ranks are no children of ours; they die with torchrun, and are killed here in case that one could not see to it."""
        try:
            self.remember_shared_memory()
            self.launcher.end()
        finally:
            pids = [slot.pid for slot in self.board.slots() if slot.pid and self._is_rank(slot.pid)]
            for pid in pids:
                RankProcess(pid).signal(signal.SIGKILL)
            wait_for(lambda: all(RankProcess(pid).exit_status() is not None for pid in pids), 10)
            self._shared_memory.remove()

    def _is_rank(self, pid):
        try:
            with open("/proc/%d/cmdline" % pid, "rb") as file:
                return self.scratch.encode() in file.read()
        except OSError:
            return False

