"""The page of jobs, hosts and communicators with hostile names, and of an acknowledgement with a hostile note: markup stays text, what turns or
hides text does not come through, and the longest names fit a telephone.

Usage: names_test.py CCLD DIFFERING_RANKS LARGE_JOB FOLDER_FOR_SCREENSHOTS [unittest arguments]
"""
import json
import os
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

import page_case  # noqa: E402
from run.processes import wait_for  # noqa: E402

CCLD, DIFFERING_RANKS, LARGE_JOB = None, None, None
NAME_BYTES_MAX, OPERATOR_BYTES_MAX, NOTE_BYTES_MAX = 255, 64, 500  # text_bytes_max of ingest, operator_..._bytes_max
MARKUP = "\"'><img src=x onerror=window.hurt=1></script><script>window.hurt=2</script>&lt;b&gt;"
TURNING = "\u202egnp.\u2066\u200f\u061c\u2029\u009b2J\u0085\u200b\ufeff"
RIGHT_TO_LEFT = "\u05d0\u05d1\u05d2"  # letters of a name that is not hostile
# Controls, and what turns text or cannot be seen; line feeds stand between elements of the document.
HIDDEN = r"/[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/u"
PAGE_ADDRESSES = ('/i/"><script>window.hurt=3</script>', "/i/1?<img src=x onerror=window.hurt=4>", "/i/1#<img src=x onerror=window.hurt=5>",
                  "/i/javascript:window.hurt=6", "/i/1/../<svg onload=window.hurt=7>")


def filled(name, bytes_max):
    """As long as is allowed, without a place to break."""
    return name + "W" * (bytes_max - len(name.encode()))


def hostile(what, bytes_max=NAME_BYTES_MAX):
    return filled(what + MARKUP + TURNING, bytes_max)


