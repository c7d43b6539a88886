"""Hosts that are network namespaces, joined by a switch that is one too: every pair of hosts has a path of its own through two ports.

    host 0 (data0 10.78.0.1) ---- port0 \\
    host 1 (data0 10.78.0.2) ---- port1  >  switch
    ...                                 /

A host's network device is slow in what it sends, or in what the switch sends to it; a path is slow in what one host sends to one other. The
namespaces have no names and vanish with their processes; nothing changes in the machine's own. Needs root.
"""
from run.errors import RunError
from run.network import Namespaces
from run.processes import wait_for

INTERFACE = "data0"
# What a throttle lets through at once, and how long it holds back what is too much before it is lost.
LIMIT = ("burst", "32kb", "latency", "400ms")


def address(host):
    return "10.78.0.%d" % (host + 1)


class Fabric(Namespaces):
    """Context manager of `count` hosts."""

    def __init__(self, count, log_folder):
        super().__init__(list(range(count)) + ["switch"], log_folder)
        self.count = count

    def slow_sending(self, host, rate):
        """The host's device sends at this rate, to whomever."""
        self._run(host, "tc", "qdisc", "replace", "dev", INTERFACE, "root", "tbf", "rate", rate, *LIMIT)

    def slow_receiving(self, host, rate):
        """What reaches the host's device arrives at this rate, from whomever."""
        self._run("switch", "tc", "qdisc", "replace", "dev", "port%d" % host, "root", "tbf", "rate", rate, *LIMIT)

    def slow_path(self, sender, receiver, rate):
        """What the one host sends to the other goes at this rate; all else is as it was."""
        def add(what, *more):
            self._run(sender, "tc", what, "add", "dev", INTERFACE, *more)
        add("qdisc", "root", "handle", "1:", "htb", "default", "10")
        add("class", "parent", "1:", "classid", "1:10", "htb", "rate", "40gbit", "quantum", "60000")
        add("class", "parent", "1:", "classid", "1:30", "htb", "rate", rate, "burst", LIMIT[1], "quantum", "60000")
        add("filter", "parent", "1:", "protocol", "ip", "u32", "match", "ip", "dst", address(receiver) + "/32", "flowid", "1:30")

    def _wire(self):
        self._run("switch", "ip", "link", "add", "bridge0", "type", "bridge")
        self._run("switch", "ip", "link", "set", "bridge0", "up")
        for host in range(self.count):
            self._run(host, "ip", "link", "set", "lo", "up")
            self._run(host, "ip", "link", "add", INTERFACE, "type", "veth", "peer", "name", "port%d" % host, "netns",
                      str(self._holders["switch"].pid))
            self._run(host, "ip", "address", "add", address(host) + "/24", "dev", INTERFACE)
            self._run(host, "ip", "link", "set", INTERFACE, "up")
            self._run("switch", "ip", "link", "set", "port%d" % host, "master", "bridge0", "up")
        for host in range(self.count):
            if not wait_for(lambda: "state UP" in self._run(host, "ip", "link", "show", INTERFACE), 10, 0.05):
                raise RunError("the links between the network namespaces do not come up")
