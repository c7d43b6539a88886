"""The page of a service that demands tokens: asks for one, keeps it for the tab, and says what a token may not do.

Usage: token_test.py BUILD_FOLDER [unittest arguments]
"""
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

import page_case  # noqa: E402
from run.processes import wait_for  # noqa: E402

CCLD = None


class TokenTest(page_case.PageCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tokens, ready = os.path.join(folder.name, "tokens"), os.path.join(folder.name, "ready.json")
        self.token = self.add("read")
        service = subprocess.Popen([CCLD, "serve", "--listen", "tcp://127.0.0.1:0", "--http", "127.0.0.1:0", "--no-history", "--log-level", "off",
                                    "--http-tokens-file", self.tokens, "--ready-file", ready], stderr=subprocess.DEVNULL)
        self.addCleanup(service.wait)
        self.addCleanup(service.terminate)
        self.assertTrue(wait_for(lambda: os.path.exists(ready), page_case.SOON_S, 0.05))
        with open(ready) as file:
            self.http = json.load(file)["http"]
        self.browse("about:blank")

    def add(self, role):
        done = subprocess.run([CCLD, "tokens", "add", "--list", self.tokens, "--role", role], check=True, stdout=subprocess.PIPE, text=True)
        return done.stdout.strip()

    def type_token(self, token):
        self.browser.run("document.getElementById('token').value = %s; document.getElementById('use-token').click()" % json.dumps(token))

    def test_it_asks_for_a_token_once_for_each_tab(self):
        self.browser.open(self.http + "/")
        self.assert_shows("This service demands a token")
        self.type_token("wrong")
        self.assert_shows("this token is not known to the service")
        self.type_token(self.token)
        self.assert_shows("No job reports to this service.")
        self.browser.open(self.http + "/i/4711")
        self.assert_shows("there is no incident 4711")
        self.assertEqual(self.browser.run("return localStorage.length"), 0)

    def test_a_token_that_may_not_read_is_said(self):
        token = self.add("tune")
        self.browser.open(self.http + "/")
        self.assert_shows("This service demands a token")

        def refused():
            self.type_token(token)  # the service reads its list again within two seconds
            return "this token has the role tune, and read is needed" in self.browser.text()
        self.assertTrue(wait_for(refused, page_case.SOON_S, 0.5), self.browser.text())


if __name__ == "__main__":
    CCLD = os.path.join(sys.argv[1], "bin", "ccld")
    page_case.main(sys.argv[2:])
