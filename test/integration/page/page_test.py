"""The page in a real browser beside a real job: a fault appears, names the rank, and goes, without a reload.

Usage: page_test.py BUILD_FOLDER FOLDER_FOR_SCREENSHOTS [unittest arguments]
"""
import os
import signal
import subprocess
import sys
import unittest
import urllib.request

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "test", "support"))
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

from browser import Browser, why_not  # noqa: E402
from faults import inject  # noqa: E402
from faults.plan import Plan  # noqa: E402
from run.build import Build  # noqa: E402
from run.job import Job  # noqa: E402
from run.processes import wait_for  # noqa: E402

SKIPPED = 77
BUILD = OUT = None
PLAN = {
    "name": "page", "title": "the process of rank 2 is stopped while it loads data", "ranks": 4,
    "workload": {"operation": "allreduce", "bytes_min": "256K", "compute_ms": 5, "seconds": 600},
    "faults": [{"kind": "delay", "rank": 2, "ms": 20000, "after_round": 30}, {"kind": "sigstop", "rank": 2, "after_round": 30}],
    "expect": {"class": "H1", "ranks": [2]},
}
SOON_S = 30  # a busy machine starts a browser slowly


class PageTest(unittest.TestCase):
    def setUp(self):
        self.job = self.enterContext(Job(Build(BUILD), Plan(PLAN, "page_test"), os.path.join(OUT, "job")))
        self.browser = Browser()
        self.addCleanup(self.browser.end)

    def assert_soon(self, condition, text):
        self.assertTrue(wait_for(condition, SOON_S, 0.1), "%s; the page says: %s" % (text, self.browser.text()))

    def shows(self, text):
        return text in self.browser.text()

    def test_a_fault_appears_names_the_rank_and_goes_without_a_reload(self):
        self.browser.open(self.job.service.http + "/")
        self.browser.run("window.notReloaded = true")
        self.job.wait_ready()
        self.assert_soon(lambda: self.shows("page") and self.shows("no open incident"), "a healthy job is not shown")

        inject.plant(self.job.plan, self.job)
        self.assert_soon(lambda: self.shows("HANG: process of rank 2 is stopped"), "the fault is not shown")
        self.browser.screenshot(os.path.join(OUT, "jobs.png"))
        self.assertTrue(self.browser.run("return document.title").startswith("(!)"))
        self.assertTrue(self.browser.run("return window.notReloaded === true"))
        link = self.browser.run("return document.querySelector('#incidents a').pathname")
        self.assertRegex(link, r"^/i/\d+$")

        self.browser.open(self.job.service.http + link)
        self.browser.run("window.notReloaded = true")
        self.assert_soon(lambda: self.shows("confirmed"), "it is not confirmed")
        pid = self.job.children[2].pid
        self.assertTrue(self.shows("pid %d" % pid), self.browser.text())
        self.assertTrue(self.shows("kill -CONT %d" % pid), self.browser.text())
        self.assertEqual(self.browser.run("return document.querySelector('.box.culprit').firstChild.textContent"), "rank 2")
        # The same words as on a terminal.
        said = subprocess.run([os.path.join(BUILD, "bin", "ccld"), "explain", link.rsplit("/", 1)[1], "--http", self.job.service.http],
                              stdout=subprocess.PIPE, text=True, check=True).stdout
        self.assertIn("process of rank 2 is stopped", said)
        where = next(line.split(None, 1)[1] for line in said.splitlines() if line.startswith("Where"))
        self.assertTrue(self.shows(where), (where, self.browser.text()))
        self.browser.screenshot(os.path.join(OUT, "incident.png"))

        self.browser.run("window.prompt = (question) => question.startsWith('Who') ? 'alice' : 'I resume it';"
                         "document.getElementById('acknowledge').click()")
        self.assert_soon(lambda: self.shows("confirmed, acknowledged") and self.shows("by alice") and self.shows("I resume it"),
                         "it is not acknowledged")
        self.browser.screenshot(os.path.join(OUT, "acknowledged.png"))
        self.browser.run("document.getElementById('acknowledge').click()")
        self.assert_soon(lambda: not self.shows("acknowledged"), "the acknowledgement is not withdrawn")

        os.kill(pid, signal.SIGCONT)
        self.assert_soon(lambda: self.shows("resolved"), "it does not go")
        self.assertTrue(self.shows("Nothing: it went away."), self.browser.text())
        self.assertFalse(self.shows("kill -CONT"), self.browser.text())
        self.assertTrue(self.browser.run("return window.notReloaded === true"))
        self.assertEqual(self.browser.complaints(), [])

    def test_it_fits_a_telephone_and_runs_nothing_but_its_own_script(self):
        with urllib.request.urlopen(self.job.service.http + "/") as response:
            self.assertIn("script-src 'self'", response.headers["Content-Security-Policy"])
            self.assertNotIn(b"http://", response.read())
        narrow = Browser(width=500, height=700)  # the narrowest window that Chromium makes; the frame below is 320 wide
        self.addCleanup(narrow.end)
        narrow.open(self.job.service.http + "/")
        self.assertTrue(wait_for(lambda: "Jobs" in narrow.text(), SOON_S, 0.1))
        narrow.run("document.body.style.width = '320px'")
        self.assertLessEqual(narrow.run("return document.body.scrollWidth"), 320)

    def test_an_incident_that_is_not_there_is_said(self):
        self.browser.open(self.job.service.http + "/i/4711")
        self.assert_soon(lambda: self.shows("there is no incident 4711"), "it says nothing")


if __name__ == "__main__":
    BUILD, OUT = sys.argv[1:3]
    os.makedirs(OUT, exist_ok=True)
    reason = why_not()
    if reason:
        print("skipped: " + reason)
        sys.exit(SKIPPED)
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
