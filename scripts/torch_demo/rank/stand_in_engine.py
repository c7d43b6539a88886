"""Does what torch does, with NCCL through ctypes on the CPU device: for machines that have no torch or no GPU.

The same calls in the same order: a communicator for all ranks, groups split off from it (by all ranks, also those outside), names in the
configuration, gradients in buckets.
"""
import array
import ctypes
import os
import time
from collections import namedtuple

from .jobs import METRICS
from .loaded_library import mapped
from .names import write_name

Group = namedtuple("Group", "name ranks handle")

UNDEFINED = -(1 << 31)  # NCCL_CONFIG_UNDEF_INT
NO_COLOR = -1
FLOAT32, SUM = 7, 0
TO_DEVICE, TO_HOST = 1, 2
NON_BLOCKING = 1
ACTIVATION = 1 << 14
BUCKETS = (1 << 15, 1 << 15)
COMPUTE_S = 0.002


class Config(ctypes.Structure):
    """ncclConfig_t of NCCL 2.29.7."""
    _fields_ = [("size", ctypes.c_size_t), ("magic", ctypes.c_uint), ("version", ctypes.c_uint), ("blocking", ctypes.c_int),
                ("cga_cluster_size", ctypes.c_int), ("min_ctas", ctypes.c_int), ("max_ctas", ctypes.c_int), ("net_name", ctypes.c_char_p),
                ("split_share", ctypes.c_int), ("traffic_class", ctypes.c_int), ("comm_name", ctypes.c_char_p),
                ("collnet_enable", ctypes.c_int), ("cta_policy", ctypes.c_int), ("shrink_share", ctypes.c_int), ("nvls_ctas", ctypes.c_int),
                ("channels_per_net_peer", ctypes.c_int), ("nvlink_centric", ctypes.c_int), ("graph_usage", ctypes.c_int),
                ("rma_contexts", ctypes.c_int)]


class UniqueId(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]


def new_config():
    config = Config()
    for name, kind in Config._fields_:
        if kind is ctypes.c_int:
            setattr(config, name, UNDEFINED)
    config.size, config.magic, config.version = ctypes.sizeof(Config), 0xcafebeef, 22907
    return config


def numbers(value, count):
    return (array.array("f", [value]) * count).tobytes()


class NcclError(Exception):
    pass


class Functions:
    """NCCL and the CUDA runtime; a call that fails raises."""

    def __init__(self):
        self._nccl = ctypes.CDLL("libnccl.so.2")
        # The CPU device's runtime lies beside the NCCL that uses it.
        folder = os.path.dirname(mapped()[0])
        self._cudart = ctypes.CDLL(os.path.join(folder, "libcudart_ccld.so"))
        self._nccl.ncclGetErrorString.restype = self._nccl.ncclGetLastError.restype = ctypes.c_char_p
        # Opaque handles and addresses do not fit into ctypes' default of int.
        pointer, size, integer = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
        for name, types in {
                "ncclCommInitRankConfig": [pointer, integer, UniqueId, integer, pointer],
                "ncclCommSplit": [pointer, integer, integer, pointer, pointer],
                "ncclCommDestroy": [pointer],
                "ncclAllReduce": [pointer, pointer, size, integer, integer, pointer, pointer],
                "ncclBroadcast": [pointer, pointer, size, integer, integer, pointer, pointer],
                "ncclAllGather": [pointer, pointer, size, integer, pointer, pointer],
                "ncclSend": [pointer, size, integer, integer, pointer, pointer],
                "ncclRecv": [pointer, size, integer, integer, pointer, pointer]}.items():
            getattr(self._nccl, name).argtypes = types
        for name, types in {"cudaMalloc": [pointer, size], "cudaMemcpy": [pointer, pointer, size, integer],
                            "cudaStreamCreateWithFlags": [pointer, ctypes.c_uint], "cudaStreamSynchronize": [pointer]}.items():
            getattr(self._cudart, name).argtypes = types

    def nccl(self, name, *arguments):
        result = getattr(self._nccl, name)(*arguments)
        if result != 0:
            raise NcclError("%s: %s: %s" % (name, self._nccl.ncclGetErrorString(result).decode(), self._nccl.ncclGetLastError(None).decode()))

    def cuda(self, name, *arguments):
        result = getattr(self._cudart, name)(*arguments)
        if result != 0:
            raise NcclError("%s: cudaError_t %d" % (name, result))


