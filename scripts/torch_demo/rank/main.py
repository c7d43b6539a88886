#!/usr/bin/env python3
"""One rank of a demo job, as torchrun starts it; or, with --facts, what this machine's torch is, as one line of JSON.

Exit status: 0 finished, 1 an error (it is in the rank's log), 3 wrong results, 4 another NCCL than the wanted one is loaded.
"""
import argparse
import ctypes
import json
import os
import signal
import sys
import time
import traceback

sys.dont_write_bytecode = True
# In the place of this folder, whose names are for nobody else.
sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))

from torch_demo.rank import loaded_library  # noqa: E402
from torch_demo.rank.board import BoardLine  # noqa: E402
from torch_demo.rank.fault_file import Changes, FaultFile  # noqa: E402

PR_SET_PDEATHSIG = 1
WRONG_RESULTS, WRONG_LIBRARY = 3, 4


def engine_module(name):
    if name == "torch":
        from torch_demo.rank import torch_engine as module
    else:
        from torch_demo.rank import stand_in_engine as module
    return module


def make_engine(options):
    module = engine_module(options.engine)
    if options.engine == "torch":
        return module.TorchEngine(lazy=options.lazy)
    return module.StandInEngine(os.path.join(options.folder, "id"))


def checked(options, check, *arguments):
    """Runs a check of the library; what it finds wrong is the launcher's to read."""
    try:
        return check(*arguments)
    except loaded_library.WrongLibrary as problem:
        with open(os.path.join(options.folder, "wrong-library-%s" % os.environ.get("RANK", "0")), "w") as file:
            file.write(str(problem))
        print("torch-demo: %s" % problem, file=sys.stderr, flush=True)
        sys.exit(WRONG_LIBRARY)


def rounds(options, line, rank):
    """Numbers of the rounds to do, from 1; all ranks end with the same one. With no time limit the launcher ends the job."""
    deadline = time.monotonic() + options.seconds
    number = 0
    while True:
        number += 1
        if options.seconds > 0:
            if rank == 0:
                if time.monotonic() >= deadline:
                    line.set(state="finished")
                    return
                line.release(number)
            while line.released() < number:
                if line.get("state", rank=0) not in (1, 2):
                    return
                time.sleep(0.0005)
        yield number


def run(options, line, engine):
    from torch_demo.rank.jobs import JOBS, StopsCalling
    faults = FaultFile(options.faults, engine.rank)
    job = JOBS[options.job](engine, options.micro_batches_file)
    checked(options, loaded_library.check_watched, os.environ.get("NCCL_PROBE_FRAMES_DIR", "/dev/shm"))
    line.set(state="ready")
    for number in rounds(options, line, engine.rank):
        faults.refresh()
        changes = Changes(faults.of_round())
        begin = time.monotonic_ns()
        if changes.any():
            line.set(fault_applications=line.get("fault_applications") + 1, fault_first_ns=line.get("fault_first_ns") or begin)
        line.set(entered_round=number, fault_text_version=faults.version)
        try:
            right = job.iterate(number, changes)
        except StopsCalling:
            while True:
                time.sleep(3600)
        line.set(completed_round=number, checked_results=number, wrong_results=line.get("wrong_results") + (not right),
                 longest_round_ns=max(line.get("longest_round_ns"), time.monotonic_ns() - begin))
    engine.close()
    line.set(state="finished")
    return WRONG_RESULTS if line.get("wrong_results") else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--engine", choices=("torch", "stand-in"), default="torch")
    parser.add_argument("--library", required=True, help="the libnccl.so.2 that has to be in use")
    parser.add_argument("--folder", required=True, help="what ranks and launcher share")
    parser.add_argument("--facts", action="store_true")
    parser.add_argument("--job", default="ddp")
    parser.add_argument("--board")
    parser.add_argument("--faults")
    parser.add_argument("--micro-batches-file", help="of the pipeline job, by replica; read while it runs")
    # torchrun takes what can be the begin of its own options for these, also behind the script: not --logs.
    parser.add_argument("--log-folder", help="folder of this rank's log")
    parser.add_argument("--seconds", type=float, default=0, help="end after that long (0: never)")
    parser.add_argument("--lazy", action="store_true", help="torch sets up its communicators when they are first used")
    options = parser.parse_args()
    if options.facts:
        facts = engine_module(options.engine).facts()
        facts["library"] = checked(options, loaded_library.check, options.library)
        print(json.dumps(facts))
        return 0

    # Tied to whoever started it, and its output in a file of its own.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    rank, rank_count = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    log = os.open(os.path.join(options.log_folder, "rank-%d.log" % rank), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    line = BoardLine(options.board, rank, rank_count)
    line.set(pid=os.getpid(), state="starting")
    try:
        engine_module(options.engine)
        if options.engine == "stand-in":
            ctypes.CDLL("libnccl.so.2")
        checked(options, loaded_library.check, options.library)
        return run(options, line, make_engine(options))
    except Exception:
        traceback.print_exc()
        line.set(state="failed")
        return 1


if __name__ == "__main__":
    sys.exit(main())
