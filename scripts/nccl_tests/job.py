"""One run of a binary of nccl-tests beside a decision service: what run.job.Job is for our own workload.

The ranks are GPUs of one process (-g), its threads (-t), or processes that an mpirun starts. Who they are and how far they are is known from the
service alone: nothing of the binary is changed.
"""
import contextlib
import os
import shutil
import signal
import sys
import tempfile

from run.errors import RunError
from run.job import ENVIRONMENT, INHERITED_PREFIXES_REMOVED, Job
from run.processes import Child, wait_for, wait_while_moving
from run.service import Service

from .progress import ServiceBoard

START_RANK = os.path.join(os.path.dirname(os.path.realpath(__file__)), "start_rank.py")
OUTPUT, ERRORS, RECORDING = "output.txt", "errors.txt", "telemetry.ccld"
# A job on GPUs keeps the user's own settings of NCCL and of the network.
SETTINGS_ON_GPUS = {"NCCL_PROBE_ENABLE": "1", "NCCL_SET_THREAD_NAME": "1"}


class Rank:
    """A process that somebody else started, or one that is several ranks. It is signalled through a descriptor, which no later
    process with the same id can take over."""

    def __init__(self, pid):
        self.pid = pid
        self._descriptor = os.pidfd_open(pid)

    def signal(self, number):
        try:
            signal.pidfd_send_signal(self._descriptor, number)
        except ProcessLookupError:
            pass

    def close(self):
        os.close(self._descriptor)


class BinaryJob(Job):
    """`command`: the binary with its arguments; `mpirun`: words before it, or None; `environment`: on top of everything else."""

    def __init__(self, build, plan, folder, command, shape, mpirun=None, environment=None):
        super().__init__(build, plan, folder)
        self._command, self._shape, self._mpirun, self._extra = command, shape, mpirun, environment or {}
        self.child = None
        self.ended_with = None  # the status with which the binary or its launcher ended before we ended it
        self._ranks = []

    def _start(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        scratch = tempfile.mkdtemp(prefix="ccld-run-")
        self._stack.callback(shutil.rmtree, scratch, ignore_errors=True)
        self.service = Service(self.build, self.folder, self.plan.settings, recording=os.path.join(self.folder, RECORDING))
        self._stack.callback(self.service.end)
        self.service.wait_ready()
        self.board = ServiceBoard(self.service.http, self.plan.rank_count)
        # One file for all: each line in it names its GPU.
        self.control_files = [os.path.join(scratch, "device")] * self.plan.rank_count
        self._stack.callback(self._end_ranks)
        self._kept = self._stack.enter_context(contextlib.ExitStack())
        command = list(self._command)
        if self._mpirun:
            command = self._mpirun + ["-np", str(self._shape.processes), sys.executable, "-B", START_RANK, str(self._shape.processes)] + command
        self.child = Child("binary", command, os.path.join(self.folder, OUTPUT), self._environment(),
                           error_path=os.path.join(self.folder, ERRORS))

    def _environment(self):
        on_cpu_device = self._shape.on_cpu_device
        removed = INHERITED_PREFIXES_REMOVED + ("CUDA_VISIBLE_DEVICES",) if on_cpu_device else ("NCCL_PROBE_",)
        result = {name: value for name, value in os.environ.items() if not name.startswith(removed)}
        result.update(dict(ENVIRONMENT, NCCL_SOCKET_IFNAME="lo") if on_cpu_device else SETTINGS_ON_GPUS)
        result.update({
            "LD_LIBRARY_PATH": ":".join(filter(None, (self.build.library_folder, os.environ.get("LD_LIBRARY_PATH")))),
            "NCCL_PROBE_ENDPOINT": "tcp://127.0.0.1:%d" % self.service.port,
            "NCCL_PROBE_JOB": self.plan.name,
            # Its warnings would fall into the middle of the table's rows.
            "NCCL_DEBUG_FILE": os.path.join(self.folder, "nccl-%p.log"),
            "CCLD_CPU_DEVICE_CONTROL": self.control_files[0],
        })
        result.update(self.plan.environment)
        result.update(self._extra)
        return result

    def wait_ready(self, timeout_s=120.0):
        """Returns when the service has seen every rank complete an operation."""
        def all_ready():
            self.check_alive()
            return all(slot.state == "ready" and slot.completed_round > 0 for slot in self.board.slots())
        if not wait_while_moving(all_ready, self._position, timeout_s, 0.02):
            late = [str(rank) for rank, slot in enumerate(self.board.slots()) if slot.completed_round == 0]
            raise RunError("for %.0f s no completed operation of rank %s; see %s" % (timeout_s, ", ".join(late), self.folder))
        by_pid = {pid: Rank(pid) for pid in {slot.pid for slot in self.board.slots()}}
        self._ranks = list(by_pid.values())
        self.children = [by_pid[slot.pid] for slot in self.board.slots()]
        self.remember_shared_memory()

    def control_prefix(self, rank):
        return "gpu %d " % self.board.slot(rank).gpu

    def check_alive(self):
        self.service.check_alive()
        status = self.child.exit_status()
        if status is not None and not self._may_end and (self.plan.faults or status != 0):
            raise RunError("%s ended with status %d%s" % (os.path.basename(self._command[0]), status, self._why()))

    def _why(self):
        """The last line that says why, ours before its own."""
        for name in (ERRORS, OUTPUT):
            with open(os.path.join(self.folder, name), errors="replace") as file:
                lines = [line.strip() for line in file if line.strip() and not line.startswith("#")]
            if lines:
                return ": " + lines[-1]
        return ""

    def wait_ended(self, timeout_s):
        """Returns the exit status of a run that ends by itself."""
        def over():
            self.service.check_alive()
            self.service.verdicts.poll()
            return self.child.exit_status() is not None
        if not wait_for(over, timeout_s, 0.02):
            raise RunError("%s did not finish within %.0f s; see %s" % (os.path.basename(self._command[0]), timeout_s, self.folder))
        return self.child.exit_status()

    def remember_shared_memory(self):
        if self.child is not None:
            self._shared_memory.watch({self.child.pid} | {rank.pid for rank in self._ranks})

    def _end_ranks(self):
        if self.child is None:
            return
        self.ended_with = self.child.exit_status()
        try:
            self.remember_shared_memory()
            for rank in self._ranks:
                rank.signal(signal.SIGKILL)
        finally:
            # A launcher has files of its own to remove.
            self.child.end(grace_s=3.0 if self._mpirun else 0.0)
            for rank in self._ranks:
                wait_for(lambda: not os.path.exists("/proc/%d" % rank.pid), 5, 0.01)
                rank.close()
            self._shared_memory.remove()
