"""A headless Chromium, driven by the WebDriver protocol: JSON over HTTP."""
import base64
import glob
import http.client
import json
import os
import shutil
import signal
import subprocess
import tempfile
import urllib.request

PORT_LINE = "was started successfully on port "
PORT_TAKEN_LINE = "port not available"
STARTS_MAX = 20  # with a third of all ports taken one start in three fails


def why_not():
    """None, or what is missing."""
    for program in ("chromedriver", "chromium"):
        if not shutil.which(program):
            return "there is no %s" % program
    return None


def start_driver():
    """A chromedriver, and its port. It takes a port that is free on ::1 and ends if another program has it on 127.0.0.1."""
    for _ in range(STARTS_MAX):
        driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said = []
        for line in driver.stdout:
            if PORT_LINE in line:
                return driver, int(line.split(PORT_LINE)[1].strip().rstrip("."))
            said.append(line)
        driver.stdout.close()
        driver.wait()
        if not any(PORT_TAKEN_LINE in line for line in said):
            break
    raise RuntimeError("chromedriver did not start: %s" % "".join(said))


class Browser:
    def __init__(self, width=1000, height=900):
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)  # files of processes that are just ending
        self._driver, port = start_driver()
        self._base = "http://127.0.0.1:%d" % port
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=%d,%d" % (width, height),
                     "--user-data-dir=" + self._profile.name]
        answer = self._ask("/session", {"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:loggingPrefs": {"browser": "ALL"},
            "goog:chromeOptions": {"binary": shutil.which("chromium"), "args": arguments}}}})
        self._base += "/session/" + answer["sessionId"]

    def _ask(self, path, body=None, method=None, timeout=60):
        request = urllib.request.Request(self._base + path, None if body is None else json.dumps(body).encode(),
                                         {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=timeout) as response:
            return json.load(response)["value"]

    def open(self, url):
        self._ask("/url", {"url": url})

    def run(self, script):
        """The value of a script's `return`."""
        return self._ask("/execute/sync", {"script": script, "args": []})

    def _devtools(self, command, **parameters):
        return self._ask("/goog/cdp/execute", {"cmd": command, "params": parameters})

    def screen(self, width, height):
        """As on a device with such a screen: a window is never narrower than 500."""
        self._devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def prefer_dark(self, dark):
        self._devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            self._devtools("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode={"Tab": 9, "Enter": 13}[key])

    def text(self):
        return self.run("return document.body.innerText")

    def complaints(self):
        """What the console says that is an error."""
        return [entry["message"] for entry in self._ask("/se/log", {"type": "browser"}) if entry["level"] == "SEVERE"]

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self._ask("/screenshot")))

    def end(self):
        """A browser that does not go when it is asked to is killed: what a test found does not hang on it."""
        try:
            self._ask("", method="DELETE", timeout=10)
        except (OSError, http.client.HTTPException):  # urllib's errors are OSErrors
            pass
        self._driver.kill()
        self._driver.wait()
        self._driver.stdout.close()
        for process in glob.glob("/proc/[0-9]*/cmdline"):
            self._kill_if_ours(process)
        self._profile.cleanup()

    def _kill_if_ours(self, cmdline):
        try:
            with open(cmdline, "rb") as file:
                if self._profile.name.encode() in file.read():
                    os.kill(int(cmdline.split("/")[2]), signal.SIGKILL)
        except OSError:
            pass  # it has gone
