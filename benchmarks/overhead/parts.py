"""What is measured and where it lies: the three variants of the library, the benchmark programs."""
import os
from collections import namedtuple

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


class BenchError(Exception):
    """One line that says what is wrong and what to do."""


class Variant(namedtuple("Variant", "name library_folder settings")):
    def environment(self, more):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("NCCL_", "CCLD_"))}
        if "NCCL_PROBE_FRAMES_DIR" in os.environ:  # the benchmark's own
            environment["NCCL_PROBE_FRAMES_DIR"] = os.environ["NCCL_PROBE_FRAMES_DIR"]
        environment.update(more)
        environment.update(self.settings)
        environment["LD_LIBRARY_PATH"] = self.library_folder
        return environment


class Parts:
    def __init__(self, build, pristine):
        self.build = os.path.abspath(build)
        self.pristine = os.path.abspath(pristine)
        self.library = os.path.join(self.build, "nccl", "lib")
        self.service = self._program("ccld")
        self.operations = self._program("ccld-bench-operations")
        self.host_path = self._program("ccld-bench-host-path")
        self.rounds = self._program("ccld-bench-rounds")
        self.sleeper = self._program("ccld-bench-sleeper")
        self.workload = self._program("ccld-workload")

    def _program(self, name):
        return os.path.join(self.build, "bin", name)

    def check(self):
        pristine = os.path.join(self.pristine, "nccl", "lib", "libnccl.so.2")
        for path in (self.service, self.workload, self.operations, self.host_path, self.rounds, self.sleeper,
                     os.path.join(self.library, "libnccl.so.2"), pristine):
            if not os.path.exists(path):
                raise BenchError("%s is missing: 'make bench-overhead' builds it" % path)

    def variants(self):
        """Pristine, patched with the probe off, patched with it on."""
        return (Variant("pristine", os.path.join(self.pristine, "nccl", "lib"), {}),
                Variant("off", self.library, {"NCCL_PROBE_ENABLE": "0"}),
                Variant("on", self.library, {}))


# One channel and few threads: what every operation does is the same, and two cores are enough.
BASE_ENVIRONMENT = {
    "NCCL_MAX_NCHANNELS": "1", "NCCL_MIN_NCHANNELS": "1", "NCCL_NTHREADS": "128", "NCCL_LL128_NTHREADS": "128",
    "NCCL_SOCKET_IFNAME": "lo", "CCLD_CPU_DEVICE_MEMORY_MIB": "1024"}
