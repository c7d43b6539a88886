"""Which NCCL a PyTorch build will load, read from its files without loading any of them.

The loader looks for a needed library in this order: what LD_PRELOAD has already brought in, DT_RPATH of whoever needs it (and of whoever
loaded that one), LD_LIBRARY_PATH, DT_RUNPATH, the system's cache. DT_RPATH counts only where there is no DT_RUNPATH.
"""
import glob
import os
import re
import shutil
import subprocess
from collections import namedtuple

from run.errors import RunError

LIBRARY_PATH, PRELOAD = "LD_LIBRARY_PATH", "LD_PRELOAD"
SONAME = "libnccl.so.2"

NEEDED = re.compile(r"\(NEEDED\).*\[(.+)\]")
RPATH = re.compile(r"\(RPATH\).*\[(.*)\]")
RUNPATH = re.compile(r"\(RUNPATH\).*\[(.*)\]")
SYMBOL = re.compile(r"^ *\d+: +\S+ +\S+ +(?:FUNC|NOTYPE) +(?:GLOBAL|WEAK) +\S+ +(\S+) (nccl[A-Z]\w+)", re.M)

Dynamic = namedtuple("Dynamic", "needed rpath runpath")
# `ways`: those that make this torch load another NCCL. `why`: one sentence. `own`: the NCCL that it finds by its own paths, or None.
Linking = namedtuple("Linking", "kind ways why own")


def read_dynamic(path):
    text = _readelf(["-dW"], path)

    def folders(pattern):
        return [folder for found in pattern.findall(text) for folder in found.split(":") if folder]
    return Dynamic(NEEDED.findall(text), folders(RPATH), folders(RUNPATH))


def nccl_symbols(path):
    """(functions of NCCL that the library defines, those that it wants from others)."""
    found = SYMBOL.findall(_readelf(["--dyn-syms", "-W"], path))
    return ({name for section, name in found if section != "UND"}, {name for section, name in found if section == "UND"})


def library_of(torch_folder):
    """The library of a torch package that calls NCCL."""
    folder = os.path.join(torch_folder, "lib")
    for name in ("libtorch_cuda.so", "libtorch_cuda_cpp.so"):
        for path in sorted(glob.glob(os.path.join(folder, name + "*"))):
            return path
    raise RunError("%s has no libtorch_cuda.so: this torch is built without CUDA" % folder)


def find_torch(python):
    """The folder of the torch package that this Python would import; torch itself is not loaded."""
    code = "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
    try:
        done = subprocess.run([python, "-c", code], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    except OSError as error:
        raise RunError("%s: %s" % (python, error.strerror))
    folder = done.stdout.strip()
    if done.returncode != 0 or not folder:
        raise RunError("%s has no torch: name one that has, with --python" % python)
    return folder


def judge(torch_folder):
    """How this torch is linked with NCCL, and what makes it use another one."""
    library = library_of(torch_folder)
    name = os.path.basename(library)
    if shutil.which("readelf") is None:
        return Linking("unknown", (PRELOAD, LIBRARY_PATH), "without readelf (binutils) nobody can say how %s is linked; a preloaded library is the "
                       "surest way" % name, None)
    dynamic = read_dynamic(library)
    if SONAME not in dynamic.needed:
        defined, wanted = nccl_symbols(library)
        if wanted and not defined:
            return Linking("loaded", (PRELOAD,), "%s needs functions of NCCL but no library that has them: somebody else loads it, and only "
                           "a library that is there before everything else is sure to win" % name, None)
        return Linking("static", (), "%s does not need %s: NCCL is a part of it (USE_SYSTEM_NCCL=0 when it was built), or it has none" %
                       (name, SONAME), None)
    if dynamic.rpath and not dynamic.runpath:
        own = _first(dynamic.rpath, library)
        if own:
            return Linking("rpath", (PRELOAD,), "%s has a DT_RPATH to its own NCCL, which the loader asks before LD_LIBRARY_PATH" % name, own)
    if dynamic.runpath:
        own = _first(dynamic.runpath, library)
        return Linking("runpath", (LIBRARY_PATH, PRELOAD), "%s has a DT_RUNPATH, which the loader asks after LD_LIBRARY_PATH" % name, own)
    return Linking("system", (LIBRARY_PATH, PRELOAD), "%s has no path to an NCCL of its own: the loader looks where the system says" % name, None)


def environment(way, library, inherited):
    """The variables that make processes load `library`, given those they would have."""
    before = inherited.get(way, "")
    entry = library if way == PRELOAD else os.path.dirname(library)
    return {way: entry + (":" + before if before else "")}


def _first(folders, library):
    origin = os.path.dirname(os.path.realpath(library))
    for folder in folders:
        path = os.path.join(folder.replace("${ORIGIN}", origin).replace("$ORIGIN", origin), SONAME)
        if os.path.exists(path):
            return os.path.realpath(path)
    return None


def _readelf(options, path):
    done = subprocess.run(["readelf"] + options + [path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, errors="replace", env=dict(os.environ, LC_ALL="C", LD_PRELOAD=""))
    if done.returncode != 0 or "Dynamic section" not in done.stdout and "-dW" in options:
        raise RunError("%s is not a shared library: %s" % (path, done.stderr.strip().splitlines()[0] if done.stderr.strip() else "no dynamic section"))
    return done.stdout
