"""Who is where in the jobs of the matrix: two nodes, two channels, and the groups of a layout (test/support/workload/layout.h)."""


GROUPS = ("world", "tp", "pp", "dp", "ep")


def node_size(ranks):
    return ranks // 2


def links_between_nodes(algorithm, ranks):
    """{sending node: (sender, receiver)} of the connections that leave a node. NCCL orders a ring by rank, and both of its trees
    join the first ranks of the two nodes. Those of NVLSTree join the first two, each by a link of its own; faults are on the first. NVLS leaves
    no node."""
    half = node_size(ranks)
    if algorithm == "NVLS":
        return {}
    if algorithm == "Ring":
        return {0: (half - 1, half), 1: (ranks - 1, 0)}
    return {0: (0, half), 1: (half, 0)}


def ranks_with_proxies(algorithm, ranks):
    if algorithm == "NVLSTree":
        return [0, 1, node_size(ranks), node_size(ranks) + 1]
    return sorted({rank for link in links_between_nodes(algorithm, ranks).values() for rank in link})


def wire_bytes(algorithm, protocol, ranks, message_bytes):
    """What an all-reduce puts on such a connection, in both channels together."""
    share = {"Ring": 2 * (ranks - 1) / ranks, "Tree": 1, "NVLSTree": 1 / 2}[algorithm]
    return message_bytes * share * {"Simple": 1, "LL": 2, "LL128": 16 / 15}[protocol]


def comm_name(layout, group, rank):
    """The name that the workload gives to the rank's communicator of this group."""
    tp, dp, ep = layout["tp"], layout["dp"], layout.get("ep", 1)
    stage, data_index = rank // (tp * dp), rank // tp % dp
    data_color = stage * tp + rank % tp
    color = {"world": None, "tp": rank // tp, "pp": rank % (tp * dp), "dp": data_color, "ep": data_color * (dp // ep) + data_index // ep}[group]
    return group if color is None else "%s%d" % (group, color)


def members(layout, name):
    """The job's ranks of the communicator with this name, by their ranks in it; None: the layout has no such communicator."""
    ranks = range(layout["tp"] * layout["pp"] * layout["dp"])
    found = [rank for rank in ranks for group in GROUPS if comm_name(layout, group, rank) == name]
    return found or None


def transfers_between_nodes(layout):
    """{sending node: [(sender, receiver)]} of the Sends that leave a node: activations to the next stage, gradients to the one before."""
    width = layout["tp"] * layout["dp"]
    ranks = width * layout["pp"]
    node = {rank: rank // node_size(ranks) for rank in range(ranks)}
    links = {0: [], 1: []}
    for sender in range(ranks):
        for receiver in (sender + width, sender - width):
            if receiver in node and node[receiver] != node[sender]:
                links[node[sender]].append((sender, receiver))
    return links


def links_of_pipeline(layout):
    """{sending node: [(sender, receiver)]} of all that crosses the link of a job whose other groups stay within a node: transfers, and the ring of the
    whole job, which puts a few bytes on it."""
    ring = links_between_nodes("Ring", layout["tp"] * layout["dp"] * layout["pp"])
    return {node: sorted({ring[node], *links}) for node, links in transfers_between_nodes(layout).items()}


def ranks_with_transfers_only(layout):
    """The ranks whose network proxies serve Send and Recv alone: the communicator of the whole job is a ring, which leaves a node elsewhere."""
    ranks = layout["tp"] * layout["pp"] * layout["dp"]
    ends = {rank for links in transfers_between_nodes(layout).values() for link in links for rank in link}
    return sorted(ends - set(ranks_with_proxies("Ring", ranks)))
