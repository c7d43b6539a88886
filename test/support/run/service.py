"""The decision service of one run."""
import json
import os

from .errors import RunError
from .processes import Child, wait_for
from .verdicts import VerdictFile


class Service:
    """Starts `ccld serve`; `port` is where it takes telemetry and `http` the address of its query API once wait_ready() has returned."""

    def __init__(self, build, folder, settings, listen="tcp://127.0.0.1:*", wrap=lambda command: command, recording=None, history=False,
                 http_port=0, name="service", more=()):
        verdict_path = os.path.join(folder, "verdicts.jsonl")
        self._ready_path = os.path.join(folder, "service-ready.json")
        command = [build.service, "serve", "--listen", listen, "--http", "127.0.0.1:%d" % http_port, "--verdicts", verdict_path,
                   "--ready-file", self._ready_path]
        command += ["--state", os.path.join(folder, "state")] if history else ["--no-history"]
        command += more
        if not listen.startswith("tcp://127."):
            command.append("--insecure")  # in a network namespace of its own: all its wires are the test's
        if recording:
            command += ["--record", recording]
        for name, value in settings.items():
            command += ["--set", "%s=%s" % (name, value)]
        self.child = Child(name, wrap(command), os.path.join(folder, "service.log"))
        self.verdicts = VerdictFile(verdict_path)
        self.port = self.http = None

    def wait_ready(self, timeout_s=60.0):
        def announced():
            self.check_alive()
            return os.path.exists(self._ready_path)
        if not wait_for(announced, timeout_s):
            raise RunError("the decision service is not ready after %.0f s; see %s" % (timeout_s, self.child.log_path))
        with open(self._ready_path) as file:
            ready = json.load(file)
        self.port = int(ready["telemetry"].rsplit(":", 1)[1])
        self.http = ready["http"]

    def check_alive(self):
        if self.child.exit_status() is not None:
            raise RunError("the decision service ended: %s" % " ".join(self.child.last_lines(2)))

    def end(self):
        """Asks it to end, so that it can write what it still knows."""
        self.child.end(grace_s=3.0)
