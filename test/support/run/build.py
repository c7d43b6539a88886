"""Where the things to run lie in a build tree."""
import os

from .errors import RunError


class Build:
    def __init__(self, folder):
        self.folder = os.path.abspath(folder)
        self.service = os.path.join(self.folder, "bin", "ccld")
        self.workload = os.path.join(self.folder, "bin", "ccld-workload")
        self.library_folder = os.path.join(self.folder, "nccl", "lib")
        self.plugin_folder = os.path.join(self.folder, "test", "lib")

    def check(self):
        for path in (self.service, self.workload, os.path.join(self.library_folder, "libnccl.so.2")):
            if not os.path.exists(path):
                raise RunError("%s is missing: build it first with 'make build'" % path)
        return self
