"""Flight Recorder dumps as PyTorch writes them, made for tests: the members and the names are those of its dump_entries()."""
import json
import os
import pickle

BEGIN_NS = 1_700_000_000_000_000_000
SECOND_NS = 1_000_000_000


class Group:
    def __init__(self, name, ranks, description="undefined", pg_id=0):
        self.name, self.ranks, self.description, self.pg_id = name, list(ranks), description, pg_id
        self.ranks_as_dumped = None


class Rank:
    """One rank's dump in the making. Calls are numbered as PyTorch does: collectives and transfers each from 1 in a group, and every call
    has both numbers."""

    def __init__(self, rank, groups, version="2.10"):
        self.rank, self.version = rank, version
        self.groups = [g for g in groups if rank in g.ranks]
        self.entries = []
        self.numbers = {}
        self.now_ns = BEGIN_NS

    def _count(self, group, kind):
        self.numbers[group.name, kind] = self.numbers.get((group.name, kind), 0) + 1

    def _entry(self, group, name, state, sizes, dtype, is_p2p, outputs, frame, timed_out):
        self.now_ns += SECOND_NS // 100
        completed = state == "completed"
        self.entries.append({
            "frames": [{"name": "all_reduce", "filename": "/usr/lib/python3/torch/distributed/distributed_c10d.py", "line": 2696},
                       {"name": "step", "filename": "/home/user/train.py", "line": frame}],
            "record_id": len(self.entries),
            "pg_id": group.pg_id,
            "process_group": (group.name, group.description),
            "thread_name": "pt_main", "thread_id": "1",
            "collective_seq_id": self.numbers.get((group.name, "collective"), 0),
            "p2p_seq_id": self.numbers.get((group.name, "p2p"), 0),
            "op_id": len(self.entries) + 1,
            "profiling_name": "nccl:" + name,
            "time_created_ns": self.now_ns,
            "duration_ms": 1.5,
            "input_sizes": sizes,
            "input_dtypes": [dtype] * len(sizes),
            "output_sizes": sizes if outputs is None else outputs,
            "output_dtypes": [dtype] * len(sizes if outputs is None else outputs),
            "state": state,
            "time_discovered_started_ns": self.now_ns + 1000 if state != "scheduled" else None,
            "time_discovered_completed_ns": self.now_ns + 2000 if completed else None,
            "retired": completed or timed_out,
            "timeout_ms": 600000,
            "is_p2p": is_p2p,
        })
        return self

    def call(self, group, name="all_reduce", state="completed", sizes=((16, 4),), dtype="Float", outputs=None, frame=10, timed_out=False):
        listed = [list(s) for s in sizes]
        self._count(group, "collective")
        return self._entry(group, name, state, listed, dtype, False, outputs, frame, timed_out)

    def send(self, group, to, state="completed", sizes=((8,),), timed_out=False):
        self._count(group, "p2p")
        return self._send(group, to, state, sizes, timed_out)

    def receive(self, group, source, state="completed", sizes=((8,),), timed_out=False):
        self._count(group, "p2p")
        return self._receive(group, source, state, sizes, timed_out)

    def _send(self, group, to, state, sizes=((8,),), timed_out=False):
        name = "send %d->%d" % (group.ranks.index(self.rank), to)
        return self._entry(group, name, state, [list(s) for s in sizes], "Float", True, None, 20, timed_out)

    def _receive(self, group, source, state, sizes=((8,),), timed_out=False):
        name = "recv %d<-%d" % (group.ranks.index(self.rank), source)
        return self._entry(group, name, state, [list(s) for s in sizes], "Float", True, None, 30, timed_out)

    def coalesced(self, group, calls, state="completed", timed_out=False):
        """Sends (peer, True) and receives (peer, False) as batch_isend_irecv() makes them: one number, only the end has a state, and that
        says of itself that it is no transfer. Up to 2.4 the number counted is that of collectives."""
        self._count(group, "collective" if self.version in ("2.2", "2.3", "2.4") else "p2p")
        for peer, sends in calls:
            (self._send if sends else self._receive)(group, peer, "scheduled")
        return self._end(group, state, timed_out)

    def coalesced_collectives(self, group, names, state="completed", timed_out=False):
        """As all_gather() of uneven tensors makes them, from 2.7 on."""
        self._count(group, "collective")
        for name, size in names:
            self._entry(group, name, "scheduled", [[size]], "Float", False, None, 20, False)
        return self._end(group, state, timed_out)

    def _end(self, group, state, timed_out):
        return self._entry(group, "coalesced", state, [], "Float", False, None, 20, timed_out)

    def overwritten(self, calls):
        """The recorder's buffer was full, and so many of the oldest calls are gone."""
        del self.entries[:calls]
        return self

    def document(self):
        return {
            "version": self.version,
            "comm_lib_version": "2.29.7",
            "pg_config": {g.name: {"name": g.name, "desc": g.description, "ranks": g.ranks_as_dumped or str(g.ranks)} for g in self.groups},
            "pg_status": {str(g.pg_id): {"last_enqueued_collective": self.numbers.get((g.name, "collective"), -1), "last_started_collective": -1,
                                         "last_completed_collective": -1} for g in self.groups},
            "entries": self.entries,
        }

    def write(self, folder, protocol=2, prefix="nccl_trace_rank_"):
        path = os.path.join(folder, prefix + str(self.rank))
        with open(path, "wb") as file:
            file.write(pickle.dumps(self.document(), protocol=protocol))
        return path

    def write_json(self, folder):
        document = self.document()
        for entry in document["entries"]:
            del entry["frames"]
            for key in ("time_discovered_started_ns", "time_discovered_completed_ns"):
                entry[key] = entry[key] or 0
        for row in document["pg_status"].values():
            row.update((key, str(value)) for key, value in row.items())
        path = os.path.join(folder, "nccl_trace_rank_%d.json" % self.rank)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(document, file)
        return path
