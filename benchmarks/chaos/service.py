"""The decision service of a run: started, killed and started again, elsewhere or under other conditions; what it reported and what it took."""
import json
import os
import random
import signal
import socket
import urllib.request

from run.errors import RunError
from run.processes import Child, resources_of, state_of, wait_for
from run.verdicts import VerdictFile

READY_WITHIN_S = 60.0
ENDS_WITHIN_S = 20.0
ANSWERS_WITHIN_S = 30.0
FIRST_PORT = 10000  # below are those that known services listen on


def free_port():
    """A port that is free on all addresses of loopback, and stays so while the service is away: the kernel gives it to no connection."""
    with open("/proc/sys/net/ipv4/ip_local_port_range") as range_file:
        given_from, given_to = (int(word) for word in range_file.read().split())
    kept = [port for port in range(FIRST_PORT, 65536) if not given_from <= port <= given_to]
    random.shuffle(kept)
    for port in kept:
        with socket.socket() as probe:
            try:
                probe.bind(("0.0.0.0", port))
            except OSError:
                continue
            return port
    raise RunError("no port is free outside of those that the kernel gives to connections (net.ipv4.ip_local_port_range)")


class Start:
    """One process of the service. keeps_history: it said so. may_lose: it was killed while its disk was full."""

    def __init__(self, child, verdicts):
        self.child, self.verdicts = child, verdicts
        self.keeps_history = None
        self.may_lose = False
        self.samples = []


class Service:
    """`flags`: of every start. `place`: where it runs. Addresses are of loopback; the port stays the same."""

    def __init__(self, build, place, folder, flags):
        self._build, self._place, self._folder, self._flags = build, place, folder, flags
        self._ready_path = os.path.join(folder, "service-ready.json")
        self.port = free_port()
        self.address = "127.0.0.2"
        self.http = None
        self.starts = []
        self.environment = dict(os.environ)
        self.files_max = None
        self.record = False

    @property
    def state_folder(self):
        return os.path.join(self._place.folder, "disk", "state")

    @property
    def now(self):
        """The newest start."""
        return self.starts[-1]

    def endpoint(self, address=None):
        return "tcp://%s:%d" % (address or self.address, self.port)

    def start(self, address=None):
        self.address = address or self.address
        number = len(self.starts) + 1
        if os.path.exists(self._ready_path):
            os.unlink(self._ready_path)  # of one that was killed
        verdicts = os.path.join(self._folder, "verdicts-%d.jsonl" % number)
        command = [self._build.service, "serve", "--listen", self.endpoint(), "--http", "127.0.0.1:0", "--state", self.state_folder,
                   "--verdicts", verdicts, "--ready-file", self._ready_path] + self._flags
        if self.record:
            command += ["--record", os.path.join(self._place.folder, "records", "job-%d.ccldrec" % number)]
        if self.files_max:
            command = ["prlimit", "--nofile=%d" % self.files_max] + command
        child = Child("service", self._place.command(command), os.path.join(self._folder, "service-%d.log" % number), self.environment)
        self.starts.append(Start(child, VerdictFile(verdicts)))
        self._wait_ready()
        self.now.keeps_history = self.status()["history"]["enabled"]
        self.sample()

    def _wait_ready(self):
        def announced():
            self.check_alive()
            return os.path.exists(self._ready_path)
        if not wait_for(announced, READY_WITHIN_S):
            raise RunError("the decision service is not ready after %.0f s; see %s" % (READY_WITHIN_S, self.now.child.log_path))
        with open(self._ready_path) as file:
            self.http = json.load(file)["http"]

    def check_alive(self):
        status = self.now.child.exit_status()
        if status is not None:
            raise RunError("the decision service ended with status %d: %s" % (status, " ".join(self.now.child.last_lines(2))))

    def kill(self, may_lose=False):
        self.check_alive()
        self.sample()
        self.now.may_lose |= may_lose
        self.now.child.end()

    def stop(self):
        self.now.child.signal(signal.SIGSTOP)

    def go_on(self):
        self.now.child.signal(signal.SIGCONT)

    def end(self):
        """Asks it to end; returns its exit status, None if it had to be killed."""
        if not self.starts or self.now.child.exit_status() is not None:
            return None
        self.now.child.signal(signal.SIGTERM)
        self.now.child.signal(signal.SIGCONT)
        status = self.now.child.wait(ENDS_WITHIN_S)
        self.now.child.end()
        return status

    def get(self, path):
        """The JSON answer of the query API."""
        try:
            with urllib.request.urlopen(self.http + path, timeout=ANSWERS_WITHIN_S) as answer:
                return json.load(answer)
        except (OSError, ValueError) as error:
            raise RunError("the decision service does not answer %s: %s" % (path, error))

    def status(self):
        return self.get("/v1/status")

    def stored(self):
        """{(incident, revision): document} of the history, as one more service tells them that is started on it."""
        self._flags, self.record, self.files_max = [], False, None
        self.start("127.0.0.1")
        stored, after = {}, 0
        while after is not None:
            page = self.get("/v1/incidents?after=%d&limit=1000" % after)
            for incident in page["incidents"]:
                for line in self.get("/v1/incidents/%d?revisions=1" % incident["incident"])["revisions"]:
                    line.pop("recording", None)
                    line.pop("acknowledged", None)
                    stored[(line["incident"], line["revision"])] = line
            after = page["next"]
        self.now.child.end()
        self.starts.pop()  # it only reads
        return stored

    def sample(self):
        """Remembers what the process takes."""
        taken = resources_of(self.now.child.pid)
        if taken:
            self.now.samples.append(taken)

    def poll(self):
        """Reads what all starts have reported so far: (start, verdict line) in order."""
        for each in self.starts:
            each.verdicts.poll()
        return [(each, line) for each in self.starts for line in each.verdicts.lines]

    def is_stopped(self):
        return state_of(self.now.child.pid) == "T"
