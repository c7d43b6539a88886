"""How many micro-batches each replica of the pipeline job takes, as a file says that is read while the job runs.

The format is that of test/support/workload/micro_batch_file.h, as the hook `micro-batches` of scripts/deploy/act writes it:
{"from_round": 120, "micro_batches": [4, 2]}, by replica. All ranks must have read it by that round, and are at most one round apart: write it two rounds
ahead.
"""
import json
import os
import sys

COUNT_MAX = 64


class MicroBatchFile:
    """`path`: None: there is none."""

    def __init__(self, path, replicas):
        self._path, self._replicas = path, replicas
        self._seen = None
        self._now, self._next = None, None

    def refresh(self):
        """Reads the file if it changed; what cannot be used is one line on stderr, and the numbers stay as they were."""
        try:
            status = os.stat(self._path) if self._path else None
        except FileNotFoundError:
            return
        seen = status and (status.st_mtime_ns, status.st_size, status.st_ino)
        if seen == self._seen:
            return
        self._seen = seen
        try:
            with open(self._path) as file:
                self._next = parse(file.read(), self._replicas)
        except (OSError, ValueError) as error:
            print("%s: %s; the micro-batches stay as they were" % (self._path, error), file=sys.stderr, flush=True)

    def count(self, round_number, replica, usual):
        if self._next and round_number >= self._next[0]:
            self._now, self._next = self._next[1], None
        return self._now[replica] if self._now else usual


def parse(text, replicas):
    """(first round, counts by replica); raises ValueError that names the field."""
    document = json.loads(text)
    if not isinstance(document, dict):
        raise ValueError("must be a JSON object")
    first, counts = document.get("from_round"), document.get("micro_batches")
    if not is_whole(first) or first < 0:
        raise ValueError("from_round: must be a whole number")
    if not isinstance(counts, list) or len(counts) != replicas or not all(is_whole(count) and 1 <= count <= COUNT_MAX for count in counts):
        raise ValueError("micro_batches: must be %d numbers from 1 to %d, one for each replica" % (replicas, COUNT_MAX))
    return first, counts


def is_whole(value):
    return isinstance(value, int) and not isinstance(value, bool)
