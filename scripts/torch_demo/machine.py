"""What a demo runs with: which Python and torch, which library and by which way, on how many GPUs; and how to start ranks with it."""
import json
import os
import socket
import subprocess

from run.errors import RunError

from . import torch_build

RANK_PROGRAM = os.path.join(os.path.dirname(os.path.realpath(__file__)), "rank", "main.py")
STAND_IN_RUN = os.path.join(os.path.dirname(os.path.realpath(__file__)), "stand_in_run.py")
INHERITED_PREFIXES_REMOVED = ("NCCL_", "CCLD_", "TORCH_NCCL_", "TORCHELASTIC_")

# The verdict is ours to wait for: torch must neither end processes that hang nor abort their communicators before. And it shall make
# communicators in calls that return when they are done: what goes wrong then has a place.
TORCH_ENVIRONMENT = {
    "TORCH_NCCL_USE_COMM_NONBLOCKING": "0",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0", "TORCH_NCCL_ENABLE_MONITORING": "0", "TORCH_NCCL_DUMP_ON_TIMEOUT": "0",
    "TORCH_NCCL_DESYNC_DEBUG": "0", "TORCH_NCCL_PROPAGATE_ERROR": "0", "TORCH_NCCL_BLOCKING_WAIT": "0", "OMP_NUM_THREADS": "1",
}
# Ranks that share a GPU take turns on it: few channels, and nothing but sockets of this machine between them.
SHARED_GPU_ENVIRONMENT = {"CCLD_SHARE_GPUS": "1", "NCCL_MAX_NCHANNELS": "4", "NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1"}
# As in test/support/run/job.py: NCCL on few cores.
CPU_DEVICE_ENVIRONMENT = {
    "NCCL_MIN_NCHANNELS": "2", "NCCL_MAX_NCHANNELS": "2", "NCCL_NTHREADS": "128", "NCCL_LL128_NTHREADS": "128", "NCCL_BUFFSIZE": "131072",
    "NCCL_IB_DISABLE": "1", "NCCL_PAT_ENABLE": "0", "NCCL_SOCKET_IFNAME": "lo",
    # The CPU device keeps shared memory of a block in thread-local storage, for which a program that loads it late has to leave room.
    "GLIBC_TUNABLES": "glibc.rtld.optional_static_tls=16384",
}
ZMQ = "libzmq.so.5"
WORKS_ALONE = "import torch; torch.cuda.nccl.version(); torch.zeros(1, device='cuda').cpu()"


class LibraryProblem(RunError):
    """Torch works here, but not with the library."""


