"""Pristine and patched source of upstream, and what its device code needs from a build: generated files, nvcc."""
import hashlib
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


class PtxasError(Exception):
    """One line that says what is wrong and what to do."""


def run(command, what, **options):
    """Standard output of `command`; its last line of errors becomes ours."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    except OSError as error:
        raise PtxasError("%s: %s: %s" % (what, command[0], error.strerror))
    if done.returncode != 0:
        lines = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        errors = [line for line in lines if "error" in line] or lines[-1:] or ["status %d" % done.returncode]
        raise PtxasError("%s: %s" % (what, errors[0].strip()))
    return done.stdout


def find_nvcc():
    candidates = [os.path.join(os.environ[name], "bin", "nvcc") for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    candidates += [shutil.which("nvcc") or "", "/usr/local/cuda/bin/nvcc"]
    for path in candidates:
        if path and os.access(path, os.X_OK):
            return path
    raise PtxasError("nvcc was not found in CUDA_HOME, PATH or /usr/local/cuda: install the CUDA toolkit (no GPU is needed)")


def nvcc_version(nvcc):
    found = re.search(r"release (\d+)\.(\d+), V(\S+)", run([nvcc, "--version"], "nvcc"))
    if not found:
        raise PtxasError("%s --version does not name a release" % nvcc)
    return int(found.group(1)), int(found.group(2)), found.group(3)


def write_if_different(path, text):
    if os.path.isfile(path):
        with open(path) as file:
            if file.read() == text:
                return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def upstream_trees(folder):
    """Both trees below `folder`, made or brought up to date: {"pristine": path, "patched": path}."""
    cache = os.path.join(ROOT, "build", "cache")
    tarball = run([os.path.join(ROOT, "scripts", "fetch-nccl"), cache], "upstream cannot be fetched").strip()
    nothing = os.path.join(folder, "no_patches")
    write_if_different(os.path.join(nothing, "series"), "")
    apply = [sys.executable, os.path.join(ROOT, "scripts", "apply-patches"), tarball]
    trees = {"pristine": os.path.join(folder, "pristine"), "patched": os.path.join(folder, "patched")}
    run(apply + [trees["pristine"], "--patches", nothing], "upstream cannot be unpacked")
    run(apply + [trees["patched"]], "upstream cannot be patched")
    return trees


def generate_headers(tree, folder):
    """Writes nccl.h and links the folder of headers, both of which upstream's makefiles put into a build folder."""
    link = os.path.join(folder, "doca_gpunetio")
    if not os.path.lexists(link):
        os.makedirs(folder, exist_ok=True)
        os.symlink(os.path.join(tree, "src", "transport", "net_ib", "gdaki", "doca-gpunetio", "include"), link)
    values = {}
    with open(os.path.join(tree, "makefiles", "version.mk")) as file:
        for name, value in re.findall(r"^NCCL_(\w+) *:= *(\S*)", file.read(), re.M):
            values[name] = value
    code = int(values["MAJOR"]) * 10000 + int(values["MINOR"]) * 100 + int(values["PATCH"])
    with open(os.path.join(tree, "src", "nccl.h.in")) as file:
        text = file.read()
    for field, value in (("Major", values["MAJOR"]), ("Minor", values["MINOR"]), ("Patch", values["PATCH"]),
                         ("Suffix", values.get("SUFFIX", "")), ("Version", str(code))):
        text = text.replace("${nccl:%s}" % field, value)
    write_if_different(os.path.join(folder, "nccl.h"), text)


def generate_source(tree, function, folder):
    """Runs upstream's generator for one function; the path of the one .cu file that holds it."""
    run([sys.executable, "-B", os.path.join(tree, "src", "device", "generate.py"), folder, function],
        "upstream's generator", env=dict(os.environ, NCCL_USE_CMAKE="1"))
    wanted = "ncclDevFunc"
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if name.endswith(".cu") and name != "device_table.cu":
            with open(path) as file:
                if "DEFINE_" + wanted in file.read():
                    return path
    raise PtxasError("upstream's generator knows no function '%s'" % function)


def digest_of(paths):
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.encode() + b"\0")
        with open(path, "rb") as file:
            digest.update(hashlib.sha256(file.read()).digest())
    return digest.hexdigest()
