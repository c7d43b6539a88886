"""NATS servers with JetStream on this host: one cluster of them, on free ports of loopback.

    with NatsServers(3, log_folder) as nats:
        nats.urls()

What they keep lies in a scratch folder, which goes with them.
"""
import contextlib
import os
import shutil
import socket
import tempfile

from .errors import RunError
from .processes import Child, wait_for

PACKAGE = "nats-server"
READY_S = 30.0


def program(given=None):
    """Where nats-server is; None: nowhere. Debian has it where only root's PATH looks."""
    return shutil.which(given or "nats-server", path=os.environ.get("PATH", os.defpath) + ":/usr/sbin:/usr/local/sbin")


def why_not(given=None):
    """None if NATS servers can be started here, otherwise one line that says why not."""
    return None if program(given) else "%s is not installed: apt-get install %s" % (given or "nats-server", PACKAGE)


def free_ports(count):
    with contextlib.ExitStack() as stack:
        found = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in found:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in found]


class NatsServers:
    def __init__(self, count, log_folder, given=None):
        self._program, self._log_folder = program(given), log_folder
        ports = free_ports(2 * count)
        self._ports, self._route_ports = ports[:count], ports[count:]
        self._stack = None

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            store = tempfile.mkdtemp(prefix="ccld-nats-")
            stack.callback(shutil.rmtree, store, ignore_errors=True)
            servers = [self._start(number, store, stack) for number in range(len(self._ports))]
            for server in servers:
                if not wait_for(lambda: _is_ready(server), READY_S):
                    raise RunError("a NATS server is not ready after %.0f s; see %s" % (READY_S, server.log_path))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self._stack.close()

    def urls(self):
        return ",".join("nats://127.0.0.1:%d" % port for port in self._ports)

    def _start(self, number, store, stack):
        name = "nats-%d" % number
        lines = ["server_name: %s" % name, "listen: 127.0.0.1:%d" % self._ports[number],
                 'jetstream { store_dir: "%s", max_mem: 64M, max_file: 1G }' % os.path.join(store, name)]
        if len(self._ports) > 1:
            routes = ", ".join('"nats://127.0.0.1:%d"' % port for port in self._route_ports)
            lines.append('cluster { name: test, listen: "127.0.0.1:%d", routes: [%s] }' % (self._route_ports[number], routes))
        config = os.path.join(store, name + ".conf")
        with open(config, "w") as file:
            file.write("\n".join(lines) + "\n")
        server = Child(name, [self._program, "-c", config], os.path.join(self._log_folder, name + ".log"))
        stack.callback(server.end)
        return server


def _is_ready(server):
    if server.exit_status() is not None:
        raise RunError("a NATS server ended: %s" % " ".join(server.last_lines(2)))
    with open(server.log_path, errors="replace") as log:
        return "Server is ready" in log.read()
