#!/usr/bin/env python3
"""Makes C++20 for the CPU device from upstream's CUDA device code, at build time.

Usage: transform.py --tree PATCHED_TREE --out FOLDER --only-funcs PATTERN [--root REPOSITORY --header PATH...]

FOLDER gets
  device/...       upstream's src/device with its inline PTX and the places of rewrite_rules.py rewritten
  functions/...    the sources that upstream generates for the functions that PATTERN selects (its ONLY_FUNCS grammar)
  symmetric/...    symmetric kernels: upstream's table, and bodies that trap
  ours/...         our own device headers, PATH being relative to REPOSITORY, with their inline PTX rewritten
Only files whose text changes are written, and files that are no longer made are removed: a build that uses the folder
compiles just what a change affects. An error is one line.
"""
import argparse
import os
import shutil
import sys
import tempfile

sys.dont_write_bytecode = True
import function_tables
import ptx_calls
import rewrite_rules
from ptx_calls import TransformError

DEVICE_SUFFIXES = (".h", ".cu", ".cuh")


class OutputFolder:
    """Collects files and brings a folder up to date with them."""

    def __init__(self, folder):
        self.folder = folder
        self.files = {}

    def add(self, path, text):
        self.files[path] = text

    def update(self):
        written = 0
        for path, text in sorted(self.files.items()):
            full = os.path.join(self.folder, path)
            data = text.encode("utf-8", "surrogateescape")
            if os.path.isfile(full):
                with open(full, "rb") as f:
                    if f.read() == data:
                        continue
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full + ".new", "wb") as f:
                f.write(data)
            os.replace(full + ".new", full)
            written += 1
        for folder, _, names in os.walk(self.folder):
            for name in names:
                full = os.path.join(folder, name)
                if os.path.relpath(full, self.folder) not in self.files:
                    os.remove(full)
        return written


def read(path):
    with open(path, encoding="utf-8", errors="surrogateescape", newline="") as f:
        return f.read()


def add_device_code(source, output):
    """upstream's src/device, without the symmetric kernels."""
    paths = []
    for folder, subfolders, names in os.walk(source):
        if folder == source:
            subfolders.remove("symmetric")
        for name in names:
            if name.endswith(DEVICE_SUFFIXES):
                paths.append(os.path.relpath(os.path.join(folder, name), source))
    rewrite_rules.check_files(paths)
    templates = set()
    for path in sorted(paths):
        try:
            text, found = ptx_calls.rewrite(read(os.path.join(source, path)))
            text = rewrite_rules.apply(path, text)
        except TransformError as error:
            raise TransformError("src/device/%s: %s" % (path, error))
        templates.update(found)
        output.add(os.path.join("device", path), text)
    return len(templates)


def add_functions(source, only_funcs, output):
    work = tempfile.mkdtemp(prefix="ccld-functions.")
    try:
        restricted, everything, symmetric = (os.path.join(work, name) for name in ("some", "all", "symmetric"))
        generator = os.path.join(source, "generate.py")
        function_tables.run_generator(generator, restricted, only_funcs)
        function_tables.run_generator(generator, everything)
        function_tables.run_generator(os.path.join(source, "symmetric", "generate.py"), symmetric)
        generated = function_tables.read_folder(restricted)
        missing = function_tables.name_missing_functions(generated, function_tables.read_folder(everything))
        symmetric_table = read(os.path.join(symmetric, "sym_kernels_host.cc"))
    finally:
        shutil.rmtree(work, ignore_errors=True)
    for name, text in generated.items():
        # upstream also writes a file per operation for its dependency scan; it defines nothing
        if "DEFINE_" in text or name in ("host_table.cc", "device_table.cu"):
            output.add("functions/" + name, text)
    output.add("functions/missing_functions.cc", missing)
    output.add("symmetric/sym_kernels_host.cc", symmetric_table)
    output.add("symmetric/stubs.cu", function_tables.symmetric_stubs(symmetric_table))


def add_own_headers(root, headers, output):
    for header in headers:
        try:
            output.add(os.path.join("ours", header), ptx_calls.rewrite(read(os.path.join(root, header)))[0])
        except TransformError as error:
            raise TransformError("%s: %s" % (header, error))


def main():
    parser = argparse.ArgumentParser(prog="transform.py", description=__doc__.split("\n")[0])
    parser.add_argument("--tree", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--only-funcs", required=True)
    parser.add_argument("--root", default="")
    parser.add_argument("--header", action="append", default=[])
    arguments = parser.parse_args()
    output = OutputFolder(arguments.out)
    source = os.path.join(arguments.tree, "src", "device")
    templates = add_device_code(source, output)
    add_functions(source, arguments.only_funcs, output)
    add_own_headers(arguments.root, arguments.header, output)
    written = output.update()
    if written:
        print("transform: %d PTX templates, %d of %d files written" % (templates, written, len(output.files)))


if __name__ == "__main__":
    try:
        main()
    except TransformError as error:
        sys.exit("transform: %s" % error)
    except OSError as error:
        sys.exit("transform: %s: %s" % (error.filename, error.strerror))
