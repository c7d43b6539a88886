"""The scripts of scripts/deploy/slurm, run with a stand-in for Slurm: its variables, and a scontrol that lists the nodes."""
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", ".."))
SCRIPTS = os.path.join(ROOT, "scripts", "deploy", "slurm")
CCLD = os.environ.get("CCLD_EXECUTABLE", os.path.join(ROOT, "build", "dev", "bin", "ccld"))
NODES = ("localhost", "node2", "node3")
NOBODY = 65534


def is_free(port):
    with socket.socket() as probe:
        try:
            probe.bind(("0.0.0.0", port))
            return True
        except OSError:
            return False


def job_id_with_free_ports():
    while True:
        job_id = random.randrange(1, 5000)
        if is_free(20000 + job_id * 2) and is_free(20001 + job_id * 2):
            return job_id


def is_alive(pid):
    try:
        with open("/proc/%d/stat" % pid) as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class SlurmTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        os.chmod(self.folder, 0o755)  # the job's user goes through it
        self.scripts = self.path("slurm")
        shutil.copytree(SCRIPTS, self.scripts)
        os.mkdir(self.path("lib"))
        open(self.path("lib/libnccl.so.2"), "w").close()
        os.mkdir(self.path("bin"))
        self.write("bin/scontrol", "#!/bin/sh\n[ \"$*\" = 'show hostnames localhost,node[2-3]' ] && printf '%s\\n' " + " ".join(NODES) + "\n", 0o755)
        self.configure(CCLD)
        self.job_id = job_id_with_free_ports()
        self.user = os.getuid()
        if self.user == 0 and subprocess.run(["setpriv", "--reuid", str(NOBODY), "test", "-x", CCLD]).returncode == 0:
            self.user = NOBODY
        self.addCleanup(self.kill_service)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text, mode=0o644):
        with open(self.path(name), "w") as file:
            file.write(text)
        os.chmod(self.path(name), mode)

    def configure(self, ccld, who_may_speak="CCLD_INSECURE=1"):
        self.write("slurm/ccld.conf", "CCLD=%s\nCCLD_LIBRARIES=%s\nCCLD_RUN=%s\nCCLD_LOG=%s\n%s\n" % (
            ccld, self.path("lib"), self.path("run"), self.path("log"), who_may_speak))

    def run_script(self, name, node="localhost", **more):
        environment = {"PATH": self.path("bin"), "SLURM_JOB_ID": str(self.job_id), "SLURM_JOB_UID": str(self.user),
                       "SLURM_JOB_NODELIST": "localhost,node[2-3]", "SLURMD_NODENAME": node}
        environment.update(more)
        return subprocess.run(["/bin/bash", os.path.join(self.scripts, name)], env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=40)

    def service_pid(self):
        try:
            with open(self.path("run/%d" % self.job_id)) as file:
                return int(file.read())
        except OSError:
            return None

    def kill_service(self):
        pid = self.service_pid()
        if pid and is_alive(pid):
            os.kill(pid, signal.SIGKILL)

    def exported(self, output):
        pairs = [line.split(" ", 1)[1].split("=", 1) for line in output.splitlines()]
        self.assertTrue(all(line.startswith("export ") for line in output.splitlines()), output)
        return dict(pairs)

    def test_the_first_node_gets_a_service_that_the_tasks_reach_and_the_epilog_ends(self):
        prolog = self.run_script("prolog")
        self.assertEqual((prolog.returncode, prolog.stdout, prolog.stderr), (0, "", ""))
        pid = self.service_pid()
        self.assertTrue(is_alive(pid))
        self.assertEqual(os.stat("/proc/%d" % pid).st_uid, self.user)

        variables = self.exported(self.run_script("task_prolog", "node2").stdout)
        host, port = variables["NCCL_PROBE_ENDPOINT"].split("://")[1].rsplit(":", 1)
        socket.create_connection((host, int(port)), timeout=5).close()
        with open(self.path("log/%d/ready.json" % self.job_id)) as file:
            ready = json.load(file)
        self.assertEqual(ready["pid"], pid)
        subprocess.run([CCLD, "status", "--http", ready["http"]], check=True, stdout=subprocess.DEVNULL)

        epilog = self.run_script("epilog")
        self.assertEqual((epilog.returncode, epilog.stderr), (0, ""))
        self.assertFalse(is_alive(pid))
        self.assertEqual(os.listdir(self.path("run")), [])
        with open(self.path("log/%d/log" % self.job_id)) as file:
            self.assertIn("listening on", file.read())

    def test_with_a_folder_of_keys_the_service_demands_them_and_the_tasks_have_them(self):
        keys = self.path("keys")
        os.mkdir(keys)
        public = subprocess.run([CCLD, "keys", "make", os.path.join(keys, "service.key")], check=True, stdout=subprocess.PIPE, text=True).stdout
        with open(os.path.join(keys, "service.pub"), "w") as file:
            file.write(public)
        probe = subprocess.run([CCLD, "keys", "make", os.path.join(keys, "probe.key")], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        subprocess.run([CCLD, "keys", "add", probe, "--list", os.path.join(keys, "probes")], check=True)
        for name in os.listdir(keys):
            os.chown(os.path.join(keys, name), self.user, -1)
        self.configure(CCLD, "CCLD_KEYS=%s" % keys)
        prolog = self.run_script("prolog")
        self.assertEqual((prolog.returncode, prolog.stderr), (0, ""))
        variables = self.exported(self.run_script("task_prolog", "node2").stdout)
        with open(self.path("log/%d/ready.json" % self.job_id)) as file:
            ready = json.load(file)
        doctor = [CCLD, "doctor", "--http", ready["http"], "--endpoint", variables["NCCL_PROBE_ENDPOINT"], "--dir", self.folder]
        keyed = subprocess.run(doctor, env=dict(os.environ, **variables), stdout=subprocess.PIPE, text=True)
        self.assertIn("authentication is in force", keyed.stdout)
        self.assertEqual(keyed.returncode, 0, keyed.stdout)
        self.run_script("epilog")

    def test_without_keys_nothing_listens_unless_that_was_said(self):
        for said in ("", "CCLD_INSECURE=0"):
            self.configure(CCLD, said)
            prolog = self.run_script("prolog")
            self.assertEqual(prolog.returncode, 0)
            self.assertIn("set CCLD_KEYS", prolog.stderr)
            self.assertIsNone(self.service_pid())
            self.assertNotIn("NCCL_PROBE_ENDPOINT", self.exported(self.run_script("task_prolog", "node2").stdout))
            self.assertEqual(self.run_script("epilog").returncode, 0)

    def test_the_other_nodes_start_nothing(self):
        self.assertEqual(self.run_script("prolog", "node2").returncode, 0)
        self.assertIsNone(self.service_pid())
        self.assertEqual(self.run_script("epilog", "node2").returncode, 0)

    def test_the_list_of_nodes_may_have_its_old_name(self):
        output = self.run_script("task_prolog", SLURM_JOB_NODELIST="", SLURM_NODELIST="localhost,node[2-3]").stdout
        self.assertEqual(self.exported(output)["NCCL_PROBE_ENDPOINT"], "tcp://localhost:%d" % (20000 + self.job_id * 2))

    def test_a_second_prolog_of_the_job_starts_no_second_service(self):
        self.run_script("prolog")
        pid = self.service_pid()
        self.assertEqual(self.run_script("prolog").returncode, 0)
        self.assertEqual(self.service_pid(), pid)
        self.run_script("epilog")

    def test_a_library_path_of_the_task_is_kept_behind_ours(self):
        output = self.run_script("task_prolog", LD_LIBRARY_PATH="/opt/other").stdout
        self.assertEqual(self.exported(output)["LD_LIBRARY_PATH"], self.path("lib") + ":/opt/other")
        for inherited in (self.path("lib"), self.path("lib") + ":/opt/other"):
            self.assertNotIn("LD_LIBRARY_PATH", self.exported(self.run_script("task_prolog", LD_LIBRARY_PATH=inherited).stdout))

    def test_without_the_library_the_tasks_are_left_alone(self):
        os.unlink(self.path("lib/libnccl.so.2"))
        task_prolog = self.run_script("task_prolog")
        self.assertEqual((task_prolog.returncode, task_prolog.stdout), (0, ""))

    def test_a_service_that_cannot_start_is_said_and_does_not_fail_the_node(self):
        with socket.socket() as occupied:
            occupied.bind(("0.0.0.0", 20000 + self.job_id * 2))
            occupied.listen()
            prolog = self.run_script("prolog")
        self.assertEqual(prolog.returncode, 0)
        self.assertIn("the job runs without it", prolog.stderr)
        self.assertEqual(self.run_script("epilog").returncode, 0)

    def test_a_missing_program_is_said_and_does_not_fail_the_node(self):
        self.configure(self.path("no-such-program"))
        prolog = self.run_script("prolog")
        self.assertEqual(prolog.returncode, 0)
        self.assertIn("no-such-program", prolog.stderr)

    def test_the_epilog_ends_no_process_that_has_got_the_number_since(self):
        os.mkdir(self.path("run"))
        with subprocess.Popen(["sleep", "60"]) as other:
            self.write("run/%d" % self.job_id, "%d\n" % other.pid)
            self.assertEqual(self.run_script("epilog").returncode, 0)
            self.assertIsNone(other.poll())
            other.kill()
        self.assertEqual(os.listdir(self.path("run")), [])


if __name__ == "__main__":
    if not os.path.exists(CCLD):
        print("skipped: %s is not built" % CCLD)
        sys.exit(77)
    unittest.main()
