"""Where things lie: in build trees, or in a bundle, which has the same folders."""
import glob
import json
import os

from .errors import VerifyError

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
BUNDLE_FILE = "bundle.json"

# Libraries that let ranks of one process share a GPU; they differ from the product in that alone (benchmarks/gpu/patches).
PRISTINE, OFF, ON, WAITS = "pristine", "off", "on", "publish_in_waits"
# The same with a part of the probe's device code alone.
BEGIN_AND_END, STEPS = "only_begin_and_end", "only_steps"
# The same library once more, in a process of its own.
PRISTINE_AGAIN, ON_AGAIN = "pristine_again", "on_again"
TRIAL = "trial_"  # and the name of a folder of benchmarks/gpu/trials


class Layout:
    """`build`: the tree with our library and the programs; `pristine`: the one with upstream's. In a bundle both are the bundle's."""

    def __init__(self, device, build, pristine, service=None):
        self.device = device
        self.build, self.pristine = os.path.abspath(build), os.path.abspath(pristine)
        self.ranks_program = os.path.join(self.build, "bin", "ccld-gpu-ranks")
        self.workload = os.path.join(self.build, "bin", "ccld-workload")
        self.service = os.path.abspath(service or os.path.join(self.build, "bin", "ccld"))
        self.product = os.path.join(self.build, "nccl", "lib")
        self.shared_libraries = os.path.join(self.build, "lib")
        self._libraries = {
            PRISTINE: os.path.join(self.pristine, "nccl", "one_gpu"),
            OFF: os.path.join(self.build, "nccl", "one_gpu"),
            ON: os.path.join(self.build, "nccl", "one_gpu"),
            WAITS: os.path.join(self.build, "nccl", "publish_in_waits"),
            BEGIN_AND_END: os.path.join(self.build, "nccl", "only_begin_and_end"),
            STEPS: os.path.join(self.build, "nccl", "only_steps"),
        }
        self._libraries[PRISTINE_AGAIN], self._libraries[ON_AGAIN] = self._libraries[PRISTINE], self._libraries[ON]
        for library in glob.glob(os.path.join(self.build, "nccl", TRIAL + "*", "libnccl.so.2")):
            folder = os.path.dirname(library)
            self._libraries[os.path.basename(folder)] = folder
        self.transport = {}  # NCCL's variables by which ranks of one process exchange data (environment.py)
        self.frames_refused = None  # why frames have no file here (registration.py)
        self.pristine_product = os.path.join(self.pristine, "nccl", "lib")

    def check(self):
        needed = [self.ranks_program, self.workload, self.service] + [
            os.path.join(folder, "libnccl.so.2")
            for folder in [self.product, self.pristine_product] + [self._libraries[name] for name in (PRISTINE, ON, BEGIN_AND_END, STEPS)]]
        for path in needed:
            if not os.path.exists(path):
                raise VerifyError("%s is missing: 'make gpu-verify' builds everything, or unpack a bundle and run its own scripts/gpu-verify" % path)
        return self

    def has(self, variant):
        return os.path.exists(os.path.join(self._libraries[variant], "libnccl.so.2"))

    def trials(self):
        return sorted(name for name in self._libraries if name.startswith(TRIAL))

    def library(self, variant):
        return self._libraries[variant]

    def loader_path(self, *folders):
        """LD_LIBRARY_PATH: these first, then what lies beside them, then what the caller has (its driver may be there)."""
        paths = list(folders)
        paths += [os.path.join(os.path.dirname(folder), "lib") for folder in folders]  # the CPU device
        paths.append(self.shared_libraries)
        paths += [path for path in os.environ.get("LD_LIBRARY_PATH", "").split(":") if path]
        return ":".join(dict.fromkeys(paths))


def in_bundle():
    return os.path.exists(os.path.join(ROOT, BUNDLE_FILE))


def bundle_facts():
    try:
        with open(os.path.join(ROOT, BUNDLE_FILE)) as file:
            return json.load(file)
    except FileNotFoundError:
        return {}