class Machine:
    """`engine`: torch or stand-in. `way`: LD_LIBRARY_PATH or LD_PRELOAD. `one_gpu`: all ranks on GPU 0, or None: if there are too few.
    `micro_batches_file`: that ranks read, or None."""

    def __init__(self, engine, python, library, service, way, one_gpu=None, lazy=False, micro_batches_file=None):
        self.engine, self.python, self.way, self.lazy = engine, python, way, lazy
        self.library, self.service = os.path.abspath(library), os.path.abspath(service)
        self.micro_batches_file = micro_batches_file and os.path.abspath(micro_batches_file)
        self._one_gpu = one_gpu
        self._probe_libraries = None
        self.facts = None
        for path, what in ((self.library, "--library"), (self.service, "--ccld")):
            if not os.path.isfile(path):
                raise RunError("%s: there is no %s" % (what, path))

    # What Job expects of a build.
    @property
    def library_folder(self):
        return os.path.dirname(self.library)

    def environment(self, ranks):
        """What that many ranks inherit, but for where the service is."""
        base = {name: value for name, value in os.environ.items() if not name.startswith(INHERITED_PREFIXES_REMOVED)}
        base.update({"NCCL_DEBUG": "WARN", "NCCL_SET_THREAD_NAME": "1", "NCCL_PROBE_ENABLE": "1", "PYTHONDONTWRITEBYTECODE": "1"})
        base.update(TORCH_ENVIRONMENT)
        if self.engine == "stand-in":
            base.update(CPU_DEVICE_ENVIRONMENT)
        if self.shares_gpus(ranks):
            base.update(SHARED_GPU_ENVIRONMENT)
            if self.engine == "stand-in":
                base["NCCL_MAX_NCHANNELS"] = CPU_DEVICE_ENVIRONMENT["NCCL_MAX_NCHANNELS"]
            base["CUDA_VISIBLE_DEVICES"] = base.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
        base.update(torch_build.environment(self.way, self.library, base))
        if self._probe_libraries:
            base["LD_LIBRARY_PATH"] = ":".join(filter(None, (base.get("LD_LIBRARY_PATH"), self._probe_libraries)))
        return base

    def lend_probe_libraries(self, target):
        """Where libzmq came along with ccld (../lib beside its folder) the probe may load it, with what it needs. Nothing else of that folder is put in
        the way of torch, which has libraries of the same names."""
        brought = os.path.join(os.path.dirname(os.path.dirname(self.service)), "lib")
        if not os.path.exists(os.path.join(brought, ZMQ)):
            return
        os.makedirs(target, exist_ok=True)
        for name, path in sorted(needs_of(brought, ZMQ).items()):
            link = os.path.join(target, name)
            if not os.path.islink(link):
                os.symlink(path, link)
        self._probe_libraries = target

    def shares_gpus(self, ranks):
        if self._one_gpu is not None:
            return self._one_gpu
        return self.facts is not None and self.facts["devices"] < ranks

    def look(self, folder, timeout_s=180.0):
        """Starts one process as ranks are started and learns from it what there is. Raises LibraryProblem when it loads another NCCL, or does not
        get on with ours and does without."""
        command = [self.python, "-B", RANK_PROGRAM, "--facts", "--engine", self.engine, "--library", self.library, "--folder", folder]
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  timeout=timeout_s, env=self.environment(1))
        except subprocess.TimeoutExpired:
            raise self._failure("%s does not tell what its torch is within %.0f s" % (self.python, timeout_s))
        wrong = problem_of(folder)
        if wrong:
            raise LibraryProblem("through %s: %s" % (self.way, wrong))
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        if done.returncode != 0 or not lines:
            last = (done.stderr.strip().splitlines() or ["status %d and no message" % done.returncode])[-1]
            raise self._failure("%s cannot use torch with %s: %s" % (self.python, self.library, last))
        self.facts = json.loads(lines[-1])
        return self.facts

    def _failure(self, text, timeout_s=180.0):
        """Whose it is: torch with the NCCL that it came with is asked, too."""
        if self.engine == "stand-in":
            return LibraryProblem(text)
        base = {name: value for name, value in os.environ.items() if not name.startswith(INHERITED_PREFIXES_REMOVED)}
        try:
            alone = subprocess.run([self.python, "-c", WORKS_ALONE], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   timeout=timeout_s, env=base).returncode == 0
        except subprocess.TimeoutExpired:
            alone = False
        return LibraryProblem(text) if alone else RunError(text)

    def command(self, ranks, arguments):
        """The command line that starts all ranks."""
        program = [RANK_PROGRAM, "--engine", self.engine, "--library", self.library] + (["--lazy"] if self.lazy else []) + arguments
        if self.engine == "stand-in":
            return [self.python, "-B", STAND_IN_RUN, "--nproc-per-node", str(ranks)] + program
        return [self.python, "-m", "torch.distributed.run", "--nnodes", "1", "--node_rank", "0", "--nproc_per_node", str(ranks), "--max_restarts", "0",
                "--master_addr", "127.0.0.1", "--master_port", str(free_port())] + program


def needs_of(folder, name):
    """{name: path} of this library and all that it needs, as far as the folder has them."""
    done = subprocess.run(["ldd", os.path.join(folder, name)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          env=dict(os.environ, LD_LIBRARY_PATH=folder, LC_ALL="C"))
    found = {name: os.path.join(folder, name)}
    for line in done.stdout.splitlines():
        words = line.split()
        if len(words) >= 3 and words[1] == "=>" and os.path.dirname(words[2]) == folder:
            found[words[0]] = words[2]
    return found


def problem_of(folder):
    """What a rank found wrong with its library; None: nothing."""
    for name in sorted(os.listdir(folder)):
        if name.startswith("wrong-library-"):
            with open(os.path.join(folder, name)) as file:
                return file.read().strip()
    return None


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]

