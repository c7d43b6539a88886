"""`ccld-validate` as operators use it, with real NCCL on the CPU device, on loopback.

Usage: validate_test.py BUILD_FOLDER [unittest arguments]
"""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", ".."))
sys.path[:0] = [os.path.join(ROOT, "test", "support")]

from run.build import Build  # noqa: E402
from run.job import ENVIRONMENT, INHERITED_PREFIXES_REMOVED  # noqa: E402
from run.other_work import until_told  # noqa: E402
from run.processes import Child, SharedMemory, state_of, wait_for  # noqa: E402

BUILD = PROGRAM = None
LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_", "SLURM_", "OMPI_")
HEALTHY, SUSPECT, USAGE, NOT_MEASURED = 0, 1, 2, 3


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class ValidateTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="ccld-validate-test-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.address = "127.0.0.1:%d" % free_port()
        self.children = []
        self.shared_memory = SharedMemory()
        self.addCleanup(self.end)

    def end(self):
        self.shared_memory.watch(child.pid for child in self.children)
        for child in self.children:
            child.end()
        self.shared_memory.remove()

    def environment(self, rank=0, ranks=2, **more):
        variables = {name: value for name, value in os.environ.items() if not name.startswith(INHERITED_PREFIXES_REMOVED + LAUNCHERS)}
        variables.update(ENVIRONMENT, LD_LIBRARY_PATH=BUILD.library_folder, NCCL_SOCKET_IFNAME="lo", NCCL_DEBUG="", TMPDIR=self.folder,
                         NCCL_HOSTID="node%d" % (rank * 2 // ranks))
        variables.update(more)
        return variables

    def start(self, rank, ranks, *options, **more):
        command = [PROGRAM, "--ranks", str(ranks), "--rank", str(rank), "--meet", self.address, *options]
        child = Child("rank %d" % rank, command, os.path.join(self.folder, "out-%d" % rank), self.environment(rank, ranks, **more),
                      os.path.join(self.folder, "log-%d" % rank))
        self.children.append(child)
        return child

    def said(self, rank, file="log"):
        with open(os.path.join(self.folder, "%s-%d" % (file, rank)), encoding="utf-8") as text:
            return text.read()

    def run_all(self, ranks, *options, **more):
        for rank in range(ranks):
            self.start(rank, ranks, *options, **more)
        return [child.wait(120) for child in self.children]

    def measure(self, ranks, *options, healthy=False, **more):
        """As run_all(); again if the machine was too busy to tell, which is no failure, or if other work may have slowed a `healthy` GPU."""
        def ask():
            self.children.clear()
            return self.run_all(ranks, *options, **more)
        return until_told(ask, lambda statuses: statuses[0] == NOT_MEASURED and not self.said(0), lambda statuses: healthy and statuses[0] == SUSPECT)

    def alone(self, *arguments, **more):
        return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=120, env=self.environment(**more))

    def test_a_healthy_machine_is_cleared_and_its_past_serves_the_next_time(self):
        past = os.path.join(self.folder, "past.json")
        before = set(os.listdir("/dev/shm"))
        self.assertEqual(self.measure(4, "--save", past, healthy=True), [HEALTHY] * 4, self.said(0, "out"))
        self.assertEqual([name for name in os.listdir("/dev/shm") if name.startswith("nccl-") and name not in before], [])
        self.assertIn("Links of NCCL's own rings and trees in 4 passes", self.said(0, "out"))
        self.assertTrue(self.said(0, "out").endswith("Healthy: nothing is slower than its peers or its past.\n"))
        self.assertEqual([self.said(rank, "out") for rank in (1, 2, 3)], [""] * 3)
        with open(past, encoding="utf-8") as file:
            rows = json.load(file)["rows"]
        self.assertEqual({row["check"] for row in rows}, {"gemm", "memory", "host_to_device", "device_to_host", "link"})
        # The same machine was a hundred times faster: the past tells what peers cannot.
        for row in rows:
            for name in ("low_ms", "middle_ms", "high_ms"):
                row[name] /= 100
        with open(past, "w", encoding="utf-8") as file:
            json.dump({"schema": "ccld-validate-past/1", "rows": rows}, file)
        self.assertEqual(self.measure(4, "--past", past, "--json")[0], SUSPECT)
        document = json.loads(self.said(0, "out"))
        self.assertEqual({row["basis"] for row in document["rows"] if row["finding"] == "suspect"}, {"its past"})

    def test_a_slowed_gpu_is_named_by_rank_host_and_address(self):
        control = os.path.join(self.folder, "device")
        with open(control, "w", encoding="utf-8") as file:
            file.write("gpu 2 clock_slowdown 15\n")
        self.assertEqual(self.measure(4, "--json", CCLD_CPU_DEVICE_CONTROL=control)[0], SUSPECT)
        incident, = json.loads(self.said(0, "out"))["incidents"]
        culprit, = incident["culprits"]
        self.assertEqual((incident["class"], culprit["component"], culprit["condition"]), ("S1", "gpu", "gpu_slow"))
        self.assertEqual((culprit["rank"], culprit["host"], culprit["gpu"], culprit["bus_id"]), (2, "node1", 2, "0000:12:00.0"))

    def test_a_rank_that_never_comes_is_named_after_the_timeout(self):
        begun = time.monotonic()
        for rank in (0, 2):
            self.start(rank, 4, "--timeout", "2")
        self.assertEqual([child.wait(60) for child in self.children], [NOT_MEASURED, HEALTHY])
        self.assertEqual(self.said(0), "ccld-validate: ranks 1, 3 of 4 did not come to %s within 2 s\n" % self.address)
        self.assertLess(time.monotonic() - begun, 30)

    def test_without_rank_0_the_others_end_too(self):
        self.assertEqual(self.start(1, 2, "--timeout", "1").wait(60), NOT_MEASURED)
        self.assertEqual(self.said(1), "ccld-validate: rank 1: rank 0 says nothing at %s\n" % self.address)

    def test_a_rank_that_stops_in_the_middle_is_named_and_nobody_waits_for_ever(self):
        # Slow enough to be stopped in the middle: repetitions of a second.
        control = os.path.join(self.folder, "device")
        with open(control, "w", encoding="utf-8") as file:
            file.write("clock_slowdown 300\n")
        for rank in range(2):
            self.start(rank, 2, "--timeout", "4", CCLD_CPU_DEVICE_CONTROL=control)
        # It holds the lock of its turn once it measures.
        self.assertTrue(wait_for(lambda: any(name.endswith(".lock") for name in os.listdir(self.folder)), 30))
        self.children[1].signal(signal.SIGSTOP)
        self.assertTrue(wait_for(lambda: state_of(self.children[1].pid) == "T", 10))
        self.assertEqual(self.children[0].wait(60), NOT_MEASURED)
        self.assertRegex(self.said(0, "out"), r"rank 1 \(node1\) did not end '[^']+' within 4 s")

    def test_a_link_over_which_nothing_arrives_is_named_and_every_rank_ends(self):
        # Only kernels of NCCL have a second block: GPU 3 stops in the first one.
        control = os.path.join(self.folder, "device")
        with open(control, "w", encoding="utf-8") as file:
            file.write("gpu 3 freeze_block 1\n")
        two = dict.fromkeys(("NCCL_MIN_NCHANNELS", "NCCL_MIN_P2P_NCHANNELS", "NCCL_NCHANNELS_PER_PEER", "NCCL_NCHANNELS_PER_NET_PEER"), "2")
        for rank in range(4):
            self.start(rank, 4, "--timeout", "4", "--json", CCLD_CPU_DEVICE_CONTROL=control, **two)
        self.assertEqual([child.wait(60) for child in self.children][0], SUSPECT, self.said(0, "out"))
        incident, = json.loads(self.said(0, "out"))["incidents"]
        self.assertEqual(incident["class"], "H3")
        self.assertEqual({incident["culprits"][0]["rank"], incident["culprits"][0]["peer"]}, {2, 3})

    def test_ranks_are_started_on_hosts_and_the_result_is_that_of_rank_0(self):
        # Takes the place of ssh: a host is a node of this machine.
        starter = os.path.join(self.folder, "starter")
        with open(starter, "w", encoding="utf-8") as file:
            file.write('#!/bin/sh\n[ "$1" != broken ] || exit 255\nNCCL_HOSTID="$1" exec sh -c "$(echo "$2" | sed s/NCCL_HOSTID=[^\\ ]*//)"\n')
        os.chmod(starter, 0o755)
        port = str(free_port())

        def ask():
            done = self.alone("--hosts", "127.0.0.1,localhost", "--gpus", "2", "--ssh", starter, "--port", port, "--json")
            return done, json.loads(done.stdout)
        done, document = until_told(ask, lambda answer: answer[1]["verdict"] == "not_measured" and not answer[1]["failure"],
                                    lambda answer: answer[1]["verdict"] == "suspect")
        self.assertEqual((done.returncode, document["verdict"]), (HEALTHY, "healthy"), done.stdout + done.stderr)
        self.assertEqual([member["host"] for member in document["members"]], ["127.0.0.1"] * 2 + ["localhost"] * 2)
        done = self.alone("--hosts", "127.0.0.1,broken", "--gpus", "1", "--ssh", starter, "--port", port, "--timeout", "5")
        self.assertEqual(done.returncode, NOT_MEASURED)
        self.assertIn("rank 1 on broken cannot be run: '%s' ended with 255" % starter, done.stderr)
        done = self.alone("--hosts", "a,b", "--gpus", "1", "--print")
        self.assertEqual((done.returncode, len(done.stdout.splitlines())), (0, 2))
        self.assertTrue(done.stdout.startswith("ssh a "))

    def test_launchers_say_the_place(self):
        port = free_port() - 1
        for rank in range(2):
            child = Child("rank %d" % rank, [PROGRAM, "--json"], os.path.join(self.folder, "out-%d" % rank),
                          self.environment(rank, RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK=str(rank), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)),
                          os.path.join(self.folder, "log-%d" % rank))
            self.children.append(child)
        for child in self.children:
            child.wait(60)
        self.assertEqual([(member["rank"], member["gpu"]) for member in json.loads(self.said(0, "out"))["members"]], [(0, 0), (1, 1)])

    def test_wrong_usage_is_one_line_that_names_it(self):
        for arguments, what in ((["--ranks", "0"], "--ranks"), (["--rank", "x"], "--rank"), (["--what"], "--what"), ([], "--ranks and --rank are needed"),
                                (["--ranks", "2", "--rank", "2", "--meet", "a:1"], "--rank 2"), (["--ranks", "2", "--rank", "0"], "--meet"),
                                (["--ranks", "1", "--rank", "0", "--meet", "nowhere"], "'nowhere' is not an address"),
                                (["--set", "gemm=1"], "gemm=1"), (["--bytes", "1T"], "1T"), (["--hosts", "a", "--rank", "0"], "--hosts"),
                                (["--ranks", "1", "--rank", "0", "--past", "/none"], "--past: cannot read '/none'"), (["--gpus", "2"], "--hosts")):
            done = self.alone(*arguments)
            self.assertEqual((done.returncode, done.stdout), (USAGE, ""), arguments)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertIn(what, done.stderr)

    def test_a_gpu_that_is_not_there_is_said(self):
        done = self.alone("--ranks", "1", "--rank", "0", "--gpu", "99")
        self.assertEqual((done.returncode, done.stderr), (NOT_MEASURED, "ccld-validate: rank 0: --gpu 99: there are only 8 GPUs\n"))

    def test_a_single_gpu_without_a_past_is_not_called_healthy(self):
        done = self.alone("--ranks", "1", "--rank", "0", "--meet", self.address)
        self.assertEqual(done.returncode, NOT_MEASURED)
        self.assertIn("no peer of its kind, and no past", done.stdout)

    def test_nothing_is_left_behind(self):
        # Of an earlier process, which was killed and had a number that is used again.
        before = os.listdir("/dev/shm")
        self.assertEqual(self.measure(2, healthy=True), [HEALTHY] * 2)
        left = [name for name in os.listdir(self.folder) if name.startswith("ccld-validate-") and not name.endswith(".lock")]
        self.assertEqual(left, [])
        self.assertEqual([name for name in os.listdir("/dev/shm") if name not in before
                          and any(name.startswith("ccld-%d-" % child.pid) for child in self.children)], [])


if __name__ == "__main__":
    BUILD = Build(sys.argv.pop(1))
    PROGRAM = os.path.join(BUILD.folder, "bin", "ccld-validate")
    unittest.main()
