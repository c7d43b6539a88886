#!/usr/bin/env python3
"""Compares registers, stack and spills of NCCL's main kernels for sm_90: upstream's own against ours.

Needs nvcc, no GPU. Compiles what changed only. Writes a JSON file with a row per function and fails when one needs a
register past the cap that all of NCCL's kernels are compiled with, or more than 32 bytes of stack more than upstream's.

Exit status: 0 within the bars, 1 not, 2 cannot run, 130 interrupted.
"""
import argparse
import concurrent.futures
import json
import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

from compile import ARCHITECTURE, REGISTER_CAP, Compiler  # noqa: E402
from kernels import ALL  # noqa: E402
from trees import ROOT, PtxasError, find_nvcc, generate_headers, nvcc_version, upstream_trees, write_if_different  # noqa: E402

STACK_BYTES_MORE = 32
COSTS = ("registers", "stack_bytes", "spill_store_bytes", "spill_load_bytes")
SIDES = ("pristine", "patched")


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


def missed(rows):
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
    compiler = Compiler(nvcc, version, os.path.join(folder, "functions"), headers, os.path.abspath(arguments.ours))
    results = compile_all(compiler, trees, functions, arguments.jobs, lambda line: print("nvcc      " + line, file=sys.stderr, flush=True))
    rows, shared = rows_of(results)
    lines = missed(rows)
    print_table(rows, shared)
    if arguments.out:
        report = {"architecture": "sm_" + ARCHITECTURE, "nvcc": version[2], "register_cap": REGISTER_CAP,
                  "stack_bytes_more_allowed": STACK_BYTES_MORE, "shared_bytes": shared, "sums": totals(rows),
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
