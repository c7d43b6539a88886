"""Several services as one (decision/cluster), and a job whose ranks know all of them.

    with ClusterJob(build, plan, folder) as job:
        leader = job.service.wait_leader()
        leader.kill()
        job.service.told.poll()
        leader.start()

Each node has a folder of its own within the job's, which stays with its log, verdicts and history.
"""
import json
import os
import signal
import subprocess
import urllib.error
import urllib.request

from .errors import RunError
from .job import Job
from .nats import NatsServers
from .processes import wait_for
from .service import Service
from .verdicts import VerdictFile

NODES = ("a", "b", "c")
NATS_SERVERS = 3
ASK_S = 10.0
DISK_S = 60.0  # a killed process does not end while it waits for a busy disk
LEADER_S = 60.0  # NATS servers that have just begun, on a busy machine


class Node:
    """One `ccld serve --cluster`. It can be killed and started again, at the same addresses and with the same folder."""

    def __init__(self, build, folder, name, settings, nats_urls):
        self.name, self.folder = name, folder
        self._build, self._settings, self._nats_urls = build, settings, nats_urls
        self._service, self._lives = None, 0
        self.port, self.http = "*", None
        self.runs = False
        self.verdicts = VerdictFile(os.path.join(folder, "verdicts.jsonl"))
        os.makedirs(folder)

    def start(self):
        log, ready = (os.path.join(self.folder, file) for file in ("service.log", "service-ready.json"))
        if self._service:
            self._service.child.wait(DISK_S)
            os.rename(log, os.path.join(self.folder, "service-%d.log" % self._lives))
            if os.path.exists(ready):
                os.unlink(ready)
        self._lives += 1
        self._service = Service(self._build, self.folder, self._settings, "tcp://127.0.0.1:%s" % self.port, history=True,
                                http_port=int(self.http.rsplit(":", 1)[1]) if self.http else 0, name="node " + self.name,
                                more=["--cluster", self._nats_urls, "--cluster-node", self.name])
        self.runs = True

    def wait_ready(self):
        self._service.wait_ready()
        self.port, self.http = self._service.port, self._service.http

    def kill(self):
        self.runs = False
        self._service.child.signal(signal.SIGKILL)

    def check_alive(self):
        if self.runs:
            self._service.check_alive()

    def end(self):
        if self._service:
            self._service.end()

    def cluster(self):
        """What it says of the cluster (/v1/cluster); None: it does not answer."""
        try:
            with urllib.request.urlopen(self.http + "/v1/cluster", timeout=ASK_S) as answer:
                return json.load(answer)
        except (urllib.error.URLError, OSError, ValueError):
            return None

    def command(self, *arguments):
        """What `ccld` says when it asks this node."""
        return self._ccld(*arguments, "--http", self.http)

    def history(self):
        """Incidents in its own state folder, whoever leads."""
        return json.loads(self._ccld("incidents", "--json", "--state", os.path.join(self.folder, "state")))["incidents"]

    def _ccld(self, command, *arguments):
        done = subprocess.run([self._build.service, command, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            raise RunError("ccld %s of node %s: %s" % (command, self.name, done.stderr.strip()))
        return done.stdout


class Told:
    """What all nodes together have told: verdict lines in the order in which they were seen."""

    def __init__(self, nodes):
        self._nodes = nodes
        self.lines = []

    def poll(self):
        """Reads what is new and returns it."""
        new = [verdict for node in self._nodes for verdict in node.verdicts.poll()]
        self.lines += new
        return new

    def incidents(self):
        """Newest revision of each incident, in order of appearance."""
        newest = {}
        for verdict in self.lines:
            known = newest.get(verdict["incident"])
            if not known or verdict["revision"] > known["revision"]:
                newest[verdict["incident"]] = verdict
        return list(newest.values())

    def twice(self):
        """(incident, revision) of what was told more than once."""
        keys = [(verdict["incident"], verdict["revision"]) for verdict in self.lines]
        return sorted({key for key in keys if keys.count(key) > 1})


class Cluster:
    """All nodes; stands where a job has its one service."""

    def __init__(self, build, folder, settings, nats_urls):
        self.nodes = [Node(build, os.path.join(folder, "node-" + name), name, settings, nats_urls) for name in NODES]
        self.verdicts = self.told = Told(self.nodes)

    def start(self):
        for node in self.nodes:
            node.start()
        for node in self.nodes:
            node.wait_ready()

    @property
    def port(self):
        return self.nodes[0].port

    def endpoints(self):
        return ",".join("tcp://127.0.0.1:%d" % node.port for node in self.nodes)

    def check_alive(self):
        for node in self.nodes:
            node.check_alive()

    def end(self):
        for node in self.nodes:
            node.end()

    def wait_leader(self, timeout_s=LEADER_S):
        """The node that leads, once all nodes that run say that it does."""
        running = [node for node in self.nodes if node.runs]

        def agreed():
            self.check_alive()
            said = [node.cluster() for node in running]
            leaders = {each["leader"] if each else None for each in said}
            leading = [node for node, each in zip(running, said) if each and each["leads"]]
            return leading[0] if len(leading) == 1 and leaders == {leading[0].name} else None
        leader = wait_for(agreed, timeout_s, 0.05)
        if not leader:
            raise RunError("the nodes do not agree who leads after %.0f s" % timeout_s)
        return leader


class ClusterJob(Job):
    """`nats_server`: the program; None: the one that is installed."""

    def __init__(self, build, plan, folder, nats_server=None):
        super().__init__(build, plan, folder)
        self._nats_server = nats_server

    def _start_service(self):
        nats = self._stack.enter_context(NatsServers(NATS_SERVERS, self.folder, self._nats_server))
        self.service = Cluster(self.build, self.folder, self.plan.settings, nats.urls())
        self._stack.callback(self.service.end)
        self.service.start()

    def more_environment(self, node):
        return {"NCCL_PROBE_ENDPOINT": self.service.endpoints()}
