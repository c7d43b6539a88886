"""`ccld validate --in-job` as operators use it: real NCCL on the CPU device, jobs that train meanwhile.

Usage: in_job_test.py BUILD_FOLDER [unittest arguments]
"""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", ".."))
sys.path[:0] = [os.path.join(ROOT, "test", "support")]

from faults import inject  # noqa: E402
from faults.plan import Plan  # noqa: E402
from run.build import Build  # noqa: E402
from run.job import Job  # noqa: E402
from run.other_work import until_told  # noqa: E402
from run.processes import Child, wait_for  # noqa: E402

BUILD = None
HEALTHY, SUSPECT, USAGE, NOT_MEASURED = 0, 1, 2, 3
TRAFFIC = {"operation": "allreduce", "bytes_min": "256K", "compute_ms": 5, "check": 1, "seconds": 600}
LAYOUT = {"tp": 2, "pp": 2, "dp": 2, "bytes_min": "64K", "compute_ms": 2, "check": 1, "seconds": 600}
TOO_BUSY = "repetitions differ too much.* the machine is busy|^slow beside others, and not tested alone$"
# So long a job of four or eight ranks on two processors may hold for a whole test; real GPUs take a second.
HOLD_S = 30
# As the service has it by default. Plans of faults have less; but that a process holds it says once a second, on a busy machine more seldom.
HANG_SUSPECT_S = 5


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def plan(ranks=4, workload=None, faults=(), expect=None, validate="1", **settings):
    document = {"name": "in_job", "title": "in_job", "ranks": ranks, "workload": workload or TRAFFIC,
                "environment": {"NCCL_PROBE_VALIDATE": validate}, "settings": {"hang_suspect_s": HANG_SUSPECT_S, **settings}}
    if faults:
        document.update(faults=list(faults), expect=expect)
    return Plan(document, "in_job_test")


class InJobTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="ccld-in-job-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def start(self, *arguments, **more):
        self.job = self.enterContext(Job(BUILD, plan(*arguments, **more), os.path.join(self.folder, "job")))
        self.job.wait_ready()
        self.goes_on(5)

    def goes_on(self, rounds=10, ranks=None):
        """Every rank gets on by so many rounds, with right results."""
        slots = self.job.board.slots()
        ranks = range(len(slots)) if ranks is None else ranks
        self.assertTrue(wait_for(lambda: all(self.job.board.slot(r).completed_round >= slots[r].completed_round + rounds for r in ranks), 60),
                        [slot.completed_round for slot in self.job.board.slots()])
        self.assertEqual([slot.wrong_results for slot in self.job.board.slots()], [0] * len(slots))

    def communicators(self):
        document = subprocess.run([BUILD.service, "status", "--http", self.job.service.http, "--json"], capture_output=True, text=True, check=True)
        return json.loads(document.stdout)["communicators"]

    def command(self, *options, hold_s=HOLD_S):
        return [BUILD.service, "validate", "--in-job", "--http", self.job.service.http, "--meet", "127.0.0.1:%d" % free_port(),
                "--hold-s", str(hold_s), *options]

    def validate(self, *options, **more):
        return subprocess.run(self.command(*options, **more), capture_output=True, text=True, timeout=180)

    def measured(self, *options):
        """The test, again where the machine was too busy to tell: other programs share its processors. Beside them a GPU of the CPU device
        may be slow for a second, as its processor is; one that is slow by itself is so each time."""
        def ask():
            self.goes_on(2)
            return self.validate(*options, "--json")

        def tells_nothing(done):
            if done.returncode != NOT_MEASURED or not done.stdout:
                return False
            document = json.loads(done.stdout)
            self.assertIsNone(document["failure"], done.stdout)
            for row in document["rows"]:
                if row["finding"] == "not_measured":
                    self.assertRegex(row["why"], TOO_BUSY, done.stdout)
            return True
        return until_told(ask, tells_nothing, lambda done: done.returncode == SUSPECT)

    def quiet(self):
        """No incident was made of it."""
        self.job.service.verdicts.poll()
        self.assertEqual(self.job.service.verdicts.lines, [])

    def test_a_healthy_job_is_cleared_again_and_again_and_goes_on(self):
        self.start()
        communicator = self.communicators()[0]["communicator"]
        for _ in range(3):
            done = self.measured("--communicator", communicator)
            self.assertEqual(done.returncode, HEALTHY, done.stdout + done.stderr)
            document = json.loads(done.stdout)
            self.assertEqual([m["rank"] for m in document["members"]], [0, 1, 2, 3])
            self.assertEqual({row["check"] for row in document["rows"]}, {"gemm", "memory", "host_to_device", "device_to_host", "link"})
            self.assertEqual(document["orders"], "nccl")
            self.assertLess(document["held_s"], HOLD_S)
            self.goes_on()
        self.quiet()
        # That by which links are tested is nobody's communicator.
        self.assertEqual(len(self.communicators()), 1)

    def test_a_slow_gpu_of_an_incident_is_confirmed(self):
        fault = {"kind": "slow_clock", "rank": 2, "factor": 15.0, "after_round": 30}
        self.start(faults=[fault], expect={"class": "S1", "ranks": [2]}, slow_window_s=2.5)
        inject.plant(self.job.plan, self.job)
        verdicts = self.job.service.verdicts

        def confirmed():
            verdicts.poll()
            return [v for v in verdicts.lines if v["state"] == "confirmed"]
        self.assertTrue(wait_for(confirmed, 60))
        incident = confirmed()[-1]["incident"]
        done = self.validate("--incident", str(incident), "--json")
        self.assertEqual(done.returncode, SUSPECT, done.stdout + done.stderr)
        found, = json.loads(done.stdout)["incidents"]
        culprit, = found["culprits"]
        self.assertEqual((found["class"], culprit["rank"], culprit["component"]), ("S1", 2, "gpu"))
        self.goes_on(3)

    def test_each_communicator_of_a_layout_can_be_tested(self):
        self.start(8, LAYOUT)
        tested = 0
        for row in self.communicators():
            # A pipeline has Send and Recv only, so it is waited for in vain.
            done = self.measured("--communicator", row["communicator"], "--within-s", "2" if "pp" in row["comm_name"] else "10")
            if done.returncode == NOT_MEASURED and done.stdout:
                tested += 1  # the machine is too busy to tell, as measured() has seen: all came and were tested
            elif done.returncode == NOT_MEASURED:
                self.assertIn("did not call collective", done.stderr)
                self.assertIn("pp", row["comm_name"])
            else:
                self.assertEqual(done.returncode, HEALTHY, row["comm_name"] + done.stdout + done.stderr)
                tested += 1
            self.goes_on(2)
        self.assertGreaterEqual(tested, 3)
        self.quiet()

    def test_a_process_that_did_not_allow_it_is_not_held(self):
        self.start(validate="0")
        done = self.validate("--communicator", self.communicators()[0]["communicator"])
        self.assertEqual((done.returncode, done.stdout), (NOT_MEASURED, ""))
        self.assertRegex(done.stderr, r"^ccld: ranks 0, 1, 2, 3 of 4 did not come to 127\.0\.0\.1:\d+ within 15 s; "
                                      r"each process needs NCCL_PROBE_VALIDATE=1 when it starts\n$")
        self.goes_on()

    def test_a_job_that_holds_goes_on_when_who_asked_for_it_is_killed(self):
        self.start()
        communicator = self.communicators()[0]["communicator"]
        for _ in range(3):
            child = Child("validate", self.command("--communicator", communicator, hold_s=3), os.path.join(self.folder, "validate.log"))
            self.assertTrue(wait_for(self.stands, 60), "the job was not held")
            child.signal(signal.SIGKILL)
            child.end()
            self.goes_on()
            self.assertLess(max(slot.longest_round_ns for slot in self.job.board.slots()), 6e9)

    def stands(self):
        """No rank completes a round for 0.3 s: a round takes some milliseconds."""
        before = [slot.completed_round for slot in self.job.board.slots()]
        return not wait_for(lambda: [slot.completed_round for slot in self.job.board.slots()] != before, 0.3)

    def test_a_rank_that_stops_in_the_middle_keeps_nobody_longer_than_asked_for(self):
        self.start()
        communicator = self.communicators()[0]["communicator"]
        child = Child("validate", self.command("--communicator", communicator, hold_s=3), os.path.join(self.folder, "validate.log"))
        self.assertTrue(wait_for(self.stands, 60), "the job was not held")
        os.kill(self.job.board.slot(1).pid, signal.SIGSTOP)
        self.assertEqual(child.wait(60), NOT_MEASURED)
        os.kill(self.job.board.slot(1).pid, signal.SIGCONT)
        self.goes_on()
        done = self.measured("--communicator", communicator)
        self.assertEqual(done.returncode, HEALTHY, done.stdout + done.stderr)
        self.goes_on()

    def test_wrong_usage_is_one_line(self):
        for arguments, what in ((["--in-job"], "--incident or --communicator is needed"), ([], "--incident is needed"),
                                (["--communicator", "00000000000000ff"], "--in-job"), (["--in-job", "--hold-s", "0"], "--hold-s")):
            done = subprocess.run([BUILD.service, "validate", *arguments], capture_output=True, text=True, timeout=60)
            self.assertEqual((done.returncode, done.stdout), (USAGE, ""), arguments)
            self.assertIn(what, done.stderr)


if __name__ == "__main__":
    BUILD = Build(sys.argv.pop(1))
    unittest.main()
