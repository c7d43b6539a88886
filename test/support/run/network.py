"""Two fake nodes with a link between them that can be throttled and cut, out of network namespaces.

    node 0 (data0 10.77.0.1) ---------- data link ---------- node 1 (data0 10.77.0.2)
    node 0 (data1 10.77.3.1) ------- second data link ------ node 1 (data1 10.77.3.2)
       mgmt0 10.77.1.2                                         mgmt0 10.77.2.2
            \\------------- service: mgmt1 10.77.1.1, mgmt2 10.77.2.1 -------------/

Faults are on the first data link; the second is for jobs that want two devices and say so in NCCL_SOCKET_IFNAME.
The service has its own wires, as a management network has. The namespaces have no names: they exist as long as a process is
in them, and one process of ours holds each; when the launcher is gone, however it went, so are they. Nothing is
changed in the machine's own namespace. Needs root.
"""
import os
import subprocess

from .errors import RunError
from .processes import Child, wait_for

DATA_INTERFACE = "data0"
DATA_ADDRESSES = ("10.77.0.1", "10.77.0.2")
SECOND_DATA_INTERFACE = "data1"
SECOND_DATA_ADDRESSES = ("10.77.3.1", "10.77.3.2")
SERVICE_ADDRESSES = ("10.77.1.1", "10.77.2.1")  # of the service, as node 0 and node 1 see it
NODE_MGMT_ADDRESSES = ("10.77.1.2", "10.77.2.2")


def why_not():
    """None if namespaces can be made here, otherwise one line that says why not."""
    if os.geteuid() != 0:
        return "hosts are network namespaces here, and making those needs root: run it as root"
    try:
        # Root of a container may not be allowed to.
        tried = subprocess.run(["unshare", "--net", "true"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    except OSError as error:
        return "hosts are network namespaces here: unshare: %s" % error.strerror
    if tried.returncode != 0:
        return "hosts are network namespaces here, and this machine lets nobody make them: %s" % tried.stderr.strip()
    return None


class Namespaces:
    """Context manager: a network namespace for each of `places`, which subclasses wire."""

    def __init__(self, places, log_folder):
        self._places, self._log_folder, self._holders = places, log_folder, {}

    def __enter__(self):
        reason = why_not()
        if reason:
            raise RunError(reason)
        try:
            for place in self._places:
                # `unshare` replaces itself by `sleep`, which holds the namespace until it is killed.
                self._holders[place] = Child("namespace", ["unshare", "--net", "sleep", "infinity"],
                                             os.path.join(self._log_folder, "namespace-%s.log" % place))
            own = os.stat("/proc/self/ns/net").st_ino
            for place, holder in self._holders.items():
                if not wait_for(lambda: _namespace_of(holder.pid) not in (None, own), 10):
                    raise RunError("cannot make a network namespace: " + " ".join(holder.last_lines(1)))
            self._wire()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for holder in self._holders.values():
            holder.end()
        self._holders.clear()

    def command(self, place, command):
        """`command` as it is to be started to run in that place; the process id stays that of the command."""
        return ["nsenter", "--net=" + self.namespace(place), "--"] + list(command)

    def namespace(self, place):
        """The file that stands for the network namespace of that place."""
        return "/proc/%d/ns/net" % self._holders[place].pid

    def _wire(self):
        raise NotImplementedError

    def _run(self, place, *command):
        done = subprocess.run(self.command(place, command), stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 0:
            raise RunError("%s failed: %s" % (" ".join(command), (done.stderr or done.stdout).strip().replace("\n", "; ")))
        return done.stdout


class TwoNodes(Namespaces):
    """Node 0 and 1 are the fake nodes, 'service' is where the decision service runs."""

    def __init__(self, log_folder):
        super().__init__((0, 1, "service"), log_folder)

    def throttle(self, node, rate):
        """Limits what leaves that node on the data link; the other direction stays as it is."""
        self._run(node, "tc", "qdisc", "replace", "dev", DATA_INTERFACE, "root", "tbf", "rate", rate, "burst", "64kb",
                  "latency", "400ms")

    def unthrottle(self, node):
        self._run(node, "tc", "qdisc", "del", "dev", DATA_INTERFACE, "root")

    def cut(self, node):
        self._run(node, "ip", "link", "set", DATA_INTERFACE, "down")

    def _wire(self):
        pids = {place: str(holder.pid) for place, holder in self._holders.items()}

        def link(place_a, name_a, address_a, place_b, name_b, address_b):
            self._run(place_a, "ip", "link", "add", name_a, "type", "veth", "peer", "name", name_b, "netns", pids[place_b])
            for place, name, address in ((place_a, name_a, address_a), (place_b, name_b, address_b)):
                self._run(place, "ip", "address", "add", address + "/24", "dev", name)
                self._run(place, "ip", "link", "set", name, "up")

        for place in self._holders:
            self._run(place, "ip", "link", "set", "lo", "up")
        link(0, DATA_INTERFACE, DATA_ADDRESSES[0], 1, DATA_INTERFACE, DATA_ADDRESSES[1])
        link(0, SECOND_DATA_INTERFACE, SECOND_DATA_ADDRESSES[0], 1, SECOND_DATA_INTERFACE, SECOND_DATA_ADDRESSES[1])
        for node in (0, 1):
            link("service", "mgmt%d" % (node + 1), SERVICE_ADDRESSES[node], node, "mgmt0", NODE_MGMT_ADDRESSES[node])
        for node in (0, 1):
            for interface in (DATA_INTERFACE, SECOND_DATA_INTERFACE):
                if not wait_for(lambda: "state UP" in self._run(node, "ip", "link", "show", interface), 10, 0.05):
                    raise RunError("the link between the network namespaces does not come up")



def _namespace_of(pid):
    try:
        return os.stat("/proc/%d/ns/net" % pid).st_ino
    except OSError:
        return None
