"""The page in a real browser beside a real job: a fault appears, names the rank, and goes, without a reload.

Usage: page_test.py BUILD_FOLDER FOLDER_FOR_SCREENSHOTS [unittest arguments]
"""
import os
import signal
import subprocess
import sys
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

import page_case  # noqa: E402
from browser import Browser  # noqa: E402
from faults import inject  # noqa: E402
from faults.plan import Plan  # noqa: E402
from run.build import Build  # noqa: E402
from run.job import Job  # noqa: E402
from run.processes import wait_for  # noqa: E402

BUILD = None
PLAN = {
    "name": "page", "title": "the process of rank 2 is stopped while it loads data", "ranks": 4,
    "workload": {"operation": "allreduce", "bytes_min": "256K", "compute_ms": 5, "seconds": 600},
    "faults": [{"kind": "delay", "rank": 2, "ms": 20000, "after_round": 30}, {"kind": "sigstop", "rank": 2, "after_round": 30}],
    "expect": {"class": "H1", "ranks": [2]},
}


class PageTest(page_case.PageCase):
    def setUp(self):
        self.job = self.enterContext(Job(Build(BUILD), Plan(PLAN, "page_test"), os.path.join(self.out, "job")))
        self.browser = Browser()
        self.addCleanup(self.browser.end)

    def lines_not_shown(self, link):
        """What `ccld explain` says of the incident and the page does not; the title has the age of the hang in it."""
        explain = [os.path.join(BUILD, "bin", "ccld"), "explain", link.rsplit("/", 1)[1], "--http", self.job.service.http]
        said = subprocess.run(explain, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
        page = " ".join(self.browser.text().split())
        self.assertIn("process of rank 2 is stopped", said[0])
        return [line for line in said[1:] if " ".join(line[len("Where    "):].split()) not in page]

    def test_a_fault_appears_names_the_rank_and_goes_without_a_reload(self):
        self.browser.open(self.job.service.http + "/")
        self.browser.run("window.notReloaded = true")
        self.job.wait_ready()
        self.assert_soon(lambda: self.shows("page") and self.shows("no open incident"), "a healthy job is not shown")

        inject.plant(self.job.plan, self.job)
        self.assert_soon(lambda: self.shows("HANG: process of rank 2 is stopped"), "the fault is not shown")
        self.look("jobs")
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
        self.assert_soon(lambda: self.lines_not_shown(link) == [], "it does not say what a terminal says: %s" % self.lines_not_shown(link))
        self.look("incident")

        self.browser.run("window.asked = 0; const ask = window.fetch; window.fetch = (...what) => { ++window.asked; return ask(...what); };"
                         "window.prompt = (question) => question.startsWith('Who') ? 'alice' : 'x'.repeat(501);"
                         "document.getElementById('acknowledge').click()")
        self.assert_soon(lambda: self.shows("Acknowledge failed: note is longer than 500 bytes"), "a refusal is not shown")
        asked = self.browser.run("return window.asked")
        self.assert_soon(lambda: self.browser.run("return window.asked") > asked + 5, "the page does not ask again")
        self.assertTrue(self.shows("Acknowledge failed"), "a refusal goes by itself")
        self.browser.run("window.prompt = (question) => question.startsWith('Who') ? 'alice' : 'I resume it';"
                         "document.getElementById('acknowledge').click()")
        self.assert_soon(lambda: self.shows("confirmed, acknowledged") and self.shows("by alice") and self.shows("I resume it"),
                         "it is not acknowledged")
        self.assertFalse(self.shows("Acknowledge failed"))
        self.look("acknowledged")
        self.browser.run("document.getElementById('acknowledge').click()")
        self.assert_soon(lambda: not self.shows("acknowledged"), "the acknowledgement is not withdrawn")

        os.kill(pid, signal.SIGCONT)
        self.assert_soon(lambda: self.shows("resolved"), "it does not go")
        self.assertTrue(self.shows("Nothing: it went away."), self.browser.text())
        self.assertFalse(self.shows("kill -CONT"), self.browser.text())
        self.assertTrue(self.browser.run("return window.notReloaded === true"))
        self.assertEqual([text for text in self.browser.complaints() if "/ack - Failed to load resource" not in text], [])  # the one that was refused

    def test_it_fits_a_telephone_and_runs_nothing_but_its_own_script(self):
        with urllib.request.urlopen(self.job.service.http + "/") as response:
            self.assertIn("script-src 'self'", response.headers["Content-Security-Policy"])
            self.assertNotIn(b"http://", response.read())
        narrow = Browser(width=500, height=700)  # the narrowest window that Chromium makes; the frame below is 320 wide
        self.addCleanup(narrow.end)
        narrow.open(self.job.service.http + "/")
        self.assertTrue(wait_for(lambda: "Jobs" in narrow.text(), page_case.SOON_S, 0.1))
        narrow.run("document.body.style.width = '320px'")
        self.assertLessEqual(narrow.run("return document.body.scrollWidth"), 320)

    def test_an_incident_that_is_not_there_is_said(self):
        self.browser.open(self.job.service.http + "/i/4711")
        self.assert_soon(lambda: self.shows("there is no incident 4711"), "it says nothing")


if __name__ == "__main__":
    BUILD, page_case.PageCase.out = sys.argv[1:3]
    page_case.main(sys.argv[3:])
