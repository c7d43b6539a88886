"""Which NCCL this process really has: seen from inside."""
import ctypes
import glob
import os
import re

NCCL = re.compile(r"(/\S*/libnccl[^/]*\.so[.\d]*)(?: \(deleted\))?$")


class WrongLibrary(Exception):
    """One line that says what this process uses instead, and what to do."""


class _Symbol(ctypes.Structure):
    _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("name", ctypes.c_char_p), ("address", ctypes.c_void_p)]


def mapped(maps=None):
    """Paths of all NCCL libraries that are loaded, each once."""
    if maps is None:
        with open("/proc/self/maps") as file:
            maps = file.read()
    found = []
    for line in maps.splitlines():
        match = NCCL.search(line)
        if match and match.group(1) not in found:
            found.append(match.group(1))
    return found


def everybodys():
    """The library whose functions win everywhere in this process, because it is in the global scope; None: there is none."""
    process = ctypes.CDLL(None)
    try:
        address = ctypes.cast(process.ncclGetVersion, ctypes.c_void_p)
        process.dladdr.argtypes = [ctypes.c_void_p, ctypes.POINTER(_Symbol)]
    except AttributeError:
        return None
    symbol = _Symbol()
    if process.dladdr(address, ctypes.byref(symbol)) == 0 or not symbol.file:
        return None
    return symbol.file.decode()


def judge(wanted, found, winner):
    """None if this process uses `wanted`; otherwise the sentence that says what is wrong. Paths; `found`: all loaded ones."""
    if not found:
        return ("no libnccl.so.2 is loaded: this torch has NCCL linked into it, or none; no variable can replace that. Use a build with "
                "USE_SYSTEM_NCCL=1 (the pip wheels are)")
    ours = [path for path in found if _same(path, wanted)]
    if not ours:
        return "%s is loaded instead of %s: set LD_PRELOAD to ours, which wins over every path in the program" % (", ".join(found), wanted)
    if len(found) > 1 and (winner is None or not _same(winner, wanted)):
        return "%s are loaded, and calls go to %s: set LD_PRELOAD to %s" % (" and ".join(found), winner or "one of them", wanted)
    return None


def check(wanted):
    """Raises WrongLibrary unless this process uses the library `wanted`. Returns what it is."""
    found = mapped()
    problem = judge(wanted, found, everybodys())
    if problem:
        raise WrongLibrary(problem)
    version = ctypes.c_int()
    ctypes.CDLL(next(path for path in found if _same(path, wanted))).ncclGetVersion(ctypes.byref(version))
    return {"path": wanted, "version": version.value, "loaded": found}


def check_watched(frames_folder="/dev/shm"):
    """After the first communicator was made: raises WrongLibrary unless the probe has a frame for it, which no other NCCL writes."""
    if not glob.glob(os.path.join(frames_folder, "ccld-%d-*.frame" % os.getpid())):
        raise WrongLibrary("there is no probing frame of this process in %s although it has communicators: its calls do not reach our library, "
                           "or the probe is off (NCCL_PROBE_ENABLE)" % frames_folder)


def _same(path, other):
    try:
        return os.path.samefile(path, other)
    except OSError:
        return os.path.realpath(path) == os.path.realpath(other)
