"""Counts the instructions of operations, by thread, with callgrind."""
import glob
import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter

from parts import BenchError

VALGRIND = ("valgrind", "--tool=callgrind", "--instr-atstart=no", "--separate-threads=yes")
TIMEOUT_S = 300

# A thread is what the functions say that it ran; the first match counts. The object of a function comes before it.
KINDS = (
    ("probe", re.compile(r"DiagnosticThread|Agent::|agent::|libzmq|HealthThread|health_thread")),
    ("block", re.compile(r"ncclKernelMain|poll_yield|poll_again|run_block|run_next|ncclDevFunc|Primitives<")),
    ("main", re.compile(r"ccld::bench::.*(obey|Ranks::run)|\bmain\b")),
    ("proxy", re.compile(r"ncclProxyProgress|progressOps|proxyProgress")),
    ("stream", re.compile(r"Stream::|run_grid")),
)
# The probe's own threads are not in the way of training: their cost is measured as processor time.
NOT_TRAINING = ("probe",)


# Not counted: this benchmark itself, and how threads of libc wait for each other, which depends on the moment.
OWN_PROGRAM = re.compile(r"ccld-bench-operations$")
WAITING = re.compile(r"^_*(GI_+)?_*(sem_|new_sem_|lll_|futex|sched_yield|pthread_(mutex|cond|once|rwlock)|nanosleep|clock_nanosleep|"
                     r"nptl_|condvar)")

NAME = re.compile(r"^(c?)(ob|fn|fl|fi|fe|file)=\((\d+)\)(?: (.*))?$")


def kind_of(names):
    text = "\n".join(names)
    for kind, pattern in KINDS:
        if pattern.search(text):
            return kind
    return "other"


def read_functions(path):
    """Counter of own instructions by (object, function) of one thread's file."""
    costs, names = Counter(), {}
    current = {"ob": "", "fn": ""}
    after_calls = False
    with open(path, errors="replace") as file:
        for line in file:
            first = line[0]
            if first.isdigit() or first in "+-*":
                # the line after `calls=` is what the called function cost
                if not after_calls:
                    costs[current["ob"], current["fn"]] += int(line.split()[1])
                after_calls = False
            elif line.startswith("calls="):
                after_calls = True
            else:
                found = NAME.match(line.rstrip("\n"))
                if not found:
                    continue
                called, what, number, name = found.groups()
                space = what if what in ("ob", "fn") else "file"
                if name is not None:
                    names[space, number] = name
                if not called and space in current:
                    current[space] = names[space, number]
    return costs


def read_counts(prefix):
    """Counter of instructions by kind of thread, from the files that callgrind wrote one per thread."""
    counts = Counter()
    for costs in read_threads(prefix):
        counted = sum(value for (program, function), value in costs.items()
                      if not OWN_PROGRAM.search(program) and not WAITING.match(function))
        if counted:
            counts[kind_of(function for _, function in costs)] += counted
    return counts


def read_threads(prefix):
    for path in glob.glob(glob.escape(prefix) + "-*"):
        costs = read_functions(path)
        if costs:
            yield costs


def count(program, variant, environment, ranks, operation, size, repeats):
    """Instructions by kind of thread for `repeats` operations of all ranks, and of all threads of the training path."""
    folder = tempfile.mkdtemp(prefix="ccld-callgrind-")
    prefix = os.path.join(folder, "out")
    try:
        done = subprocess.run([*VALGRIND, "--callgrind-out-file=" + prefix, program, str(ranks), "turns"],
                              input="%s %d %d\n" % (operation, size, repeats), env=variant.environment(environment),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_S)
        counts = read_counts(prefix)
        if done.returncode != 0 or not counts["block"]:
            raise BenchError("counting %s of %d bytes, %s: %s" % (operation, size, variant.name, reason(done.stdout)))
        return counts
    except subprocess.TimeoutExpired:
        raise BenchError("counting %s of %d bytes, %s: not done after %d s" % (operation, size, variant.name, TIMEOUT_S))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def reason(output):
    lines = [line for line in output.splitlines() if line.strip() and not line.startswith("==")]
    return lines[-1] if lines else "no output"


def of_training(counts):
    return sum(value for kind, value in counts.items() if kind not in NOT_TRAINING)
