"""Processor time of the threads that the probe adds to a training process, in a real job that a real service listens to."""
import glob
import os
import shutil
import struct
import sys
import tempfile
import time

from parts import ROOT, BenchError

sys.path.insert(0, os.path.join(ROOT, "test", "support"))
from run.errors import RunError  # noqa: E402
from run.processes import Child, SharedMemory, wait_for  # noqa: E402
from run.service import Service  # noqa: E402

RANKS = 2
SETTLING_S = 4.0
DIAGNOSTIC_THREAD = "ccld-probe"
# Name of a thread, and what it is called in the results.
THREADS = ((DIAGNOSTIC_THREAD, "diagnostic"), ("ccld-health", "health"), ("ZMQbg", "libzmq"))
# Messages so large that one operation takes seconds: something is in flight, and moves, all the time.
IN_FLIGHT = ("--op", "allreduce", "-b", "64M", "-e", "64M", "--seconds", "600")
# One operation, then both ranks do nothing.
AT_REST = ("--op", "allreduce", "-b", "1M", "-e", "1M", "--seconds", "600", "--pause-every", "2", "--pause-ms", "600000")

METRICS_OFFSET_AT = 32     # in the process file, schemas/abi/process.h
AGENT_PERIOD_US = 10       # schemas/abi/metrics.h


def thread_times_ns(pid):
    """Processor time by kind of thread; kinds of which there is no thread are left out."""
    times = {}
    for folder in glob.glob("/proc/%d/task/*" % pid):
        try:
            with open(os.path.join(folder, "comm")) as file:
                name = file.read().strip()
            for prefix, kind in THREADS:
                if name.startswith(prefix):
                    with open(os.path.join(folder, "schedstat")) as file:
                        times[kind] = times.get(kind, 0) + int(file.read().split()[0])
        except OSError:
            pass  # a thread that ended meanwhile
    return times


def sampling_period_us(pid):
    """What the probe says it samples at; None where it says nothing."""
    try:
        with open(os.path.join(os.environ["NCCL_PROBE_FRAMES_DIR"], "ccld-%d.process" % pid), "rb") as file:
            content = file.read()
        offset, = struct.unpack_from("<I", content, METRICS_OFFSET_AT)
        return struct.unpack_from("<Q", content, offset + 8 * AGENT_PERIOD_US)[0]
    except (OSError, struct.error):
        return None


class PairOfRanks:
    """A service and two ranks; gone after the with statement."""

    def __init__(self, parts, base_environment, arguments):
        self._parts, self._environment, self._arguments = parts, base_environment, arguments
        self._ranks, self._memory, self._service = [], SharedMemory(), None

    def __enter__(self):
        self._folder = tempfile.mkdtemp(prefix="ccld-bench-")
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self):
        self._service = Service(self._parts, self._folder, {})
        self._service.wait_ready()
        on = self._parts.variants()[2]
        environment = dict(self._environment, NCCL_PROBE_ENDPOINT="tcp://127.0.0.1:%d" % self._service.port,
                           NCCL_PROBE_JOB="overhead", NCCL_ALGO="Ring", NCCL_PROTO="Simple")
        for rank in range(RANKS):
            command = [self._parts.workload, "--rank", str(rank), "--ranks", str(RANKS), "--id-file",
                       os.path.join(self._folder, "id"), *self._arguments]
            self._ranks.append(Child("rank %d" % rank, command, os.path.join(self._folder, "rank-%d.log" % rank),
                                     on.environment(environment)))

    def __exit__(self, *_):
        self._memory.watch([rank.pid for rank in self._ranks])
        for rank in self._ranks:
            rank.end()
        if self._service:
            self._service.end()
        self._memory.remove()
        shutil.rmtree(self._folder, ignore_errors=True)

    def pids(self):
        for rank in self._ranks:
            if rank.exit_status() is not None:
                raise BenchError("%s ended: %s" % (rank.name, " ".join(rank.last_lines(2))))
        return [rank.pid for rank in self._ranks]


def shares(parts, base_environment, arguments, seconds):
    """{kind: share of a processor, the larger of the two ranks}, with the sampling period under "period_us"."""
    try:
        with PairOfRanks(parts, base_environment, arguments) as job:
            if not wait_for(lambda: all("diagnostic" in thread_times_ns(pid) for pid in job.pids()), 30):
                raise BenchError("no thread named %s in a rank: is the library patched?" % DIAGNOSTIC_THREAD)
            time.sleep(SETTLING_S)
            begin, before = time.monotonic(), [thread_times_ns(pid) for pid in job.pids()]
            time.sleep(seconds)
            after, took_ns = [thread_times_ns(pid) for pid in job.pids()], (time.monotonic() - begin) * 1e9
            result = {}
            for first, last in zip(before, after):
                for kind in last:
                    result[kind] = max(result.get(kind, 0), (last[kind] - first.get(kind, 0)) / took_ns)
            result["period_us"] = sampling_period_us(job.pids()[0])
            return result
    except RunError as error:
        raise BenchError(str(error))
