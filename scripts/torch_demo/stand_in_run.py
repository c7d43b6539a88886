#!/usr/bin/env python3
"""Starts the ranks of a job as torchrun does, where there is no torchrun: stand_in_run.py --nproc-per-node N PROGRAM ARGUMENTS...

Each rank is in a process group of its own with RANK, LOCAL_RANK and WORLD_SIZE set; when one fails the others are ended. torchrun gives
each a session: then the kernel gives each an autogroup (sched(7)), and Linux 6.18 may keep a progress thread, which yields whenever it has
nothing to do, from its processor for a minute if anything else runs on the machine.
"""
import argparse
import os
import signal
import subprocess
import sys
import time


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--nproc-per-node", type=int, required=True)
    parser.add_argument("--master-port", default="0")
    # torchrun has these, too. Arguments of PROGRAM that could be the begin of them end it (torch 2.11).
    for option in ("logs-specs", "log-dir", "local-ranks-filter", "max-restarts", "rdzv-backend"):
        parser.add_argument("--" + option, "--" + option.replace("-", "_"))
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    ranks = []
    for rank in range(options.nproc_per_node):
        variables = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": options.nproc_per_node, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": options.master_port}
        ranks.append(subprocess.Popen([sys.executable, "-B"] + options.command, preexec_fn=os.setpgrp,
                                      env=dict(os.environ, **{name: str(value) for name, value in variables.items()})))
    failed = None
    while failed is None and any(rank.poll() is None for rank in ranks):
        failed = next((rank.returncode for rank in ranks if rank.poll() not in (None, 0)), None)
        time.sleep(0.02)
    if failed is None:
        failed = next((rank.returncode for rank in ranks if rank.returncode != 0), 0)
    for rank in ranks:
        if rank.poll() is None:
            os.killpg(rank.pid, signal.SIGKILL)
    return failed if failed >= 0 else 1


if __name__ == "__main__":
    sys.exit(main())
