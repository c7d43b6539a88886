"""Ranks on one GPU where NCCL has to refuse them, or was not asked to allow them.

Usage: refusals_test.py BUILD_FOLDER [unittest arguments]
       refusals_test.py --ranks PROCESS PROCESSES RANKS_HERE ID_FILE      one process of such a job
"""
import ctypes
import os
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", ".."))
sys.path[:0] = [os.path.join(ROOT, "scripts"), os.path.join(ROOT, "test", "support")]

from torch_demo.machine import CPU_DEVICE_ENVIRONMENT  # noqa: E402
from torch_demo.rank.stand_in_engine import Functions, NcclError, UniqueId, new_config  # noqa: E402

UPSTREAMS = "Duplicate GPU detected"
BUILD = None


def unique_id(call, path, first):
    identifier = UniqueId()
    if first:
        call.nccl("ncclGetUniqueId", ctypes.byref(identifier))
        with open(path + ".part", "wb") as file:
            file.write(bytes(identifier))
        os.rename(path + ".part", path)
    while not os.path.exists(path):
        time.sleep(0.005)
    with open(path, "rb") as file:
        ctypes.memmove(ctypes.addressof(identifier), file.read(), ctypes.sizeof(identifier))
    return identifier


def run_ranks(process, processes, here, path):
    """Makes the communicators of `here` ranks of this process, all on GPU 0; prints what NCCL's last error is."""
    call = Functions()
    identifier = unique_id(call, path, process == 0)
    handles = [ctypes.c_void_p() for _ in range(here)]
    configs = [new_config() for _ in range(here)]
    try:
        call.nccl("ncclGroupStart")
        for index, handle in enumerate(handles):
            call.cuda("cudaSetDevice", 0)
            call.nccl("ncclCommInitRankConfig", ctypes.byref(handle), processes * here, identifier, process * here + index, ctypes.byref(configs[index]))
        call.nccl("ncclGroupEnd")
    except NcclError as error:
        print("refused: %s" % error, flush=True)
        os._exit(1)
    print("made", flush=True)


class RefusalsTest(unittest.TestCase):
    def run_job(self, processes, here=1, **environment):
        """Output of the first process, errors of NCCL included."""
        with tempfile.TemporaryDirectory() as folder:
            base = {name: value for name, value in os.environ.items() if not name.startswith(("NCCL_", "CCLD_"))}
            base.update(CPU_DEVICE_ENVIRONMENT, LD_LIBRARY_PATH=os.path.join(BUILD, "nccl", "lib"), NCCL_DEBUG="WARN",
                        NCCL_PROBE_FRAMES_DIR=folder, **environment)
            jobs = [subprocess.Popen([sys.executable, "-B", os.path.abspath(__file__), "--ranks", str(process), str(processes), str(here),
                                      os.path.join(folder, "id")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=base)
                    for process in range(processes)]
            try:
                return [job.communicate(timeout=200)[0] for job in jobs][0]
            finally:
                for job in jobs:
                    job.kill()
                    job.communicate()

    def test_without_the_switch_upstreams_error_stays_and_a_warning_names_the_switch(self):
        output = self.run_job(2)
        self.assertRegex(output, "refused: .*" + UPSTREAMS)
        self.assertIn("CCLD_SHARE_GPUS=1", output)

    def test_with_the_switch_ranks_of_two_processes_are_accepted(self):
        output = self.run_job(2, CCLD_SHARE_GPUS="1")
        self.assertIn("made", output)
        self.assertNotIn(UPSTREAMS, output)

    def test_ranks_of_one_process_are_refused_even_so(self):
        output = self.run_job(1, here=2, CCLD_SHARE_GPUS="1")
        self.assertRegex(output, "refused: .*" + UPSTREAMS)
        self.assertIn("lets only ranks of different processes share one", output)

    def test_a_value_that_means_nothing_is_named_and_changes_nothing(self):
        output = self.run_job(2, CCLD_SHARE_GPUS="yes")
        self.assertIn('CCLD_SHARE_GPUS: must be 0 or 1, not "yes"', output)
        self.assertRegex(output, "refused: .*" + UPSTREAMS)


if __name__ == "__main__":
    if sys.argv[1] == "--ranks":
        run_ranks(*map(int, sys.argv[2:5]), sys.argv[5])
    else:
        BUILD = os.path.abspath(sys.argv.pop(1))
        unittest.main()