class StandInEngine:
    can_name = True

    def __init__(self, id_path):
        self.rank, self.rank_count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self._call = Functions()
        devices = ctypes.c_int()
        self._call.cuda("cudaGetDeviceCount", ctypes.byref(devices))
        self._call.cuda("cudaSetDevice", int(os.environ.get("LOCAL_RANK", "0")) % devices.value)
        self._stream = ctypes.c_void_p()
        self._call.cuda("cudaStreamCreateWithFlags", ctypes.byref(self._stream), NON_BLOCKING)
        self._slots = {}
        unique_id = self._exchange_id(id_path)
        config = new_config()
        write_name(ctypes.addressof(config), "default_pg")
        handle = ctypes.c_void_p()
        self._call.nccl("ncclCommInitRankConfig", ctypes.byref(handle), self.rank_count, unique_id, self.rank, ctypes.byref(config))
        self._world = Group("default_pg", list(range(self.rank_count)), handle)
        self._handles = [handle]

    def _exchange_id(self, path):
        unique_id = UniqueId()
        if self.rank == 0:
            self._call.nccl("ncclGetUniqueId", ctypes.byref(unique_id))
            with open(path + ".part", "wb") as file:
                file.write(ctypes.string_at(ctypes.addressof(unique_id), ctypes.sizeof(unique_id)))
            os.rename(path + ".part", path)
        while not os.path.exists(path):
            time.sleep(0.005)
        with open(path, "rb") as file:
            ctypes.memmove(ctypes.addressof(unique_id), file.read(), ctypes.sizeof(unique_id))
        return unique_id

    def group(self, name, ranks):
        config = new_config()
        write_name(ctypes.addressof(config), name)
        handle = ctypes.c_void_p()
        color = 0 if self.rank in ranks else NO_COLOR
        self._call.nccl("ncclCommSplit", self._world.handle, color, self.rank, ctypes.byref(handle), ctypes.byref(config))
        if handle:
            self._handles.append(handle)
        return Group(name, ranks, handle)

    # ---- buffers: (address, elements)
    def _slot(self, name, count=ACTIVATION):
        if name not in self._slots:
            address = ctypes.c_void_p()
            count = METRICS if name == "metrics" else count
            self._call.cuda("cudaMalloc", ctypes.byref(address), 4 * count)
            self._slots[name] = address, count
            self.fill(name, 0)
        return self._slots[name]

    def fill(self, slot, value):
        address, count = self._slot(slot)
        self._call.cuda("cudaMemcpy", address, numbers(value, count), 4 * count, TO_DEVICE)

    def holds(self, slot, value):
        address, count = self._slot(slot)
        there = ctypes.create_string_buffer(4 * count)
        self._call.cuda("cudaMemcpy", there, address, 4 * count, TO_HOST)
        return there.raw == numbers(value, count)

    # ---- operations
    def all_reduce(self, group, slot, count):
        address, _ = self._slot(slot)
        self._call.nccl("ncclAllReduce", address, address, count, FLOAT32, SUM, group.handle, self._stream)

    def broadcast(self, group, slot, count):
        address, _ = self._slot(slot)
        self._call.nccl("ncclBroadcast", address, address, count, FLOAT32, 0, group.handle, self._stream)

    def all_gather(self, group, slot, count):
        address, _ = self._slot(slot)
        part = count // len(group.ranks)
        own = ctypes.c_void_p(address.value + 4 * part * group.ranks.index(self.rank))
        self._call.nccl("ncclAllGather", own, address, part, FLOAT32, group.handle, self._stream)

    def exchange(self, group, send_slot, send_to, receive_slot, receive_from):
        self._call.nccl("ncclGroupStart")
        if send_to is not None:
            address, count = self._slot(send_slot)
            self._call.nccl("ncclSend", address, count, FLOAT32, group.ranks.index(send_to), group.handle, self._stream)
        if receive_from is not None:
            address, count = self._slot(receive_slot)
            self._call.nccl("ncclRecv", address, count, FLOAT32, group.ranks.index(receive_from), group.handle, self._stream)
        self._call.nccl("ncclGroupEnd")

    def synchronize(self):
        self._call.cuda("cudaStreamSynchronize", self._stream)

    # ---- training
    def data_parallel(self, group):
        for index, count in enumerate(BUCKETS):
            self._slot("bucket %d" % index, count)

        def step():
            time.sleep(COMPUTE_S)
            for index, count in enumerate(BUCKETS):
                self.all_reduce(group, "bucket %d" % index, count)
        return step

    def stage(self, group):
        return StandInStage(self, group)

    def close(self):
        self.synchronize()
        for handle in reversed(self._handles):
            self._call.nccl("ncclCommDestroy", handle)


class StandInStage:
    def __init__(self, engine, group):
        self._engine, self._group = engine, group
        self._step = engine.data_parallel(group)

    def forward(self, micro_batch):
        time.sleep(COMPUTE_S)

    backward = forward

    def reduce_and_step(self):
        self._step()


def facts():
    """As torch_engine.facts()."""
    call, devices, version = Functions(), ctypes.c_int(), ctypes.c_int()
    call.cuda("cudaGetDeviceCount", ctypes.byref(devices))
    call.nccl("ncclGetVersion", ctypes.byref(version))
    return {"torch": "none (stand-in)", "cuda": "CPU device", "devices": devices.value,
            "nccl": "%d.%d.%d" % (version.value // 10000, version.value // 100 % 100, version.value % 100), "names": True}
