"""Gives the communicators that torch makes the names of their groups, so that verdicts can say them.

ncclConfig_t has a field for it since NCCL 2.27. torch has a property for that field only since the middle of 2026; before that it tells the
address of its ncclConfig_t (since 2.9), and the field is written there.
"""
import ctypes

MAGIC = 0xcafebeef
FIRST_VERSION = 22700


class ConfigHead(ctypes.Structure):
    """ncclConfig_t of NCCL 2.27, whose fields never move: later versions append."""
    _fields_ = [("size", ctypes.c_size_t), ("magic", ctypes.c_uint), ("version", ctypes.c_uint), ("blocking", ctypes.c_int),
                ("cga_cluster_size", ctypes.c_int), ("min_ctas", ctypes.c_int), ("max_ctas", ctypes.c_int), ("net_name", ctypes.c_char_p),
                ("split_share", ctypes.c_int), ("traffic_class", ctypes.c_int), ("comm_name", ctypes.c_char_p)]


_kept = []  # NCCL and torch keep the address of a name, not the name


def name_config(config, name):
    """Names the communicators made with this ProcessGroupNCCL.NCCLConfig; False: this torch has no way to."""
    if hasattr(config, "comm_name"):
        config.comm_name = name
        return True
    if not hasattr(config, "unsafe_get_ptr"):
        return False
    return write_name(config.unsafe_get_ptr(), name)


def write_name(address, name):
    """Writes the name into the ncclConfig_t at this address, if it is one that has the field."""
    head = ConfigHead.from_address(address)
    if head.magic != MAGIC or head.version < FIRST_VERSION or head.size < ctypes.sizeof(ConfigHead):
        return False
    _kept.append(ctypes.create_string_buffer(name.encode()))
    ctypes.c_void_p.from_address(address + ConfigHead.comm_name.offset).value = ctypes.addressof(_kept[-1])
    return True
