"""Flight Recorder dumps as PyTorch writes them, made for tests: the members and the names are those of its dump_entries()."""
import json
import os
import pickle

BEGIN_NS = 1_700_000_000_000_000_000
SECOND_NS = 1_000_000_000


class Group:
    def __init__(self, name, ranks, description="undefined", pg_id=0):
        self.name, self.ranks, self.description, self.pg_id = name, list(ranks), description, pg_id


class Rank:
    """One rank's dump in the making. Calls are numbered as PyTorch does: collectives and transfers each from 1 in a group."""

    def __init__(self, rank, groups, version="2.10"):
        self.rank, self.version = rank, version
        self.groups = [g for g in groups if rank in g.ranks]
        self.entries = []
        self.numbers = {}
        self.now_ns = BEGIN_NS

    def _entry(self, group, name, state, sizes, dtype, is_p2p, outputs, frame, timed_out):
        kind = "p2p" if is_p2p else "collective"
        number = self.numbers[group.name, kind] = self.numbers.get((group.name, kind), 0) + 1
        self.now_ns += SECOND_NS // 100
        completed = state == "completed"
        self.entries.append({
            "frames": [{"name": "all_reduce", "filename": "/usr/lib/python3/torch/distributed/distributed_c10d.py", "line": 2696},
                       {"name": "step", "filename": "/home/user/train.py", "line": frame}],
            "record_id": len(self.entries),
            "pg_id": group.pg_id,
            "process_group": (group.name, group.description),
            "thread_name": "pt_main", "thread_id": "1",
            "collective_seq_id": 0 if is_p2p else number,
            "p2p_seq_id": number if is_p2p else 0,
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
        return self._entry(group, name, state, listed, dtype, False, outputs, frame, timed_out)

    def send(self, group, to, state="completed", sizes=((8,),), timed_out=False):
        name = "send %d->%d" % (group.ranks.index(self.rank), to)
        return self._entry(group, name, state, [list(s) for s in sizes], "Float", True, None, 20, timed_out)

    def receive(self, group, source, state="completed", sizes=((8,),), timed_out=False):
        name = "recv %d<-%d" % (group.ranks.index(self.rank), source)
        return self._entry(group, name, state, [list(s) for s in sizes], "Float", True, None, 30, timed_out)

    def coalesced(self, group, calls, state="completed", timed_out=False):
        """Sends (peer, True) and receives (peer, False) as batch_isend_irecv() makes them: one number, and only the end has a state."""
        before = self.numbers.get((group.name, "p2p"), 0)
        for peer, sends in calls:
            self.numbers[group.name, "p2p"] = before
            (self.send if sends else self.receive)(group, peer, state="scheduled")
            self.entries[-1].update(duration_ms=None, time_discovered_completed_ns=None)
        self.numbers[group.name, "p2p"] = before
        return self._entry(group, "coalesced", state, [], "Float", True, None, 20, timed_out)

    def document(self):
        return {
            "version": self.version,
            "comm_lib_version": "2.29.7",
            "pg_config": {g.name: {"name": g.name, "desc": g.description, "ranks": str(g.ranks)} for g in self.groups},
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
