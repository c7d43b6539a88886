"""A job whose ranks stop to call, one after the other, and the verdicts on that."""
import json
import os
import subprocess
import time

POLL_S = 0.005
TIMEOUT_S = 60.0


class PlantedJob:
    def __init__(self, program, endpoint, verdict_path):
        self._child = subprocess.Popen([program, "job", "--endpoint", endpoint], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._path = verdict_path
        self._offset = 0
        self._rest = ""

    def _tell(self, words):
        self._child.stdin.write(words + "\n")
        self._child.stdin.flush()
        self._child.stdout.readline()  # it has happened

    def _lines(self):
        if not os.path.exists(self._path):
            return []
        with open(self._path) as file:
            file.seek(self._offset)
            self._rest += file.read()
            self._offset = file.tell()
        whole, _, self._rest = self._rest.rpartition("\n")
        return [json.loads(line) for line in whole.split("\n") if line]

    def _wait_for(self, fits):
        until = time.monotonic() + TIMEOUT_S
        while time.monotonic() < until:
            for verdict in self._lines():
                if verdict.get("job") == "real" and fits(verdict):
                    return verdict
            time.sleep(POLL_S)
        return None

    def plant(self, rank):
        """Seconds until the rank is named in a verdict of the right class; None: it was not. It lasts until that is confirmed: from a
        suspicion that ends by itself the service learns to wait longer."""
        self._lines()  # what came before
        begun = time.monotonic()
        self._tell("stop %d" % rank)
        found = self._wait_for(lambda v: v["class"] == "H1" and [c["rank"] for c in v["culprits"]] == [rank])
        took = time.monotonic() - begun
        if found and found["state"] != "confirmed":
            self._wait_for(lambda v: v["state"] == "confirmed")
        self._tell("go")
        self._wait_for(lambda v: v["state"] in ("resolved", "ended"))
        return took if found else None

    def end(self):
        self._child.stdin.close()
        self._child.wait(10)
