"""The binaries of a folder of nccl-tests, and whether they would load our library."""
import glob
import os
import re
import subprocess

from run.errors import RunError

# Operations of fault plans, as nccl-tests names them.
PROGRAMS = {
    "allreduce": "all_reduce_perf", "allgather": "all_gather_perf", "reducescatter": "reduce_scatter_perf", "broadcast": "broadcast_perf",
    "reduce": "reduce_perf", "sendrecv": "sendrecv_perf", "alltoall": "alltoall_perf", "gather": "gather_perf", "scatter": "scatter_perf",
}
NEEDED = re.compile(r"\((NEEDED|RPATH)\).*\[(.+)\]")


def program_of(operation):
    if operation not in PROGRAMS:
        raise RunError("workload.operation: nccl-tests has no binary for \"%s\"; there are %s" % (operation, ", ".join(sorted(PROGRAMS))))
    return PROGRAMS[operation]


def find(folder, program):
    path = os.path.join(folder, program)
    if not os.access(path, os.X_OK):
        there = ", ".join(map(os.path.basename, all_of(folder))) or "none"
        raise RunError("%s is not there, or not executable; binaries in that folder: %s" % (path, there))
    return path


def all_of(folder):
    return sorted(path for path in glob.glob(os.path.join(folder, "*_perf")) if os.access(path, os.X_OK))


class Links:
    """What a binary is linked with."""

    def __init__(self, entries):
        self.needed = {value for kind, value in entries if kind == "NEEDED"}
        self.rpath = next((value for kind, value in entries if kind == "RPATH"), None)

    def why_not(self, on_cpu_device):
        """None if it loads the NCCL that LD_LIBRARY_PATH names, otherwise one line that says why not."""
        if "libnccl.so.2" not in self.needed:
            return "has NCCL linked into it, which cannot be replaced: build nccl-tests with a shared libnccl (not NCCL_STATIC=1)"
        if self.rpath is not None:
            return "has an RPATH (%s), which goes before LD_LIBRARY_PATH: remove it (patchelf --remove-rpath)" % self.rpath
        if on_cpu_device and not any(name.startswith("libcudart.so.") for name in self.needed):
            return ("has the CUDA runtime linked into it, which needs a GPU: build it with a shared one for the CPU device "
                    "(nvcc -cudart shared)")
        return None

    def uses_mpi(self):
        return any(name.startswith("libmpi") for name in self.needed)


def links_of(path):
    done = subprocess.run(["readelf", "-dW", path], stdin=subprocess.DEVNULL, capture_output=True, text=True, env=dict(os.environ, LC_ALL="C"))
    if done.returncode != 0 or "(NEEDED)" not in done.stdout:
        raise RunError("%s is no program that loads libraries: %s" % (path, (done.stderr.strip().splitlines() or ["no dynamic section"])[-1]))
    return Links(NEEDED.findall(done.stdout))


def check(path, on_cpu_device):
    reason = links_of(path).why_not(on_cpu_device)
    if reason:
        raise RunError("%s %s" % (path, reason))
    return path
