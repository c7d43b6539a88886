"""How far the ranks of somebody else's binary are, as the decision service knows it: stands for the status board of our own workload."""
import json
import time
import urllib.error
import urllib.request
from collections import namedtuple

from run.errors import RunError

# entered_round and completed_round count operations. gpu: its index in the process.
Slot = namedtuple("Slot", "state pid gpu entered_round completed_round")
ABSENT = Slot("absent", 0, None, 0, 0)


def slots_of(status, rank_count):
    """From the answer to /v1/status: one slot for each rank of the communicator that has all of them; ABSENT: not heard of."""
    for comm in status.get("communicators", []):
        if comm["rank_count"] != rank_count:
            continue
        slots = [ABSENT] * rank_count
        for rank in comm.get("ranks", []):
            # Send and Recv are counted apart.
            p2p = rank["p2p"]
            slots[rank["rank"]] = Slot("ready" if rank["up"] else "absent", rank["pid"], rank["gpu"],
                                       rank["entered"] + p2p["completed"] + p2p["in_flight"], rank["completed"] + p2p["completed"])
        return slots
    return [ABSENT] * rank_count


class ServiceBoard:
    """`http` is the address of the service's query API."""

    INTERVAL_S = 0.05  # between two questions

    def __init__(self, http, rank_count):
        self._url, self._rank_count = http + "/v1/status?ranks=all", rank_count
        self._slots, self._asked_at = [ABSENT] * rank_count, None

    def slots(self):
        now = time.monotonic()
        if self._asked_at is None or now - self._asked_at >= self.INTERVAL_S:
            self._slots, self._asked_at = slots_of(self._ask(), self._rank_count), now
        return self._slots

    def slot(self, rank):
        return self.slots()[rank]

    def batches(self):
        """How much the service has heard."""
        return self._ask()["ingest"]["batches"]

    def _ask(self):
        try:
            with urllib.request.urlopen(self._url, timeout=10) as answer:
                return json.load(answer)
        except (OSError, ValueError, urllib.error.URLError) as error:
            raise RunError("the decision service does not answer %s: %s" % (self._url, error))
