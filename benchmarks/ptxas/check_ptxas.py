#!/usr/bin/env python3
"""Compares registers, stack and spills of NCCL's main kernels for one architecture: upstream's own against ours.

Needs nvcc, no GPU. Compiles what changed only. Writes a JSON file with a row per function and fails when one needs a
register past the cap that all of NCCL's kernels are compiled with, more than 32 bytes of stack more than upstream's, or more spill
loads than the bar below allows.

Exit status: 0 within the bars, 1 not, 2 cannot run, 130 interrupted.
"""
import argparse
import json
import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

from compile import ARCHITECTURES, REGISTER_CAP, SIDES, Compiler, compile_all  # noqa: E402
from kernels import ALL  # noqa: E402
from trees import ROOT, PtxasError, find_nvcc, generate_headers, nvcc_version, upstream_trees, write_if_different  # noqa: E402

STACK_BYTES_MORE = 32
# Loads of spilled registers, in bytes. Up to 18 words (a few tests of a role, each with its state read again) are too few to be a share
# of anything in functions that hardly spill.
SPILL_LOAD_RATIO = 1.05
SPILL_LOAD_BYTES_FREE = 72
# What is beyond that, and stays: nccl/hooks/DESIGN.md says where these loads stand and what was tried.
SPILL_LOAD_BYTES_KNOWN = {
    "sm_90": {
        "ncclDevFunc_AllReduce_Sum_f32_TREE_LL": 168,
        "ncclDevFunc_SendRecv": 92,
        "ncclDevKernel_SendRecv": 204,
        "ncclDevFunc_AllReduce_Sum_f32_COLLNET_DIRECT_SIMPLE": 204,
    },
    "sm_100": {},  # what is beyond the bars there is open
}
COSTS = ("registers", "stack_bytes", "spill_store_bytes", "spill_load_bytes")


def rows_of(results):
    rows, shared = [], {}
    for function, sides in results.items():
        names = [name for name in sides["pristine"]["functions"] if name in sides["patched"]["functions"]]
        if len(names) != len(sides["pristine"]["functions"]):
            raise PtxasError("%s: the patched tree lacks a function of upstream's" % function)
        for name in sorted(names):
            row = {"kernel": name, "entry": name.startswith("ncclDevKernel")}
            for side in SIDES:
                row[side] = {cost: sides[side]["functions"][name][cost] for cost in COSTS}
            rows.append(row)
        for side in SIDES:
            if sides[side]["shared_bytes"]:
                shared[side] = sides[side]["shared_bytes"]
    return rows, shared


def spill_load_bytes_allowed(kernel, pristine, architecture):
    known = SPILL_LOAD_BYTES_KNOWN.get(architecture, {}).get(kernel, 0)
    return max(int(pristine * (SPILL_LOAD_RATIO - 1)), SPILL_LOAD_BYTES_FREE, known)


def missed(rows, architecture):
    """One line for each row beyond a bar."""
    lines = []
    for row in rows:
        pristine, patched = row["pristine"], row["patched"]
        if patched["registers"] > REGISTER_CAP:
            lines.append("%s: %d registers, more than the cap of %d" % (row["kernel"], patched["registers"], REGISTER_CAP))
        more = patched["stack_bytes"] - pristine["stack_bytes"]
        if more > STACK_BYTES_MORE:
            lines.append("%s: %d bytes of stack more than upstream's %d, at most %d are allowed" %
                         (row["kernel"], more, pristine["stack_bytes"], STACK_BYTES_MORE))
        more = patched["spill_load_bytes"] - pristine["spill_load_bytes"]
        allowed = spill_load_bytes_allowed(row["kernel"], pristine["spill_load_bytes"], architecture)
        if more > allowed:
            lines.append("%s: %d bytes of spill loads more than upstream's %d, at most %d are allowed" %
                         (row["kernel"], more, pristine["spill_load_bytes"], allowed))
    return lines


def totals(rows):
    return {side: {cost: sum(row[side][cost] for row in rows) for cost in COSTS[1:]} for side in SIDES}


def print_table(rows, shared):
    print("%-48s %11s %13s %15s %15s" % ("pristine -> patched", "registers", "stack B", "spill stores B", "spill loads B"))
    for row in rows:
        cells = ["%d -> %d" % (row["pristine"][cost], row["patched"][cost]) for cost in COSTS]
        print("%-48s %11s %13s %15s %15s" % (row["kernel"], *cells))
    sums = totals(rows)
    print("%-48s %11s %13s %15s %15s" % ("sum", "", *["%d -> %d" % (sums["pristine"][c], sums["patched"][c]) for c in COSTS[1:]]))
    if shared:
        print("shared memory of every kernel: %d -> %d bytes" % (shared["pristine"], shared["patched"]))


def main():
    parser = argparse.ArgumentParser(prog="check_ptxas.py", description=__doc__.split("\n")[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "ptxas"), metavar="FOLDER", help="where sources and results are kept")
    parser.add_argument("--out", metavar="FILE", help="write the rows to this JSON file")
    parser.add_argument("--only", metavar="REGEX", help="only functions whose name matches, for example 'RING SIMPLE|SendRecv'")
    parser.add_argument("--patched-tree", metavar="FOLDER", help="this tree in place of upstream with nccl/patches")
    parser.add_argument("--ours", default=ROOT, metavar="FOLDER", help="root of probe/, schemas/ and nccl/hooks (default: this repository)")
    parser.add_argument("--architecture", default=ARCHITECTURES[0], choices=ARCHITECTURES, help="of the GPU (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    arguments = parser.parse_args()

    functions = [f for f in ALL if not arguments.only or re.search(arguments.only, f, re.I)]
    if not functions:
        raise PtxasError("--only %s matches none of: %s" % (arguments.only, ", ".join(ALL)))
    if arguments.jobs < 1:
        raise PtxasError("--jobs %d: must be at least 1" % arguments.jobs)
    nvcc = find_nvcc()
    version = nvcc_version(nvcc)
    folder = os.path.abspath(arguments.build)
    trees = upstream_trees(folder)
    if arguments.patched_tree:
        trees["patched"] = os.path.abspath(arguments.patched_tree)
    headers = os.path.join(folder, "include")
    generate_headers(trees["pristine"], headers)
    compiler = Compiler(nvcc, version, arguments.architecture, os.path.join(folder, "sm_" + arguments.architecture), headers, os.path.abspath(arguments.ours))
    results = compile_all(compiler, trees, functions, arguments.jobs, lambda line: print("nvcc      " + line, file=sys.stderr, flush=True))
    rows, shared = rows_of(results)
    lines = missed(rows, "sm_" + arguments.architecture)
    print_table(rows, shared)
    if arguments.out:
        report = {"architecture": "sm_" + arguments.architecture, "nvcc": version[2], "register_cap": REGISTER_CAP,
                  "stack_bytes_more_allowed": STACK_BYTES_MORE, "spill_load_ratio_allowed": SPILL_LOAD_RATIO,
                  "spill_load_bytes_known": SPILL_LOAD_BYTES_KNOWN["sm_" + arguments.architecture], "shared_bytes": shared, "sums": totals(rows),
                  "missed": lines, "rows": rows}
        write_if_different(arguments.out, json.dumps(report, indent=1) + "\n")
    for line in lines:
        print("check-ptxas: " + line)
    if not lines:
        print("check-ptxas: %d functions within the bars" % len(rows))
    return 1 if lines else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (PtxasError, re.error) as error:
        print("check-ptxas: %s" % error, file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        print("check-ptxas: %s: %s" % (error.filename, error.strerror), file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
