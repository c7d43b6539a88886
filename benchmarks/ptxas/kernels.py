"""The functions whose registers and stack are checked, in the words of upstream's ONLY_FUNCS."""

PROTOCOLS = ("LL", "LL128", "SIMPLE")


def _all_protocols(function):
    return ["%s %s" % (function, protocol) for protocol in PROTOCOLS]


# What training jobs mostly run: one data type and reduction stand for all, since the hooks depend on neither.
MAIN = (
    _all_protocols("AllReduce Sum f32 RING")
    + _all_protocols("AllReduce Sum f32 TREE")
    + _all_protocols("AllGather RING")
    + ["AllGather PAT SIMPLE"]
    + _all_protocols("ReduceScatter Sum f32 RING")
    + ["ReduceScatter Sum f32 PAT SIMPLE"]
    + _all_protocols("Broadcast RING")
    + _all_protocols("Reduce Sum f32 RING")
    + _all_protocols("AllGatherV RING")
    + ["SendRecv"])

# They need a switch that reduces, which the CPU device does not have; on a GPU they are built like the others.
SWITCH = (
    ["AllReduce Sum f32 %s SIMPLE" % algorithm for algorithm in ("NVLS", "NVLS_TREE", "COLLNET_DIRECT", "COLLNET_CHAIN")]
    + ["AllGather NVLS SIMPLE", "ReduceScatter Sum f32 NVLS SIMPLE"])

# The kernel that calls any function through a table, and the kernel of one-rank communicators.
GENERIC = "Generic"

ALL = MAIN + SWITCH + [GENERIC]


def file_name(function):
    return function.lower().replace(" ", "_")
