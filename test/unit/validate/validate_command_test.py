"""`ccld validate` as users run it: the command for the hosts that an incident in a file of verdicts names.

CCLD_EXECUTABLE names the program.
"""
import json
import os
import shutil
import socket
import subprocess
import tempfile
import unittest

CCLD = os.environ["CCLD_EXECUTABLE"]
NOT_MEASURED = 3


def culprit(host, peer_host=None):
    return {"rank": 0, "job_rank": None, "host": host, "pid": 1, "component": "link" if peer_host else "gpu", "peer_host": peer_host}


class ValidateCommand(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def run_it(self, culprits, *more, program=CCLD, incident="3", **environment):
        path = os.path.join(self.folder, "verdicts.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            file.write(json.dumps({"incident": 3, "run": "r", "revision": 1, "class": "S2", "kind": "SLOW", "state": "confirmed", "job": "j",
                                   "time": "2026-01-01T00:00:00.000Z", "culprits": culprits}) + "\n")
        return subprocess.run([program, "validate", "--incident", incident, "--file", path, *more], capture_output=True, text=True, timeout=60,
                              env=dict(os.environ, **environment))

    def test_the_command_names_each_host_once(self):
        done = self.run_it([culprit("node1", "node2"), culprit("node2", "node1")], "--gpus", "8")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "ccld-validate --hosts node1,node2 --gpus 8\n", ""))

    def test_of_a_single_host_it_says_what_is_not_tested(self):
        done = self.run_it([culprit("node1")])
        self.assertEqual((done.returncode, done.stdout), (0, "ccld-validate --hosts node1\n"))
        self.assertIn("--with adds a host", done.stderr)
        done = self.run_it([culprit("node1")], "--with", "node7,node1")
        self.assertEqual((done.stdout, done.stderr), ("ccld-validate --hosts node1,node7\n", ""))

    def test_a_name_that_a_job_made_up_gets_into_no_command(self):
        for name in ("a;reboot", "-oProxyCommand=x", "a b", "$(x)"):
            done = self.run_it([culprit(name)])
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn("is no name of a host", done.stderr)

    def test_an_incident_without_hosts_and_one_that_is_not_there_are_said(self):
        done = self.run_it([])
        self.assertEqual(done.returncode, 1)
        self.assertIn("incident 3 names no host", done.stderr)
        done = self.run_it([culprit("a")], incident="4")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no incident 4", done.stderr)

    def test_run_becomes_the_program_with_its_exit_status(self):
        # Beside a copy of this program, as packages install it.
        program = shutil.copy(CCLD, os.path.join(self.folder, "ccld"))
        stand_in = os.path.join(self.folder, "ccld-validate")
        with open(stand_in, "w", encoding="utf-8") as file:
            file.write('#!/bin/sh\necho "$@"\nexit 3\n')
        os.chmod(stand_in, 0o755)
        done = self.run_it([culprit("a", "b")], "--run", program=program)
        self.assertEqual((done.returncode, done.stdout), (3, "--hosts a,b\n"))

    def test_where_the_program_is_not_installed_it_says_so(self):
        program = shutil.copy(CCLD, os.path.join(self.folder, "ccld"))
        done = self.run_it([culprit("a", "b")], "--run", program=program, PATH="/nowhere")
        self.assertEqual(done.returncode, NOT_MEASURED)
        self.assertIn("cannot start ccld-validate", done.stderr)

    def test_what_keeps_a_test_from_being_made_is_never_taken_for_slow_hardware(self):
        self.assertEqual(self.run_it([], "--run").returncode, NOT_MEASURED)
        self.assertEqual(self.run_it([culprit("a")], "--run", incident="4").returncode, NOT_MEASURED)
        with socket.socket() as nobody:  # bound, and does not listen
            nobody.bind(("127.0.0.1", 0))
            done = subprocess.run([CCLD, "validate", "--in-job", "--communicator", "5c1d", "--http", "http://127.0.0.1:%d" % nobody.getsockname()[1]],
                                  capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, NOT_MEASURED, done.stderr)


if __name__ == "__main__":
    unittest.main()
