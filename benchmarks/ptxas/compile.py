"""Compiles one device function with nvcc and reads what it costs. Nothing is compiled twice for the same input."""
import concurrent.futures
import json
import os
import re

from cubin import Cubin, CubinError
from kernels import GENERIC, file_name
from trees import ROOT, PtxasError, digest_of, generate_source, run

ARCHITECTURES = ("90", "100")
SIDES = ("pristine", "patched")
# As upstream's makefiles compile device code.
REGISTER_CAP = 96
FLAGS = ("-std=c++17", "--expt-extended-lambda", "-O3", "-Xptxas", "-maxrregcount=%d" % REGISTER_CAP, "-Xptxas", "-v",
         "-rdc=true", "-cubin", "-DPROFAPI", "-DNCCL_OS_LINUX", "-Xcompiler", "-fPIC")
# Says where each instruction comes from, and changes none of them.
LINE_INFO = "-lineinfo"

PROPERTIES = re.compile(r"Function properties for '?(\w+)")
FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
READABLE = re.compile(r"^_Z\d+(nccl(?:DevKernel|DevFunc)_\w+?)(?:v|24ncclDevKernelArgs\w*)$")


def readable(mangled):
    """ncclDevFunc_AllReduce_Sum_f32_RING_LL; None for a function that is not one of NCCL's entries."""
    found = READABLE.match(mangled)
    return found.group(1) if found else None


def parse_log(text):
    """mangled name -> stack bytes, spill stores, spill loads, as ptxas -v prints them."""
    functions, name = {}, None
    for line in text.splitlines():
        found = PROPERTIES.search(line)
        if found:
            name = found.group(1)
        found = FRAME.search(line)
        if found and name:
            functions[name] = dict(zip(("stack_bytes", "spill_store_bytes", "spill_load_bytes"), map(int, found.groups())))
            name = None
    return functions


def dependencies(path):
    with open(path) as file:
        text = file.read().replace("\\\n", " ")
    names = re.split(r"(?<!\\)\s+", text.split(":", 1)[1].strip())
    return sorted(set(os.path.realpath(name.replace("\\ ", " ")) for name in names if name))


class Compiler:
    def __init__(self, nvcc, version, architecture, folder, headers, ours=ROOT, more_flags=()):
        self._nvcc = nvcc
        self._flags = (*FLAGS, *more_flags, "-gencode=arch=compute_%s,code=sm_%s" % (architecture, architecture))
        self._version = version
        self._folder = folder    # results
        self._headers = headers  # the folder of nccl.h
        self._ours = ours  # root of our own sources, for the patched tree

    def _include_folders(self, tree, patched):
        folders = [self._headers, os.path.join(tree, "src", "device"), os.path.join(tree, "src"),
                   os.path.join(tree, "src", "include"), os.path.join(tree, "src", "include", "plugin")]
        if patched:
            folders += [os.path.join(self._ours, "nccl", "hooks"), self._ours]
        cccl = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(self._nvcc))), "include", "cccl")
        return ["-I" + folder for folder in folders] + ["-I" + cccl]

    def compile(self, side, tree, function):
        """{"functions": {readable name: costs}, "shared_bytes": bytes or None, "cubin": path}"""
        folder = os.path.join(self._folder, side, file_name(function))
        os.makedirs(folder, exist_ok=True)
        if function == GENERIC:
            source = os.path.join(tree, "src", "device", "common.cu")
        else:
            source = generate_source(tree, function, os.path.join(folder, "generated"))
        out = {kind: os.path.join(folder, "function." + kind) for kind in ("cubin", "d", "json")}
        command = [self._nvcc, *self._flags, "-DCUDA_MAJOR=%d" % self._version[0], "-DCUDA_MINOR=%d" % self._version[1],
                   *self._include_folders(tree, side == "patched"), "-MD", "-MF", out["d"], "-o", out["cubin"], source]
        known = self._known(out["json"], command)
        if known:
            return dict(known, compiled=False, cubin=out["cubin"])
        log = self._run(command, "%s, %s" % (function, side))
        needed = dependencies(out["d"])
        self._refuse_foreign_headers(needed)
        costs = self._costs(log, out["cubin"], function)
        with open(out["json"], "w") as file:
            json.dump({"command": command, "version": self._version[2], "dependencies": needed,
                       "digest": digest_of(needed), "costs": costs}, file)
        return dict(costs, compiled=True, cubin=out["cubin"])

    @staticmethod
    def _run(command, what):
        # ptxas -v prints to standard error, nvcc to either
        return run(["/bin/sh", "-c", 'exec "$@" 2>&1', "sh", *command], what)

    def _known(self, path, command):
        try:
            with open(path) as file:
                known = json.load(file)
            if known["command"] == command and known["version"] == self._version[2] and \
                    known["digest"] == digest_of(known["dependencies"]):
                return known["costs"]
        except (OSError, ValueError, KeyError):
            pass
        return None

    def _refuse_foreign_headers(self, paths):
        """The toolkit may hold another release's nccl headers, which would be measured in place of upstream's."""
        toolkit = os.path.dirname(os.path.dirname(os.path.realpath(self._nvcc)))
        for path in paths:
            if path.startswith(toolkit) and os.path.basename(path).startswith("nccl"):
                raise PtxasError("%s was read in place of upstream's own header" % path)

    @staticmethod
    def _costs(log, cubin_path, function):
        with open(cubin_path, "rb") as file:
            try:
                cubin = Cubin(file.read())
            except CubinError as error:
                raise PtxasError("%s: %s" % (cubin_path, error))
        functions = {}
        for mangled, costs in parse_log(log).items():
            name = readable(mangled)
            if name and "Nop" not in name:
                if mangled not in cubin.registers:
                    raise PtxasError("%s: no register count for %s" % (cubin_path, name))
                functions[name] = dict(registers=cubin.registers[mangled], **costs)
        if not functions:
            raise PtxasError("%s: ptxas named no function of NCCL" % function)
        return {"functions": functions, "shared_bytes": cubin.size_of("ncclShmem")}


def compile_all(compiler, trees, functions, jobs, show):
    """{function: {side: result}}; progress goes to standard error."""
    results = {function: {} for function in functions}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        waiting = {pool.submit(compiler.compile, side, trees[side], function): (function, side)
                   for function in functions for side in SIDES}
        try:
            for done in concurrent.futures.as_completed(waiting):
                function, side = waiting[done]
                results[function][side] = done.result()
                if results[function][side]["compiled"]:
                    show("%-8s %s" % (side, function))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return results
