"""A case of the accuracy benchmark, and what a variant of a fault may draw from.

A case is a fault plan (test/support/faults/README.md) with a place in a suite. Nothing of it reaches the decision service.
"""
from collections import namedtuple

from topology import links_between_nodes, ranks_with_proxies, wire_bytes

HOUR_S = 3600
JOB = "training"  # what the ranks call their job: the service hears it, and must not learn the case from it

# suite: matrix, layout, pace, start, pipeline, short, nvls or benign. settings: the part of thresholds.json. plan: a document for faults.plan.Plan.
# truth_from_board: the class depends on where the stopped rank was, which the status board tells (truth.py).
Case = namedtuple("Case", "id suite fault_class algorithm protocol ranks repetition variant settings plan truth_from_board")


class Cell:
    """What a variant may draw from: the place of a case in the matrix, and its random numbers."""

    def __init__(self, algorithm, protocol, ranks, rng):
        self.algorithm, self.protocol, self.ranks, self.rng = algorithm, protocol, ranks, rng
        self.links = links_between_nodes(algorithm, ranks)
        self.proxies = ranks_with_proxies(algorithm, ranks)
        self.workload = {"operation": "allreduce", "bytes_min": "128K", "compute_ms": 5, "seconds": HOUR_S, "seed": rng.randrange(1, 1 << 30)}
        self.namespaces = False
        self.truth_from_board = False
        self.round_s = 0.2 if ranks <= 8 else 0.35  # what a round shall take behind a slow link

    def any_rank(self):
        return self.rng.randrange(self.ranks)

    def rank_without_proxy(self):
        return self.rng.choice([rank for rank in range(self.ranks) if rank not in self.proxies])

    def throttled(self, bytes_text, message_bytes):
        """A fault on the link between the nodes, and the connection it is on."""
        self.namespaces = True
        self.workload["bytes_min"] = bytes_text
        node = self.rng.randrange(2)
        bits_per_s = wire_bytes(self.algorithm, self.protocol, self.ranks, message_bytes) * 8 / (self.round_s * self.rng.uniform(0.9, 1.3))
        return {"kind": "throttle_link", "node": node, "rate": "%dkbit" % (bits_per_s / 1000)}, list(self.links[node])


def short_name(variant):
    return variant.__name__.split("_", 1)[1]


def environment(algorithm, protocol):
    # Only an all-reduce has a tree, and NVLS for every type that is drawn.
    variables = {"NCCL_ALGO": "Ring" if algorithm == "Ring" else "Ring;allreduce:%s" % algorithm, "NCCL_PROTO": protocol}
    if algorithm in ("NVLS", "NVLSTree"):
        # Small chunks, so that a message has many steps. Those that cross the network must fit into a step of NCCL_BUFFSIZE (run/job.py).
        variables.update({"CCLD_CPU_DEVICE_NVSWITCH": "1", "NCCL_NVLS_NCHANNELS": "2", "NCCL_NVLS_CHUNKSIZE": "16384"})
    if algorithm == "NVLS":
        variables["NCCL_HOSTID"] = "node0"  # NVLS alone stays within a node
    if algorithm == "NVLSTree":
        variables["NCCL_SOCKET_IFNAME"] = "data"  # both data links of the namespaces: NCCL wants two heads
    return variables


def layout_name(layout):
    return "x".join("%s%d" % item for item in layout.items())


def rank_count_of(layout):
    return layout["tp"] * layout["pp"] * layout["dp"]
