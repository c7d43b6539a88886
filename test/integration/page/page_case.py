"""What tests of the page have in common: a browser, waiting until the page says something, telephones, how quick it is, screenshots."""
import os
import sys
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "test", "support"))

from browser import Browser, why_not  # noqa: E402
from run.processes import wait_for  # noqa: E402

SKIPPED = 77
SOON_S = 60  # a busy machine starts a browser slowly, and a slow job shows after some windows
WIDTH, HEIGHT = 1000, 1600
PHONE_WIDTH, PHONE_HEIGHT = 320, 640
USABLE_WITHIN_MS = 1000
VERDICT_WITHIN_MS = 2000
LOADS = 3  # of which one is not disturbed by what else the machine does


class PageCase(unittest.TestCase):
    out = None  # folder of screenshots

    def browse(self, address, width=WIDTH, height=HEIGHT):
        self.browser = Browser(width, height)
        self.addCleanup(self.browser.end)
        self.browser.open(address)

    def shows(self, text):
        return text in self.browser.text()

    def assert_soon(self, condition, text):
        """`condition`: a script for the page, or something to call."""
        holds = condition if callable(condition) else lambda: self.browser.run(condition)
        self.assertTrue(wait_for(holds, SOON_S, 0.1), "%s; the page says: %s" % (text, self.browser.text()))

    def assert_shows(self, text):
        self.assert_soon(lambda: self.shows(text), "'%s' is not on the page" % text)

    def look(self, name):
        self.browser.screenshot(os.path.join(self.out, name + ".png"))

    def assert_it_fits_a_phone(self, name):
        self.browser.screen(PHONE_WIDTH, PHONE_HEIGHT)
        self.assertLessEqual(self.browser.run("return document.documentElement.scrollWidth"), PHONE_WIDTH)
        self.look(name + "-phone")
        self.browser.screen(WIDTH, HEIGHT)

    def assert_it_is_quick(self, address):
        usable, shown = [], []
        for _ in range(LOADS):
            self.browser.open(address)
            self.assert_soon("return performance.getEntriesByName('shown').length > 0", "the page shows nothing")
            usable.append(self.browser.run("return performance.getEntriesByType('navigation')[0].domInteractive"))
            shown.append(self.browser.run("return performance.getEntriesByName('shown')[0].startTime"))
        print("usable after %s ms, the verdict shown after %s ms" % tuple(", ".join("%.0f" % ms for ms in times) for times in (usable, shown)))
        self.assertLess(min(usable), USABLE_WITHIN_MS, usable)
        self.assertLess(min(shown), VERDICT_WITHIN_MS, shown)


def main(arguments):
    """Runs the tests of the program; skipped where there is no browser. `arguments`: those for unittest."""
    if PageCase.out:
        os.makedirs(PageCase.out, exist_ok=True)
    reason = why_not()
    if reason:
        print("skipped: " + reason)
        sys.exit(SKIPPED)
    unittest.main(module="__main__", argv=[sys.argv[0]] + arguments)
