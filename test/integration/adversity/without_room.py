"""The probe in a process that has no room for its threads, descriptors or memory, for every number of them up to what it
needs: the process goes on and ends by itself, and says what is missing in one line.

Usage: without_room.py PROBE_PROGRAM (the one of test/integration/delivery)
"""
import os
import resource
import signal
import subprocess
import sys
import tempfile
import unittest

PROBE = None
UNUSED_UID = 54321  # the limit of processes counts all of a user's, and does not hold for root
TIMEOUT_S = 30


class WithoutRoomTest(unittest.TestCase):
    def run_probe(self, limit, value, uid=None):
        """What it said."""
        with tempfile.TemporaryDirectory() as frames:
            os.chmod(frames, 0o777)

            def prepare():
                signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # which may come before the program waits for it
                if uid is not None:
                    os.setgroups([])
                    os.setgid(uid)
                    os.setuid(uid)
                resource.setrlimit(limit, (value, value))
            environment = dict(os.environ, NCCL_PROBE_ENDPOINT="tcp://127.0.0.1:9", NCCL_PROBE_FRAMES_DIR=frames, NCCL_PROBE_HEALTH_MS="100")
            child = subprocess.Popen([PROBE], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, preexec_fn=prepare, text=True)
            try:
                child.communicate(timeout=0.5)
            except subprocess.TimeoutExpired:
                child.send_signal(signal.SIGTERM)
            try:
                output, _ = child.communicate(timeout=TIMEOUT_S)
            except subprocess.TimeoutExpired:
                child.kill()
                self.fail("%s: it did not end" % value)
            # 127: not even the program could be loaded. 1: the communicator is not watched, as the program says itself.
            self.assertIn(child.returncode, (0, 1, 127), "with %s: %s" % (value, output))
            return [line for line in output.splitlines() if line.startswith("WARN")]

    def sweep(self, limit, values, missing, uid=None):
        said = {value: self.run_probe(limit, value, uid) for value in values}
        for value, lines in said.items():
            self.assertEqual(len(lines), len(set(lines)), "with %s said twice: %s" % (value, lines))
        self.assertTrue(any(missing in line for lines in said.values() for line in lines), said)
        return said

    @unittest.skipIf(os.getuid() != 0, "as root, to be another user")
    def test_threads(self):
        said = self.sweep(resource.RLIMIT_NPROC, range(1, 8), "thread", UNUSED_UID)
        self.assertTrue(any("no diagnostic thread, nothing is sent" in line for line in said[1]), said[1])
        self.assertTrue(any("no room for two more threads" in line for line in said[2]), said[2])

    def test_descriptors(self):
        self.sweep(resource.RLIMIT_NOFILE, range(4, 48), "no room for 24 more descriptors")

    def test_address_space(self):
        self.sweep(resource.RLIMIT_AS, [mib << 20 for mib in list(range(8, 64, 4)) + list(range(64, 400, 16))], "of address space")


if __name__ == "__main__":
    PROBE = sys.argv.pop(1)
    unittest.main()
