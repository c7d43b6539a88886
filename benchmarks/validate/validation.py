"""One run of `ccld-validate` on the CPU device, on hosts of a fabric (fabric.py). Leaves nothing behind, however it ends."""
import json
import os
import shutil
import signal
import tempfile

from run.job import ENVIRONMENT, INHERITED_PREFIXES_REMOVED
from run.processes import Child, SharedMemory, wait_for

import fabric as fabrics

PORT = 29610
END_S = 180.0  # a busy machine


class Validation:
    """`gpus`: ranks of each host. `slow_gpus`: {rank: factor}. `absent`: ranks that are not started."""

    def __init__(self, build, fabric, gpus, slow_gpus=None, absent=(), options=()):
        self.program = os.path.join(build.folder, "bin", "ccld-validate")
        self.build, self.fabric, self.gpus, self.ranks = build, fabric, gpus, gpus * fabric.count
        self.slow_gpus, self.absent, self.options = slow_gpus or {}, set(absent), list(options)
        self.children, self.folder = {}, None
        self._shared_memory = SharedMemory()

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="ccld-validation-")
        try:
            for rank in range(self.ranks):
                if rank not in self.absent:
                    self._start(rank)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self._shared_memory.watch(child.pid for child in self.children.values())
        for child in self.children.values():
            child.signal(signal.SIGKILL)
            child.end()
        self._shared_memory.remove()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self, rank):
        host = rank // self.gpus
        environment = {name: value for name, value in os.environ.items() if not name.startswith(INHERITED_PREFIXES_REMOVED)}
        environment.update(ENVIRONMENT)
        environment.update({"LD_LIBRARY_PATH": self.build.library_folder, "NCCL_HOSTID": "host%d" % host, "NCCL_SOCKET_IFNAME": fabrics.INTERFACE,
                            "NCCL_DEBUG": "", "TMPDIR": self.folder})
        if rank in self.slow_gpus:
            control = os.path.join(self.folder, "device-%d" % rank)
            with open(control, "w") as file:
                file.write("clock_slowdown %g\n" % self.slow_gpus[rank])
            environment["CCLD_CPU_DEVICE_CONTROL"] = control
        command = [self.program, "--ranks", str(self.ranks), "--rank", str(rank), "--gpu", str(rank % self.gpus),
                   "--meet", "%s:%d" % (fabrics.address(0), PORT), "--json"] + self.options
        self.children[rank] = Child("rank %d" % rank, self.fabric.command(host, command), os.path.join(self.folder, "out-%d" % rank),
                                    environment, os.path.join(self.folder, "log-%d" % rank))

    def result(self, timeout_s=END_S):
        """(exit status of rank 0 or None, its document or None, all lines on standard error)"""
        first = self.children.get(0)
        if first is not None:
            first.wait(timeout_s)
        wait_for(lambda: all(child.exit_status() is not None for child in self.children.values()), 20)
        errors = []
        for rank in sorted(self.children):
            with open(os.path.join(self.folder, "log-%d" % rank), encoding="utf-8", errors="replace") as file:
                errors += file.read().splitlines()
        document = None
        if first is not None:
            with open(first.log_path, encoding="utf-8") as file:
                text = file.read()
            document = json.loads(text) if text.strip() else None
        return first and first.exit_status(), document, errors
