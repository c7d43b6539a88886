"""A process of ccld-gpu-ranks (benchmarks/gpu/main.cc) for one variant of the library."""
import json
import os
import select
import subprocess
import time

from .errors import OutOfTime, VerifyError
from .layout import OFF

# Ranks of one process on one GPU. All their kernels must run at the same time: few enough blocks, a queue of the device for each stream,
# and no kernel that is loaded while others wait for it.
ENVIRONMENT = {
    "NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1", "NCCL_P2P_LEVEL": "SYS", "NCCL_IGNORE_DISABLED_P2P": "2", "NCCL_NVLS_ENABLE": "0",
    "NCCL_MNNVL_ENABLE": "0", "NCCL_PAT_ENABLE": "0", "NCCL_RAS_ENABLE": "0", "NCCL_MAX_NCHANNELS": "16", "NCCL_DEBUG": "WARN",
    "CUDA_MODULE_LOADING": "EAGER", "CUDA_DEVICE_MAX_CONNECTIONS": "32",
}
CPU_DEVICE_ENVIRONMENT = {
    "NCCL_MAX_NCHANNELS": "1", "NCCL_NTHREADS": "128", "NCCL_LL128_NTHREADS": "128", "CCLD_CPU_DEVICE_COUNT": "1", "CCLD_CPU_DEVICE_MEMORY_MIB": "2048",
}
START_TIMEOUT_S = 60.0
KILL_TIMEOUT_S = 5.0


def algorithm_environment(algorithm, protocol):
    """Only AllReduce has a tree."""
    return {"NCCL_ALGO": "RING" if algorithm == "Ring" else "RING;allreduce:TREE", "NCCL_PROTO": protocol}


def environment(layout, variant, frames_folder, more):
    result = {name: value for name, value in os.environ.items()
              if not name.startswith(("NCCL_", "CCLD_")) or layout.device == "cpu" and name.startswith("CCLD_CPU_DEVICE_")}
    result.update(ENVIRONMENT)
    if layout.device == "cpu":
        result.update(CPU_DEVICE_ENVIRONMENT)
    result.update(layout.transport)
    result["NCCL_PROBE_FRAMES_DIR"] = frames_folder
    if variant == OFF:
        result["NCCL_PROBE_ENABLE"] = "0"
    result.update(more)
    result["LD_LIBRARY_PATH"] = layout.loader_path(layout.library(variant))
    return result


class RanksProcess:
    """`allowance`: limits every wait. A process that gives no answer in time is killed."""

    def __init__(self, layout, variant, ranks, frames_folder, more, allowance):
        self.variant = variant
        self._allowance = allowance
        self._unread = b""
        self._said = []
        self._process = subprocess.Popen([layout.ranks_program, str(ranks)], env=environment(layout, variant, frames_folder, more),
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.description = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def wait_ready(self):
        if self.description is None:
            self.description = self._answer(START_TIMEOUT_S, "its start")["ready"]
        return self

    def ask(self, command, timeout_s=60.0):
        """The answer. {"left_out": ...} is one, too."""
        self.wait_ready()
        try:
            self._process.stdin.write(command.encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # what it said before it ended is the answer
        return self._answer(timeout_s, command)

    def _line(self, deadline):
        while b"\n" not in self._unread:
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            data = os.read(self._process.stdout.fileno(), 1 << 16) if ready else None
            if not data:
                return None if data is None else b""
            self._unread += data
        line, self._unread = self._unread.split(b"\n", 1)
        return line + b"\n"

    def _answer(self, timeout_s, what):
        deadline = time.monotonic() + self._allowance.limit(timeout_s)
        while True:
            line = self._line(deadline)
            if not line:
                self.kill()
                if line is None and self._allowance.is_over():
                    raise OutOfTime("%s: %s: the time of this part is over" % (self.variant, what))
                raise VerifyError("%s: %s: %s" % (self.variant, what, ("it ended: " if line == b"" else "no answer in time: ") +
                                                  " ".join(self._said[-2:] or ["it said nothing"])))
            text = line.decode(errors="replace").strip()
            if not text.startswith("{"):
                self._said.append(text)  # NCCL's warnings
                continue
            answer = json.loads(text)
            if "error" in answer:
                self.kill()
                raise VerifyError("%s: %s: %s" % (self.variant, what, answer["error"]))
            return answer

    def kill(self):
        self._process.kill()
        try:
            self._process.wait(KILL_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            pass  # in a call of the driver that nothing ends; the rest of the run goes on without it

    def end(self):
        if self._process.poll() is None:
            try:
                self._process.stdin.close()
                self._process.wait(5)
            except (subprocess.TimeoutExpired, BrokenPipeError):
                self.kill()
        self._process.stdout.close()
