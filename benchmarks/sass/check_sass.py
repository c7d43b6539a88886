#!/usr/bin/env python3
"""Counts the GPU's instructions around and in NCCL's data path: upstream's own against ours, for sm_90 and sm_100.

Needs nvcc, no GPU and no disassembler. Counted are instructions, loads, stores, fences, atomics and barriers, on the
shortest way from the entry of the kernel to the first data, for a chunk of data, on the shortest way from the last data to the exit, and in
each hook. Writes a JSON file and fails when ours needs more than its bars (bars.py) allow.

Exit status: 0 within the bars, 1 not, 2 cannot run, 130 interrupted.
"""
import argparse
import json
import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "ptxas")]

import program  # noqa: E402
from bars import missed  # noqa: E402
from compile import ARCHITECTURES, LINE_INFO, SIDES, Compiler, compile_all  # noqa: E402
from cubin import CubinError  # noqa: E402
from flow import FlowError  # noqa: E402
from instruction import InstructionError  # noqa: E402
from line_table import LineTableError  # noqa: E402
from measure import Measure  # noqa: E402
from trees import ROOT, PtxasError, find_nvcc, generate_headers, nvcc_version, upstream_trees, write_if_different  # noqa: E402
from ways import CASES, KERNEL_FUNCTION  # noqa: E402

# Columns of the table: what they are called, and what they add up.
COLUMNS = (("instr", ("instructions",)), ("loads", ("global_loads",)), ("stores", ("global_stores",)),
           ("shared", ("shared_loads", "shared_stores")), ("spills", ("spill_loads", "spill_stores")),
           ("atomics", ("atomics",)), ("fences", ("block_fences", "fences")), ("barriers", ("barriers",)))


def measure(compiled, architecture):
    """Rows and hooks of one architecture. `compiled`: {function: {side: result of the compiler}}"""
    rows, hooks = [], []
    measures = {}
    for side in SIDES:
        source = program.SourceText()
        kernel = program.read(compiled[KERNEL_FUNCTION][side]["cubin"])
        for case in CASES:
            function = kernel if case.function == KERNEL_FUNCTION else program.read(compiled[case.function][side]["cubin"])
            measures[case, side] = Measure(kernel, function, source)
    for case in CASES:
        of = {"architecture": architecture, "case": case.name}
        ways = {side: measures[case, side].ways() for side in SIDES}
        for part, thread in ways["patched"]:
            rows.append(dict(of, part=part, thread=thread, **{side: ways[side][part, thread] for side in SIDES}))
        for part in ("chunk", "whole"):
            rows.append(dict(of, part=part, thread="code", **{side: getattr(measures[case, side], part)() for side in SIDES}))
        hooks += [dict(of, hook=name, **counts) for name, counts in measures[case, "patched"].hooks().items()]
    return rows, hooks


def cell(counts, kinds):
    return "%g" % round(sum(counts[kind] for kind in kinds), 1) if counts else "-"


def print_table(rows, hooks):
    print(("%-8s %-12s %-38s" + " %13s" * len(COLUMNS)) % ("", "", "pristine -> patched", *[name for name, _ in COLUMNS]))
    for row in rows:
        cells = ["%s -> %s" % (cell(row["pristine"], kinds), cell(row["patched"], kinds)) for _, kinds in COLUMNS]
        print(("%-8s %-12s %-38s" + " %13s" * len(COLUMNS)) % (row["architecture"], row["case"], row["part"] + ", " + row["thread"], *cells))
    for row in hooks:
        cells = [cell(row, kinds) for _, kinds in COLUMNS]
        print(("%-8s %-12s %-38s" + " %13s" * len(COLUMNS)) %
              (row["architecture"], row["case"], "%s x %d" % (row["hook"], row["places"]), *cells))


def main():
    parser = argparse.ArgumentParser(prog="check_sass.py", description=__doc__.split("\n")[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "sass"), metavar="FOLDER", help="where sources and results are kept")
    parser.add_argument("--out", metavar="FILE", help="write what was counted to this JSON file")
    parser.add_argument("--architecture", action="append", choices=ARCHITECTURES, help="of the GPU (default: all; may be repeated)")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    arguments = parser.parse_args()

    nvcc = find_nvcc()
    version = nvcc_version(nvcc)
    folder = os.path.abspath(arguments.build)
    trees = upstream_trees(folder)
    headers = os.path.join(folder, "include")
    generate_headers(trees["pristine"], headers)
    rows, hooks = [], []
    for architecture in arguments.architecture or ARCHITECTURES:
        compiler = Compiler(nvcc, version, architecture, os.path.join(folder, "sm_" + architecture), headers, more_flags=(LINE_INFO,))
        compiled = compile_all(compiler, trees, [case.function for case in CASES], arguments.jobs,
                               lambda line: print("nvcc      sm_%s %s" % (architecture, line), file=sys.stderr, flush=True))
        more_rows, more_hooks = measure(compiled, "sm_" + architecture)
        rows += more_rows
        hooks += more_hooks
    print_table(rows, hooks)
    lines = missed(rows, hooks)
    if arguments.out:
        report = {"nvcc": version[2], "missed": lines, "rows": rows, "hooks": hooks}
        write_if_different(arguments.out, json.dumps(report, indent=1) + "\n")
    for line in lines:
        print("check-sass: " + line)
    if not lines:
        print("check-sass: %d rows and %d hooks within the bars" % (len(rows), len(hooks)))
    return 1 if lines else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (PtxasError, CubinError, FlowError, InstructionError, LineTableError) as error:
        print("check-sass: %s" % error, file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        print("check-sass: %s: %s" % (error.filename, error.strerror), file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
