#!/usr/bin/env python3
"""Makes C++20 for the CPU device from upstream's CUDA device code, at build time.

Usage: transform.py --tree PATCHED_TREE --out FOLDER --only-funcs PATTERN [--root REPOSITORY --header PATH...]

FOLDER gets
  device/...       upstream's src/device with its inline PTX and the places of rewrite_rules.py rewritten
  functions/...    the sources that upstream generates for the functions that PATTERN selects (its ONLY_FUNCS grammar)
  symmetric/...    upstream's table of symmetric kernels, with null for each: the CPU device has none
  ours/...         our own device headers, PATH being relative to REPOSITORY, with their inline PTX rewritten
Only files whose text changes are written, and files that are no longer made are removed: a build that uses the folder
compiles just what a change affects. An error is one line.
"""
import argparse
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(1, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "functions"))
import function_tables
import ptx_calls
import rewrite_rules
from function_tables import FunctionsError
from output_folder import OutputFolder
from ptx_calls import TransformError

DEVICE_SUFFIXES = (".h", ".cu", ".cuh")


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
    functions, symmetric = function_tables.generate(source, only_funcs, with_symmetric=False)
    for folder, files in (("functions", functions), ("symmetric", symmetric)):
        for name, text in files.items():
            output.add("%s/%s" % (folder, name), text)


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
    except (TransformError, FunctionsError) as error:
        sys.exit("transform: %s" % error)
    except OSError as error:
        sys.exit("transform: %s: %s" % (error.filename, error.strerror))
