"""The page of jobs that are too large to be run here: 1,000 and 100,000 ranks, from snapshots that a program serves.

Usage: large_job_test.py PROGRAM FOLDER_FOR_SCREENSHOTS [unittest arguments]
"""
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

import page_case  # noqa: E402

PROGRAM = None
WORST_ROWS = 50
PICTURES = "[...document.querySelectorAll('#calls canvas')].filter(canvas => !canvas.closest('.row'))"


class LargeJobTest(page_case.PageCase):
    def start(self, ranks, incident):
        self.program = subprocess.Popen([PROGRAM, str(ranks)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end)
        self.address = "http://127.0.0.1:%s/i/%d" % (self.program.stdout.readline().split()[1], incident)
        self.browse(self.address)
        self.assert_soon("return document.querySelector('#strip .marker.onset') !== null", "the page is not complete")

    def end(self):
        self.program.stdin.close()
        self.program.wait(30)
        self.program.stdout.close()

    def rows(self):
        return self.browser.run("return [...document.querySelectorAll('#calls .row')].map(row => [row.querySelector('.who').firstChild.textContent, row.classList.contains('culprit')])")

    def red_rows(self, picture):
        """Of a picture, those that are red from left to right."""
        return self.browser.run(
            "const canvas = (%s)[%d], w = canvas.width;"
            "const data = canvas.getContext('2d').getImageData(0, 0, w, canvas.height).data, red = [];"
            "for (let y = 0; y < canvas.height; ++y) {"
            "  let n = 0; for (let x = 0; x < w; ++x) n += data[4 * (y * w + x)] - data[4 * (y * w + x) + 1] > 60 ? 1 : 0;"
            "  if (n > 0.9 * w) red.push(y); }"
            "return [red, canvas.height]" % (PICTURES, picture))

    def assert_well_made(self, name):
        self.look(name)
        self.assert_it_fits_a_phone(name)
        self.assert_it_is_quick(self.address)
        self.assertEqual(self.browser.complaints(), [])

    def test_a_thousand_ranks_are_the_worst_ones_and_a_picture_by_host_with_one_stripe(self):
        self.start(1000, 1)
        rows = self.rows()
        self.assertEqual(rows[0], ["rank 600", True])
        self.assertEqual(len(rows), WORST_ROWS)
        red, height = self.red_rows(0)
        self.assertEqual(len(red), 1)
        self.assertAlmostEqual(red[0] / height, 0.6, delta=0.02)
        self.assert_well_made("ranks-1000")

    def test_one_moment_is_marked_in_all_pictures_and_told(self):
        self.start(1000, 1)
        # In one script: the pictures are drawn anew every second.
        point = ("const point = (picture, part) => { const box = picture.getBoundingClientRect();"
                 "  picture.dispatchEvent(new PointerEvent('pointermove', {clientX: box.left + part * box.width, bubbles: true})); };"
                 "const lines = (selector) => [...document.querySelectorAll(selector)].map((e) => [e.hidden, parseFloat(e.style.left)]);"
                 "const words = () => document.querySelector('.cursor-words').textContent;")
        plots, said = self.browser.run(point + "point(document.getElementById('plot-rate'), 0.9); return [lines('#strip .cursor'), words()]")
        self.assertEqual(len(plots), 2)
        for hidden, left in plots:
            self.assertFalse(hidden)
            self.assertAlmostEqual(left, 90, delta=0.5)
        self.assertRegex(said, r"^\d+:\d\d:\d\d.*: .* calls a second; a call takes ")
        rows, said = self.browser.run(point + "point(document.querySelector('#calls .culprit .cells'), 0.5); return [lines('#calls .row .cursor'), words()]")
        self.assertEqual(len(rows), WORST_ROWS)
        self.assertEqual({(hidden, left) for hidden, left in rows}, {(False, rows[0][1])})
        self.assertRegex(said, r"rank 600 on \S+, .* #\d+: .* late")
        plots = self.browser.run(point + "point(document.querySelector('#calls .culprit .cells'), 0.5); return lines('#strip .cursor')")
        self.assertEqual([hidden for hidden, _ in plots], [False, False])
        # The XID came a second before the onset.
        seen = self.browser.run("return [...document.querySelectorAll('#strip .marker.seen, #strip .marker.onset')].map((e) => [e.className, parseFloat(e.style.left), e.title])")
        self.assertEqual([name for name, _, _ in seen], ["marker seen", "marker onset"] * 2)
        self.assertAlmostEqual(seen[1][1] - seen[0][1], 100 / 900, delta=0.02)
        self.assertRegex(seen[0][2], r"^\d+:\d\d:\d\d: .*XID, rank 600: 79 XID$")
        # By keyboard.
        said = self.browser.run(point + "const plot = document.getElementById('plot-duration'); plot.focus();"
                                "for (const key of ['Escape', 'ArrowLeft', 'ArrowLeft']) plot.dispatchEvent(new KeyboardEvent('keydown', {key}));"
                                "return [plot.tabIndex, lines('#strip .cursor')[0], words()]")
        self.assertEqual(said[0], 0)
        self.assertFalse(said[1][0])
        self.assertRegex(said[2], r"^\d+:\d\d:\d\d")
        self.assertEqual(self.browser.run(point + "document.getElementById('plot-duration').dispatchEvent(new PointerEvent('pointerleave'));"
                                          "return lines('.cursor').filter(([hidden]) => !hidden).length"), 0)
        self.assertEqual(self.browser.complaints(), [])

    def test_a_hundred_thousand_ranks_are_groups_of_hosts_that_can_be_opened(self):
        self.start(100000, 1)
        self.assertEqual(self.rows()[0], ["rank 60000", True])
        red, height = self.red_rows(0)
        self.assertLessEqual(height, 200)
        self.assertEqual(len(red), 1)
        # The group of the stripe, by the keyboard's way: the list.
        self.browser.run("const select = document.getElementById('group'); select.focus(); select.selectedIndex = %d; select.dispatchEvent(new Event('change'))" % (red[0] + 1))
        self.assert_soon("return (%s).length === 2" % PICTURES, "the group is not opened")
        self.assertEqual(self.browser.run("return document.activeElement.id"), "group")
        red, _ = self.red_rows(1)
        self.assertEqual(len(red), 1)
        self.assert_well_made("ranks-100000")

    def test_equal_waiters_of_a_large_hang_are_one_box(self):
        self.start(1000, 2)
        boxes = self.browser.run("return [...document.querySelectorAll('#chain .box')].map(box => box.firstChild.textContent)")
        self.assertEqual(boxes, ["999 ranks", "rank 2"])
        self.assert_well_made("hang-1000")


if __name__ == "__main__":
    PROGRAM, page_case.PageCase.out = sys.argv[1:3]
    page_case.main(sys.argv[3:])
