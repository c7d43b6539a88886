"""Faults that somebody plants and mends by hand in a running job, any number of times.

Planting is test/support/faults' business; here is which ones there are, and how each is undone.
"""
import os
import signal
import threading
from collections import namedtuple

from faults import inject
from faults.plan import Plan
from run import network

RANKS = 8
SLOW_LINK_NODE, SLOW_LINK_RATE = 0, "40mbit"
WORKLOAD = {"operation": "allreduce", "bytes_min": "512K", "compute_ms": 10, "seconds": 86400}
ENVIRONMENT = {"NCCL_ALGO": "Ring", "NCCL_PROTO": "Simple"}

# `why_not`: None, or one line that says why it cannot be planted here.
Button = namedtuple("Button", "name title fault expect why_not")


def buttons():
    return [
        Button("stop", "Stop rank 2", {"kind": "sigstop", "rank": 2}, {"class": "H1", "ranks": [2]}, None),
        Button("gpu", "Slow GPU 6", {"kind": "slow_clock", "rank": 6, "factor": 20}, {"class": "S1", "ranks": [6]}, None),
        Button("link", "Slow link 3 to 4", {"kind": "throttle_link", "node": SLOW_LINK_NODE, "rate": SLOW_LINK_RATE}, {"class": "S2", "links": [[3, 4]]},
               network.why_not()),
        Button("freeze", "Freeze a channel of GPU 5", {"kind": "freeze_channel", "rank": 5, "channel": 1}, {"class": "H3", "ranks": [5]}, None),
    ]


def plan_of(settings, button=None):
    """The job, and with a button its fault. Two nodes with a link between them where that is possible."""
    document = {"name": "demo", "title": button.title if button else "healthy traffic", "ranks": RANKS,
                "network": "loopback" if network.why_not() else "namespaces", "workload": dict(WORKLOAD), "environment": ENVIRONMENT}
    if button:
        document.update(faults=[dict(button.fault)], expect=button.expect)
    return Plan(document, "demo-web", settings)


class Panel:
    """Threads: any; one change at a time."""

    def __init__(self, job, settings):
        self._job, self._settings = job, settings
        self._lock = threading.Lock()
        self.buttons = buttons()
        self.planted = []

    def plant(self, name):
        """Raises KeyError where there is no such button, RunError where it cannot be planted."""
        button = {each.name: each for each in self.buttons if each.why_not is None}[name]
        with self._lock:
            if name in self.planted:
                return
            inject.plant(plan_of(self._settings, button), self._job)
            self.planted.append(name)

    def mend(self):
        with self._lock:
            for child in self._job.children:
                child.signal(signal.SIGCONT)
            for path in self._job.control_files:
                if os.path.exists(path):
                    os.unlink(path)
            if "link" in self.planted:
                self._job.network.unthrottle(SLOW_LINK_NODE)
            self.planted.clear()
