#!/usr/bin/env python3
"""Writes the sources that upstream generates for its device functions and kernels, for the build with nvcc.

Usage: generate.py --tree PATCHED_TREE --out FOLDER [--only-funcs PATTERN] [--symmetric]

FOLDER gets
  functions/...    what PATTERN selects (upstream's ONLY_FUNCS grammar; without it: all), the tables, the names of what is left out
  symmetric/...    with --symmetric the symmetric-memory kernels, and always their table
Only files whose text changes are written, and files that are no longer made are removed. An error is one line.
"""
import argparse
import os
import sys

sys.dont_write_bytecode = True
import function_tables
from output_folder import OutputFolder


def main():
    parser = argparse.ArgumentParser(prog="generate.py", description=__doc__.split("\n")[0])
    parser.add_argument("--tree", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--only-funcs", default="")
    parser.add_argument("--symmetric", action="store_true")
    arguments = parser.parse_args()
    functions, symmetric = function_tables.generate(os.path.join(arguments.tree, "src", "device"), arguments.only_funcs,
                                                    arguments.symmetric)
    output = OutputFolder(arguments.out)
    for folder, files in (("functions", functions), ("symmetric", symmetric)):
        for name, text in files.items():
            output.add("%s/%s" % (folder, name), text)
    written = output.update()
    if written:
        print("%d of %d generated files written" % (written, len(output.files)))


if __name__ == "__main__":
    try:
        main()
    except function_tables.FunctionsError as error:
        sys.exit("generate: %s" % error)
    except OSError as error:
        sys.exit("generate: %s: %s" % (error.filename, error.strerror))
