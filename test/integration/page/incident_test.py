"""What the page shows of an incident, in a real browser beside a real job of 8 ranks: of slowness who is late, where the loss lies and what
an iteration would take; of a hang the chain of waits; of both when the job changed.

Usage: incident_test.py BUILD_FOLDER FOLDER_FOR_SCREENSHOTS [unittest arguments]
"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

import page_case  # noqa: E402
from page_case import ROOT  # noqa: E402
from faults import inject  # noqa: E402
from faults import plan as plans  # noqa: E402
from run.build import Build  # noqa: E402
from run.job import Job  # noqa: E402

BUILD = None
# Frozen before the ranks call, so that not one step of the operation is made on that channel.
FROZEN = {
    "name": "frozen", "title": "channel 1 of rank 3's GPU freezes between two operations", "ranks": 8,
    "workload": {"operation": "allreduce", "bytes_min": "1M", "compute_ms": 100, "seconds": 600},
    "environment": {"NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple"},
    "faults": [{"kind": "freeze_channel", "rank": 3, "channel": 1, "before_round": 30}],
    "expect": {"class": "H3", "ranks": [3]},
}
PLANS = os.path.join(ROOT, "test", "support", "faults", "plans")
SCRIPT_BYTES_MAX = 300 * 1024
RANK_ROWS = "[...document.querySelectorAll('#progress tbody tr')].map(row => [row.className, row.querySelector('.channels .unseen').textContent])"


def thresholds():
    return plans.read_json(os.path.join(PLANS, "thresholds.json"))


class IncidentTest(page_case.PageCase):
    def start(self, plan):
        """A job with that fault planted, and a browser on its incident once it is confirmed."""
        name = plan.name
        self.job = self.enterContext(Job(Build(BUILD), plan, os.path.join(self.out, name), history=True))
        self.job.wait_ready()
        self.browse(self.job.service.http + "/")
        inject.plant(plan, self.job)
        self.assert_soon("return document.querySelector('#incidents a') !== null", "the fault is not shown")
        self.browser.open(self.job.service.http + self.browser.run("return document.querySelector('#incidents a').pathname"))
        self.assert_soon("return document.querySelector('.state.confirmed') !== null", "it is not confirmed")

    def assert_strip_has_the_onset(self):
        self.assert_soon("return document.querySelectorAll('#strip rect.rate').length > 0", "no calls are counted")
        self.assert_soon("return document.querySelectorAll('#strip .marker.onset').length === 2", "the onset is not marked")
        left = self.browser.run("return document.querySelector('#strip .marker.onset').style.left")
        self.assertGreater(float(left.rstrip("%")), 0)
        self.assertLess(float(left.rstrip("%")), 100)
        self.assert_soon("return document.querySelectorAll('#strip .marker.revision').length > 0", "revisions are not marked")

    def test_a_slow_gpu_is_a_stripe_of_late_calls_with_its_loss_and_the_iteration_without_it(self):
        self.start(plans.load(os.path.join(PLANS, "demo", "s1.json"), thresholds()))
        self.assert_soon("return /last 100 calls/.test(document.querySelector('#calls h2')?.textContent)", "not a hundred calls are shown")
        rows = self.browser.run("return [...document.querySelectorAll('#calls .row')].map(row => [row.querySelector('.who').firstChild.textContent,"
                                "row.classList.contains('culprit'), row.querySelector('canvas').width])")
        self.assertEqual([row[0] for row in rows], ["rank %d" % rank for rank in range(8)])
        self.assertEqual([row[0] for row in rows if row[1]], ["rank 6"])
        self.assertEqual({row[2] for row in rows}, {100})
        # The culprit's row has the colour of lateness, nearly all the way; the others' do not.
        redness = self.browser.run(
            "return [...document.querySelectorAll('#calls .row canvas')].map(canvas => {"
            "  const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, 1).data;"
            "  let red = 0; for (let i = 0; i < data.length; i += 4) red += data[i] - data[i + 1] > 60 ? 1 : 0;"
            "  return red; })")
        self.assertGreater(redness[6], 60, redness)
        self.assertLess(max(redness[:6] + redness[7:]), 30, redness)

        self.assertRegex(self.browser.run("return document.querySelector('#loss .hit').textContent"), r"GPU\d+ %rank 6")
        gain = self.browser.run("return document.getElementById('gain').innerText")
        self.assertRegex(gain, r"(?s)now.*m?s.*without the cause.*m?s")
        self.assert_strip_has_the_onset()
        self.look("slow")
        self.assert_it_fits_a_phone("slow")
        self.browser.prefer_dark(True)
        self.look("slow-dark")
        self.browser.prefer_dark(False)

        # The text alternatives of pictures, and what a screen reader is told.
        unnamed = self.browser.run("return [...document.querySelectorAll('canvas, svg')].filter(e => !e.getAttribute('aria-label')).length")
        self.assertEqual(unnamed, 0)
        self.assertIn("rank 6", self.browser.run("return document.getElementById('news').textContent"))

        # A keyboard's place stays although the page is drawn anew, and opens what is closed.
        self.browser.run("document.getElementById('copy-explain').focus(); window.old = document.querySelector('#calls')")
        self.assert_soon("return document.querySelector('#calls') !== window.old", "it is not drawn anew")
        self.assertEqual(self.browser.run("return document.activeElement.id"), "copy-explain")
        for _ in range(3):
            self.browser.press("Tab")
            if self.browser.run("return document.activeElement.id") == "all-summary":
                break
        self.browser.press("Enter")
        self.assertTrue(self.browser.run("return document.activeElement.id === 'all-summary'"))

        self.assert_soon("return /ccld trace .*ccldrec/.test(document.getElementById('take').innerText)", "the recording is not offered")
        self.assertRegex(self.browser.run("return document.getElementById('take').innerText"), r"ccld ack \d+")
        self.assertEqual(self.browser.complaints(), [])

    def test_a_frozen_channel_is_the_end_of_a_chain_of_waits(self):
        self.start(plans.Plan(FROZEN, "incident_test", thresholds()))
        self.assert_soon("return document.querySelectorAll('#chain .box').length >= 3", "there is no chain")
        boxes = self.browser.run("return [...document.querySelectorAll('#chain .box')].map(box => box.firstChild.textContent)")
        self.assertLessEqual(len(boxes), 12)
        self.assertEqual(boxes[-1], "rank 3")
        self.assertEqual(self.browser.run("return document.querySelector('#chain li:last-child').className"), "box culprit")
        arrows = self.browser.run("return [...document.querySelectorAll('#chain .arrow')].map(arrow => arrow.textContent)")
        self.assertEqual(len(arrows), len(boxes) - 1)
        self.assertRegex(arrows[-1], r"step \d+ wanted, (\d+|none) posted.*channel 1, .*s")
        self.assertRegex(self.browser.run("return document.getElementById('progress').innerText"),
                         r"(?s)entered\s+8 of 8 ranks.*launched\s+8 of 8.*begun on the GPU\s+8 of 8.*done\s+0 of 8")
        # Everybody waits on the frozen channel, and the culprit for nobody.
        self.assert_soon("return (%s).every(([who, channels]) => channels === (who === 'culprit' ? 'none' : '1'))" % RANK_ROWS, "channels are not told")
        self.assertEqual([row[0] for row in self.browser.run("return " + RANK_ROWS)], ["", "", "", "culprit", "", "", "", ""])
        self.assert_strip_has_the_onset()
        self.look("hang")
        self.assert_it_fits_a_phone("hang")

        self.assert_it_is_quick(self.browser.run("return location.href"))
        self.assertIn("rank 3", self.browser.text())
        bytes_of_scripts = self.browser.run("return performance.getEntriesByType('resource').filter(e => e.name.endsWith('.js')).reduce((n, e) => n + e.decodedBodySize, 0)")
        self.assertGreater(bytes_of_scripts, 0)
        self.assertLess(bytes_of_scripts, SCRIPT_BYTES_MAX)
        self.assertEqual(self.browser.complaints(), [])


if __name__ == "__main__":
    BUILD, page_case.PageCase.out = sys.argv[1:3]
    page_case.main(sys.argv[3:])
