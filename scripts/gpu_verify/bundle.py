"""Packs what the checks need for a machine that has a driver, python3 and nothing of ours: no compiler, no package, no network.

The bundle has the folders of a build tree, upstream's library below pristine/, shared libraries of ccld and the probe in lib/, and our scripts at
their places in the repository, so that its own scripts/gpu-verify finds everything. Its machine needs x86-64 and a C library that is not
older than this one's.
"""
import datetime
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time

from .errors import VerifyError
from .layout import BEGIN_AND_END, BUNDLE_FILE, OFF, PRISTINE, ROOT, STEPS, WAITS
from .report import commit

BYTES_MAX = 60 << 20
LIBZMQ = "libzmq.so.5"
# The libraries are the same but for a few objects: the dictionary reaches from one to the next, so that what they share is packed once.
ARCHIVES = {".tar": ("w", {}), ".tar.gz": ("w:gz", {}), ".tar.xz": ("w:xz", {"preset": 9})}
NAME = "ccld-gpu-verify"
OWN_OPTIONS = ("--unpack", "--deadline-s")
SCRIPTS = ("scripts/gpu-verify", "scripts/gpu_verify", "scripts/torch-demo", "scripts/torch_demo", "test/support/run", "test/support/faults",
           "LICENSE")
# What every machine has, and must have in its own version: the C library, the compiler's runtime, the driver.
SYSTEM = re.compile(r"(ld-linux|linux-vdso|lib(c|m|dl|rt|pthread|resolv|util|stdc\+\+|gcc_s|cuda|nvidia-ml)\.so)")
WRAPPER = """#!/bin/sh
# ccld with the shared libraries of this bundle.
here=$(cd "$(dirname "$0")" && pwd)
LD_LIBRARY_PATH="$here/../lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" exec "$here/ccld.bin" "$@"
"""


def libraries_of(ldd_output):
    """{name: path} of what has to come along, out of ldd's lines."""
    found = {}
    for line in ldd_output.splitlines():
        words = line.split()
        if len(words) < 3 or words[1] != "=>" or SYSTEM.match(words[0]):
            continue
        if words[2] == "not":
            raise VerifyError("a bundle needs %s, which this machine does not have" % words[0])
        found[words[0]] = words[2]
    return found