class NamesTest(page_case.PageCase):
    def start(self, *command):
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        process.stdin.close()
        process.terminate()
        process.wait()
        process.stdout.close()

    def start_service(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        ready = os.path.join(folder.name, "ready.json")
        self.start(CCLD, "serve", "--listen", "tcp://127.0.0.1:0", "--http", "127.0.0.1:0", "--state", os.path.join(folder.name, "state"),
                   "--verdicts", "/dev/null", "--set", "mismatch_settle_s=0", "--ready-file", ready)
        self.assertTrue(wait_for(lambda: os.path.exists(ready), page_case.SOON_S, 0.05))
        with open(ready) as file:
            said = json.load(file)
        self.http, self.telemetry = said["http"], said["telemetry"]

    def acknowledge(self, incident, by, note):
        request = urllib.request.Request("%s/v1/incidents/%d/ack" % (self.http, incident), json.dumps({"by": by, "note": note}).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as response:
            response.read()

    def assert_harmless(self, name):
        """Whatever names are on the page: nothing of them is more than text."""
        self.assertIsNone(self.browser.run("return window.hurt === undefined ? null : window.hurt"))
        self.assertEqual(self.browser.run("return [...document.scripts].map(e => e.getAttribute('src'))"), ["/page/app.js"])
        self.assertEqual(self.browser.run("return document.querySelectorAll('img, iframe, object, embed, b').length"), 0)
        handlers = "return [...document.querySelectorAll('*')].filter(e => e.getAttributeNames().some(n => n.startsWith('on'))).map(e => e.outerHTML)"
        self.assertEqual(self.browser.run(handlers), [])
        targets = set(self.browser.run("return [...document.querySelectorAll('[href]')].map(e => e.getAttribute('href'))"))
        self.assertEqual([t for t in targets if t not in ("/", "/page/style.css") and not t[len("/i/"):].isdigit()], [])
        # With attributes, which a pointer and a screen reader show.
        for text in ("document.documentElement.outerHTML", "document.title"):
            found = self.browser.run("const text = %s, at = text.search(%s); return at < 0 ? null : escape(text.slice(at - 40, at + 40))" % (text, HIDDEN))
            self.assertIsNone(found)
        self.assert_it_fits_a_phone(name)
        self.assertEqual(self.browser.complaints(), [])

    def test_names_from_telemetry_and_notes_of_operators_stay_text(self):
        self.start_service()
        job, host, comm = (hostile(what) for what in ("job", "host", "comm"))
        self.start(DIFFERING_RANKS, self.telemetry, "1", job, host, comm)
        self.browse(self.http + "/")
        self.assert_soon("return document.querySelector('#incidents a') !== null", "the mismatch is not shown")
        self.assert_shows("job" + MARKUP)
        self.assert_harmless("jobs")

        self.acknowledge(1, filled("<img src=x onerror=window.hurt=8>\u202egnp\u009b", OPERATOR_BYTES_MAX), hostile("note", NOTE_BYTES_MAX))
        self.browser.open(self.http + "/i/1")
        self.assert_shows("by <img src=x onerror=window.hurt=8>")
        for what in ("job", "host", "comm", "note"):
            self.assert_shows(what + MARKUP)
        self.browser.run("document.getElementById('all-numbers').open = true")
        self.assert_harmless("incident")

    def test_hosts_of_ranks_and_pictures_stay_text(self):
        # What the service receives it has made printable; markup is the page's own matter.
        program = self.start(LARGE_JOB, "100", "h" + MARKUP + "W" * (NAME_BYTES_MAX - len(MARKUP) - len("h") - len("12")))
        self.http = "http://127.0.0.1:%s" % program.stdout.readline().split()[1]
        self.browse(self.http + "/i/1")
        self.assert_soon("return document.querySelectorAll('#calls .row').length > 0 && document.querySelector('#strip .marker.onset') !== null", "the page is not complete")
        self.assert_shows("h" + MARKUP)
        self.browser.run("document.getElementById('more-ranks').open = true; document.getElementById('all-numbers').open = true;"
                         "for (const canvas of document.querySelectorAll('canvas')) canvas.dispatchEvent(new PointerEvent('pointermove', {bubbles: true}))")
        self.assertIn("h" + MARKUP, self.browser.run("return document.querySelector('#calls canvas').title"))
        self.assert_harmless("slow")
        self.browser.open(self.http + "/i/2")
        self.assert_soon("return document.querySelectorAll('#chain .box').length > 0", "there is no chain")
        self.assert_harmless("hang")

    def test_a_name_that_is_read_from_the_right_leaves_what_stands_beside_it_in_its_place(self):
        self.start_service()
        self.start(DIFFERING_RANKS, self.telemetry, "1", RIGHT_TO_LEFT, RIGHT_TO_LEFT, RIGHT_TO_LEFT)
        self.browse(self.http + "/")
        self.assert_shows("1 open incident")
        places = self.browser.run(
            "const name = document.querySelector('#jobs li strong'), count = name.nextElementSibling.firstChild, range = document.createRange();"
            "const at = count.data.indexOf('1'); range.setStart(count, at); range.setEnd(count, at + 1);"
            "return [name.getBoundingClientRect().right, range.getBoundingClientRect().left]")
        self.assertLessEqual(places[0], places[1], "the number of incidents is shown in front of the job's name")

    def test_addresses_with_markup_do_no_harm(self):
        self.start_service()
        self.browse("about:blank")
        for address in PAGE_ADDRESSES:
            self.browser.open(self.http + urllib.parse.quote(address, safe="/?#<>\"'=:"))
            self.assertIsNone(self.browser.run("return window.hurt === undefined ? null : window.hurt"), address)
            self.assertEqual(self.browser.run("return document.querySelectorAll('img, svg, script:not([src])').length"), 0, address)
        # As it stands, without a browser that escapes it.
        try:
            with urllib.request.urlopen(self.http + "/i/%22%3E%3Cscript%3E") as response:
                self.fail("answered with %d" % response.status)
        except urllib.error.HTTPError as refused:
            with refused:
                self.assertEqual(refused.code, 404)
                self.assertNotIn("html", refused.headers.get("Content-Type", ""))


if __name__ == "__main__":
    CCLD, DIFFERING_RANKS, LARGE_JOB, page_case.PageCase.out = sys.argv[1:5]
    page_case.main(sys.argv[5:])
