"""Faults of the application: what this rank does differently, as a file says that the launcher replaces while the job runs.

The format is that of test/support/workload/fault_file.h; of its kinds those that the jobs here know:
skip (the rank stops calling), delay, other_operation, other_count.
"""
import json
import os
import sys

KINDS = ("skip", "delay", "other_operation", "other_count")


class FaultFile:
    def __init__(self, path, rank):
        self._path, self._rank = path, rank
        self._seen = None
        self._faults = []
        self._applied = []  # rounds, parallel to _faults
        self.version = 0

    def refresh(self):
        try:
            status = os.stat(self._path)
            seen = (status.st_mtime_ns, status.st_size, status.st_ino)
            if seen == self._seen:
                return
            self._seen = seen
            with open(self._path) as file:
                faults = parse(file.read())
        except FileNotFoundError:
            return
        except ValueError as error:
            print("%s: %s; the faults stay as they were" % (self._path, error), file=sys.stderr, flush=True)
            return
        self._applied += [0] * (len(faults) - len(self._applied))
        self._faults = faults
        self.version += 1

    def of_round(self):
        """The faults of this rank that are in force in the round that begins; call it once a round."""
        found = []
        for index, fault in enumerate(self._faults):
            rounds = fault.get("rounds", 1)
            if fault["rank"] == self._rank and (rounds == 0 or self._applied[index] < rounds):
                self._applied[index] += 1
                found.append(fault)
        return found


def parse(text):
    document = json.loads(text)
    faults = document.get("faults") if isinstance(document, dict) else None
    if not isinstance(faults, list):
        raise ValueError("faults: must be a list")
    for index, fault in enumerate(faults):
        if not isinstance(fault, dict) or fault.get("kind") not in KINDS:
            raise ValueError("faults[%d].kind: must be one of %s" % (index, ", ".join(KINDS)))
        if not isinstance(fault.get("rank"), int):
            raise ValueError("faults[%d].rank: must be a rank" % index)
    return faults


class Changes:
    """What the faults of one round change in it."""

    def __init__(self, faults=()):
        self._faults = {fault["kind"]: fault for fault in faults}

    def any(self):
        return bool(self._faults)

    def stops(self):
        return "skip" in self._faults

    def delay_s(self):
        return self._faults.get("delay", {}).get("ms", 0) / 1000

    def operation(self, usual):
        return self._faults.get("other_operation", {}).get("operation", usual)

    def count(self, usual):
        return max(1, int(usual * self._faults.get("other_count", {}).get("factor", 1)))