def needed_libraries(program):
    done = subprocess.run(["ldd", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise VerifyError("ldd %s: %s" % (program, done.stderr.strip()))
    return libraries_of(done.stdout)


def put_stripped(source, target):
    os.makedirs(os.path.dirname(target), exist_ok=True)
    done = subprocess.run(["strip", "--strip-unneeded", "-o", target, source], stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise VerifyError("strip %s: %s" % (source, done.stderr.strip()))
    os.chmod(target, 0o755)


def put_library(folder, target):
    """libnccl.so.2, and what lies beside it (the CPU device; libcuda and the others are names of it)."""
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if os.path.islink(path) and name != "libnccl.so":
            os.makedirs(target, exist_ok=True)
            os.symlink(os.readlink(path), os.path.join(target, name))
        elif ".so" in name and not os.path.islink(path):
            put_stripped(path, os.path.join(target, name))


def put_libzmq(folder):
    """Beside the product's library, where the probe looks for it. What libzmq itself needs is found by it alone: in lib/, which must not come
    into the way of the libraries of a Python that loads ours."""
    target = os.path.join(folder, "nccl", "lib", LIBZMQ)
    shutil.copy2(os.path.join(folder, "lib", LIBZMQ), target)
    try:
        # Not a run path: that one would not hold for what its libraries need.
        done = subprocess.run(["patchelf", "--force-rpath", "--set-rpath", "$ORIGIN/../../lib", target], stderr=subprocess.PIPE, text=True)
    except FileNotFoundError:
        raise VerifyError("a bundle needs patchelf: install the package patchelf")
    if done.returncode != 0:
        raise VerifyError("patchelf %s: %s" % (target, done.stderr.strip()))


def put_scripts(folder):
    for path in SCRIPTS:
        source, target = os.path.join(ROOT, path), os.path.join(folder, path)
        if os.path.isdir(source):
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        elif os.path.exists(source):
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copy2(source, target)


def fill(layout, folder):
    for program in (layout.ranks_program, layout.workload):
        put_stripped(program, os.path.join(folder, "bin", os.path.basename(program)))
    put_stripped(layout.service, os.path.join(folder, "bin", "ccld.bin"))
    wrapper = os.path.join(folder, "bin", "ccld")
    with open(wrapper, "w") as file:
        file.write(WRAPPER)
    os.chmod(wrapper, 0o755)
    for path in needed_libraries(layout.service).values():
        put_stripped(os.path.realpath(path), os.path.join(folder, "lib", os.path.basename(path)))
    put_library(layout.product, os.path.join(folder, "nccl", "lib"))
    if layout.device == "cuda":
        put_libzmq(folder)
    put_library(layout.library(OFF), os.path.join(folder, "nccl", "one_gpu"))
    for variant in [BEGIN_AND_END, STEPS, WAITS] + layout.trials():
        if layout.has(variant):
            put_library(layout.library(variant), os.path.join(folder, "nccl", variant))
    put_library(layout.pristine_product, os.path.join(folder, "pristine", "nccl", "lib"))
    put_library(layout.library(PRISTINE), os.path.join(folder, "pristine", "nccl", "one_gpu"))
    put_scripts(folder)
    licence = os.path.join(layout.build, "nccl", "upstream", "LICENSE.txt")
    if os.path.exists(licence):
        shutil.copy2(licence, os.path.join(folder, "LICENSE.nccl"))
    with open(os.path.join(folder, BUNDLE_FILE), "w") as file:
        json.dump({"commit": commit(), "device": layout.device, "packed": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")}, file)


def size_of(path):
    if not os.path.isdir(path):
        return os.path.getsize(path)
    return sum(os.lstat(os.path.join(folder, name)).st_size for folder, _, names in os.walk(path) for name in names)


def make(layout, target):
    """Returns one line about what was made. The target is complete or untouched."""
    mode = next((mode for suffix, mode in ARCHIVES.items() if target.endswith(suffix)), None)
    target = os.path.abspath(target)
    if mode is None and os.path.isdir(target) and os.listdir(target) and not os.path.exists(os.path.join(target, BUNDLE_FILE)):
        raise VerifyError("--bundle %s: the folder is not empty and is no bundle; name another" % target)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    work = tempfile.mkdtemp(prefix=".bundle-", dir=os.path.dirname(target))
    try:
        folder = os.path.join(work, NAME)
        os.makedirs(folder)
        fill(layout, folder)
        made = folder
        if mode is not None:
            made = os.path.join(work, "archive")
            with tarfile.open(made, mode[0], **mode[1]) as archive:
                archive.add(folder, NAME)
        size = size_of(made)
        if size > BYTES_MAX:
            raise VerifyError("the bundle would have %.1f MiB, and at most %d can be taken along: pack a .tar.xz, or build fewer functions" % (
                size / (1 << 20), BYTES_MAX >> 20))
        if os.path.isdir(target) and mode is None:
            shutil.rmtree(target)
        os.rename(made, target)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return "%s: %.1f MiB" % (os.path.relpath(target), size / (1 << 20))


def without_own_options(arguments):
    """What the checks in the bundle are given."""
    result, skip = [], False
    for argument in arguments:
        if skip or argument.split("=")[0] in OWN_OPTIONS:
            skip = not skip and "=" not in argument
            continue
        result.append(argument)
    return result


def run_unpacked(archive_path, arguments, deadline_s):
    """The exit status of the bundle's own scripts/gpu-verify. Its folder is gone afterwards."""
    begin = time.monotonic()
    work = tempfile.mkdtemp(prefix="ccld-bundle-")
    try:
        try:
            with tarfile.open(archive_path) as archive:
                archive.extractall(work, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
        except (OSError, tarfile.TarError, EOFError) as error:
            raise VerifyError("--unpack %s: %s" % (archive_path, error))
        script = os.path.join(work, NAME, "scripts", "gpu-verify")
        if not os.path.exists(script):
            raise VerifyError("--unpack %s: it is no bundle" % archive_path)
        command = [sys.executable, "-B", script, "--deadline-s", "%.0f" % (deadline_s - (time.monotonic() - begin))]
        process = subprocess.Popen(command + without_own_options(arguments))
        try:
            return process.wait()
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
    finally:
        shutil.rmtree(work, ignore_errors=True)
