#!/usr/bin/env python3
"""Becomes one rank of a job that mpirun starts: gives it its pretended node, and ties it to who started it.

    start_rank.py RANKS COMMAND [ARGUMENT...]

The first half of the ranks is node 0, the other node 1, as in fault plans. The process id stays that of the command.
"""
import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
# Open MPI, MPICH and Intel MPI, PMIx, Slurm.
RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID")


def rank_of(environment):
    for name in RANK_VARIABLES:
        if environment.get(name, "").isdigit():
            return int(environment[name])
    sys.exit("start_rank: none of %s is set: the launcher does not say which rank this is" % ", ".join(RANK_VARIABLES))


def main():
    if len(sys.argv) < 3 or not sys.argv[1].isdigit():
        sys.exit("usage: start_rank.py RANKS COMMAND [ARGUMENT...]")
    ranks, command = int(sys.argv[1]), sys.argv[2:]
    node = rank_of(os.environ) * 2 // ranks
    # Whatever becomes of the launcher, no rank is left behind, stopped ones included.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    os.execve(command[0], command, dict(os.environ, NCCL_HOSTID="node%d" % node))


if __name__ == "__main__":
    main()
