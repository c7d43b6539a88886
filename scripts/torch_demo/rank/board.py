"""A rank's own line on the status board (test/support/workload/status_board.h has the layout, test/support/run/board.py reads it)."""
import mmap
import os
import struct

LINE_BYTES = 128
STATES = {"starting": 1, "ready": 2, "finished": 3, "failed": 4}
WORDS = {"state": 0, "pid": 1, "entered_round": 2, "completed_round": 3, "wrong_results": 4, "checked_results": 5,
         "fault_text_version": 6, "fault_applications": 7, "fault_first_ns": 8, "longest_round_ns": 9}


class BoardLine:
    def __init__(self, path, rank, rank_count):
        self._rank = rank
        with open(path, "r+b") as file:
            size = LINE_BYTES * (1 + rank_count)
            if os.fstat(file.fileno()).st_size < size:
                raise ValueError("the status board %s has no room for %d ranks" % (path, rank_count))
            self._map = mmap.mmap(file.fileno(), size)

    def set(self, **values):
        for name, value in values.items():
            value = STATES[value] if name == "state" else value
            struct.pack_into("<Q", self._map, LINE_BYTES * (1 + self._rank) + 8 * WORDS[name], value)

    def get(self, name, rank=None):
        return struct.unpack_from("<Q", self._map, LINE_BYTES * (1 + (self._rank if rank is None else rank)) + 8 * WORDS[name])[0]

    def release(self, round_number):
        """Rank 0 alone: the other ranks may start this round."""
        struct.pack_into("<Q", self._map, 0, round_number)

    def released(self):
        return struct.unpack_from("<Q", self._map, 0)[0]
