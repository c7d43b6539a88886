"""The status board of a running workload (test/support/workload/status_board.h has the layout): read, but for the launcher's word."""
import mmap
import os
import struct
from collections import namedtuple

LINE_BYTES = 128
HELD_ROUND_OFFSET = 8  # in the header
ENOUGH_OFFSET = 16
STATES = ("absent", "starting", "ready", "finished", "failed")
FIELDS = ("state", "pid", "entered_round", "completed_round", "wrong_results", "checked_results", "fault_text_version",
          "fault_applications", "fault_first_ns", "longest_round_ns")
Slot = namedtuple("Slot", FIELDS)


class Board:
    def __init__(self, path, rank_count):
        self.rank_count = rank_count
        size = LINE_BYTES * (1 + rank_count)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(file, size)
            self._map = mmap.mmap(file, size, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        finally:
            os.close(file)

    def hold_round(self, round_number):
        """No rank starts this round or a later one from now on; 0: they go on."""
        struct.pack_into("<Q", self._map, HELD_ROUND_OFFSET, round_number)

    def end_job(self):
        """A job that runs for a time goes on for a few rounds, the same on all ranks, and ends."""
        struct.pack_into("<Q", self._map, ENOUGH_OFFSET, 1)

    def released_rounds(self):
        """Rounds that all ranks will have completed when the job has ended by itself."""
        return struct.unpack_from("<Q", self._map, 0)[0]

    def slot(self, rank):
        values = struct.unpack_from("<%dQ" % len(FIELDS), self._map, LINE_BYTES * (1 + rank))
        return Slot(STATES[min(values[0], len(STATES) - 1)], *values[1:])

    def slots(self):
        return [self.slot(rank) for rank in range(self.rank_count)]

    def close(self):
        self._map.close()
