"""`make demo-web`: a button plants a fault, the page names the rank, another button mends it, and Ctrl-C leaves nothing behind.

Usage: demo_web_test.py BUILD_FOLDER FOLDER_FOR_LOGS [unittest arguments]
"""
import json
import os
import re
import signal
import subprocess
import sys
import unittest
import urllib.error
import urllib.request

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "test", "support"))

from run.processes import state_of, wait_for  # noqa: E402

BUILD = OUT = None
SOON_S = 60
END_S = 30


def ask(url, body=None, kind="application/json"):
    request = urllib.request.Request(url, None if body is None else body.encode(), {"Content-Type": kind})
    with urllib.request.urlopen(request, timeout=30) as response:
        return response.read().decode()


class DemoWebTest(unittest.TestCase):
    def setUp(self):
        self.demo = subprocess.Popen([sys.executable, "-B", os.path.join(ROOT, "scripts", "demo-web"), "--build", BUILD, "--out", OUT, "--page-port", "0",
                                      "--control-port", "0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(self.end)
        said = ""
        for line in self.demo.stdout:
            said += line
            if line.startswith("Ctrl-C"):
                break
        addresses = re.findall(r"http://127\.0\.0\.1:\d+", said)
        self.assertEqual(len(addresses), 2, said)
        self.page, self.control = addresses

    def end(self):
        self.demo.kill()
        self.demo.communicate()

    def incidents(self, query=""):
        return json.loads(ask(self.page + "/v1/incidents" + query))["incidents"]

    def test_buttons_plant_and_mend_and_nothing_stays_behind(self):
        self.assertIn('id="stop"', ask(self.control + "/"))
        self.assertIn("<title>ccld</title>", ask(self.page + "/"))
        for wrong in (dict(body="", kind="text/plain"), dict(body="{}", kind="application/x-www-form-urlencoded")):
            with self.assertRaises(urllib.error.HTTPError) as refused:
                ask(self.control + "/stop", **wrong)
            self.assertEqual(refused.exception.code, 403)
            refused.exception.close()

        self.assertIn("Stop rank 2", json.loads(ask(self.control + "/stop", "{}"))["said"])
        self.assertTrue(wait_for(lambda: any(v["ranks"] == [2] and v["state"] == "confirmed" for v in self.incidents()), SOON_S, 0.1), self.incidents())
        self.assertIn("well", json.loads(ask(self.control + "/mend", "{}"))["said"])
        self.assertTrue(wait_for(lambda: not self.incidents("?open=1"), SOON_S, 0.1), self.incidents())

        with open("/proc/%d/task/%d/children" % (self.demo.pid, self.demo.pid)) as file:
            children = [int(pid) for pid in file.read().split()]
        self.assertGreaterEqual(len(children), 9)
        self.demo.send_signal(signal.SIGINT)
        said, _ = self.demo.communicate(timeout=END_S)
        self.assertIn("has been removed", said)
        self.assertEqual(self.demo.returncode, 0)
        self.assertEqual([pid for pid in children if state_of(pid) is not None], [])


if __name__ == "__main__":
    BUILD, OUT = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
