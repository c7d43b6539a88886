"""Who is where in the jobs of the matrix: two nodes, two channels, and the groups of a layout (test/support/workload/layout.h)."""


def node_size(ranks):
    return ranks // 2


def links_between_nodes(algorithm, ranks):
    """{sending node: (sender, receiver)} of the connections that leave a node. NCCL orders a ring by rank, and both of its trees
    join the first ranks of the two nodes."""
    half = node_size(ranks)
    if algorithm == "Ring":
        return {0: (half - 1, half), 1: (ranks - 1, 0)}
    return {0: (0, half), 1: (half, 0)}


def ranks_with_proxies(algorithm, ranks):
    return sorted({rank for link in links_between_nodes(algorithm, ranks).values() for rank in link})


def wire_bytes(algorithm, protocol, ranks, message_bytes):
    """What an all-reduce puts on such a connection, in both channels together."""
    share = 2 * (ranks - 1) / ranks if algorithm == "Ring" else 1
    return message_bytes * share * {"Simple": 1, "LL": 2, "LL128": 16 / 15}[protocol]


def comm_name(layout, group, rank):
    """The name that the workload gives to the rank's communicator of this group."""
    tp, dp, ep = layout["tp"], layout["dp"], layout.get("ep", 1)
    stage, data_index = rank // (tp * dp), rank // tp % dp
    data_color = stage * tp + rank % tp
    color = {"world": None, "tp": rank // tp, "pp": rank % (tp * dp), "dp": data_color, "ep": data_color * (dp // ep) + data_index // ep}[group]
    return group if color is None else "%s%d" % (group, color)
