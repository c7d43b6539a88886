#!/usr/bin/env python3
"""Copies a file of upstream's tree with the lines of an extra patch inserted: for builds that are only measured.

Usage: insert_lines.py PATCH TREE FILE OUT [--series FOLDER]

The patch has the format of nccl/patches and the line numbers of upstream's release, whether the tree is patched or not: lines
go in right behind upstream's line, before what the series inserted there. `--series`: the series that the tree has.
"""
import argparse
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "scripts"))
import nccl_series  # noqa: E402
from nccl_series import SeriesError  # noqa: E402


def places(line_count, hunks_of_patches):
    """{number of upstream's line: how many lines of the patched file end with it}."""
    inserted = sum(len(hunk.lines) for hunks in hunks_of_patches for hunk in hunks)
    owned = [(number, None) for number in range(1, line_count - inserted + 1)]
    for hunks in hunks_of_patches:
        nccl_series.insert(owned, hunks, "series")
    result = {0: 0}
    result.update({number: index + 1 for index, (number, owner) in enumerate(owned) if owner is None})
    return result


def with_insertions(lines, hunks_of_patches, extra):
    where = places(len(lines), hunks_of_patches)
    result, taken = [], 0
    for hunk in extra:
        if hunk.after not in where:
            raise SeriesError("%s: upstream's file has no line %d" % (hunk.where, hunk.after))
        result += lines[taken:where[hunk.after]] + hunk.lines
        taken = where[hunk.after]
    return result + lines[taken:]


def main():
    parser = argparse.ArgumentParser(prog="insert_lines", description=__doc__.split("\n\n")[0])
    for name in ("patch", "tree", "file", "out"):
        parser.add_argument(name)
    parser.add_argument("--series", metavar="FOLDER")
    arguments = parser.parse_args()
    patch = nccl_series.Patch(os.path.basename(arguments.patch), nccl_series.read_text(arguments.patch))
    if arguments.file not in patch.files:
        raise SeriesError("%s: has nothing for %s" % (patch.name, arguments.file))
    series = nccl_series.Series(arguments.series).patches if arguments.series else []
    lines, _ = nccl_series.split_lines(nccl_series.read_text(os.path.join(arguments.tree, arguments.file)))
    hunks = [each.files[arguments.file] for each in series if arguments.file in each.files]
    text = "\n".join(with_insertions(lines, hunks, patch.files[arguments.file])) + "\n"
    if os.path.isfile(arguments.out) and nccl_series.read_text(arguments.out) == text:
        return
    os.makedirs(os.path.dirname(os.path.abspath(arguments.out)), exist_ok=True)
    nccl_series.write_text(arguments.out, text)


if __name__ == "__main__":
    try:
        main()
    except SeriesError as error:
        sys.exit("insert_lines: %s" % error)
    except OSError as error:
        sys.exit("insert_lines: %s: %s" % (error.filename, error.strerror))
