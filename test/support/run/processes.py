"""Child processes that never outlive their launcher, and what they may leave in /dev/shm."""
import ctypes
import glob
import os
import re
import signal
import subprocess
import time

PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)

# NCCL names its segments at random, the probe after the process that owns them.
NCCL_SEGMENTS = re.compile(r"/dev/shm/nccl-[A-Za-z0-9]+")
FRAME_FILES = "/dev/shm/ccld-%d[-.]*"  # frames, and the process file


def _tied_to(parent):
    """Runs in the child before exec: an own process group (a Ctrl-C is the launcher's business), killed with its launcher."""
    def prepare():
        os.setpgid(0, 0)
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)
    return prepare


class Child:
    """One process in its own group, with its output in a log file; what it writes to stderr goes to another one if that is named."""

    def __init__(self, name, command, log_path, environment=None, error_path=None):
        self.name = name
        self.log_path = log_path
        with open(log_path, "wb") as log, open(error_path or os.devnull, "wb") as errors:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=errors if error_path else subprocess.STDOUT,
                                             env=environment, preexec_fn=_tied_to(os.getpid()))
        self.pid = self._process.pid

    def exit_status(self):
        """None while it runs (stopped counts as running); negative: the signal that ended it."""
        return self._process.poll()

    def signal(self, number):
        if self.exit_status() is None:
            try:
                os.killpg(self.pid, number)
            except ProcessLookupError:
                pass

    def wait(self, timeout_s):
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None

    def end(self, grace_s=0.0):
        """Ends the whole group, politely first if there is time for that. Works on stopped processes."""
        if grace_s > 0:
            self.signal(signal.SIGTERM)
            self.signal(signal.SIGCONT)
            self.wait(grace_s)
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.wait(10)

    def last_lines(self, count=5):
        try:
            with open(self.log_path, "rb") as log:
                text = log.read()[-20000:].decode(errors="replace")
        except OSError:
            return ""
        return "\n".join(line for line in text.splitlines() if line.strip()).split("\n")[-count:]


class SharedMemory:
    """Remembers which /dev/shm files belong to a set of processes, and removes what they left."""

    def __init__(self):
        self._pids = set()
        self._segments = set()

    def watch(self, pids):
        """Call while the processes live: afterwards nobody can tell whose a segment was."""
        for pid in pids:
            self._pids.add(pid)
            self._segments.update(segments_of(pid))

    def left_behind(self):
        frames = [path for pid in self._pids for path in glob.glob(FRAME_FILES % pid)]
        return sorted(frames + [path for path in self._segments if os.path.exists(path)])

    def remove(self):
        for path in self.left_behind():
            try:
                os.unlink(path)
            except FileNotFoundError:
                pass


def segments_of(pid):
    """Segments of NCCL that the process has mapped or opened."""
    found = set()
    try:
        with open("/proc/%d/maps" % pid) as maps:
            found.update(NCCL_SEGMENTS.findall(maps.read()))
        folder = "/proc/%d/fd" % pid
        for name in os.listdir(folder):
            try:
                found.update(NCCL_SEGMENTS.findall(os.readlink(os.path.join(folder, name))))
            except OSError:
                pass
    except OSError:
        pass  # the process is gone
    return found


def state_of(pid):
    """The state letter of /proc/<pid>/stat; None when there is no such process."""
    try:
        with open("/proc/%d/stat" % pid) as stat:
            return stat.read().rsplit(")", 1)[1].split()[0]
    except OSError:
        return None


def resources_of(pid):
    """{"rss_kb", "threads", "files"}: what the process takes. None when there is no such process."""
    try:
        with open("/proc/%d/status" % pid) as file:
            fields = dict(line.split(":", 1) for line in file)
        return {"rss_kb": int(fields["VmRSS"].split()[0]), "threads": int(fields["Threads"]), "files": len(os.listdir("/proc/%d/fd" % pid))}
    except (OSError, KeyError):
        return None


FUTEX = "202"  # the system call in which idle threads wait, on x86-64


def calls_of_blocks(pid):
    """The system call in which each thread is that runs blocks of the CPU device: its number, or a word of the kernel when it is in none."""
    calls = []
    folder = "/proc/%d/task" % pid
    for thread in os.listdir(folder):
        try:
            with open("%s/%s/comm" % (folder, thread)) as name, open("%s/%s/syscall" % (folder, thread)) as call:
                if name.read().strip() == "ccld-block":
                    calls.append(call.read().split()[0])
        except OSError:
            pass  # it has ended
    return calls


def runs_a_kernel(pid):
    """Whether a GPU of the CPU device is in a kernel: one of the threads that run blocks does not wait for work."""
    return any(call != FUTEX for call in calls_of_blocks(pid))


def wait_for(condition, timeout_s, interval_s=0.005):
    """Returns the first true value of condition(), or the last false one when the time is over."""
    return wait_while_moving(condition, lambda: None, timeout_s, interval_s)


def wait_while_moving(condition, position, timeout_s, interval_s=0.005):
    """As wait_for(), but the time begins anew whenever position() is another one: how fast a job gets on is the machine's business."""
    seen, since = position(), time.monotonic()
    while True:
        value = condition()
        if value:
            return value
        at, now = position(), time.monotonic()
        if at != seen:
            seen, since = at, now
        elif now >= since + timeout_s:
            return value
        time.sleep(interval_s)
