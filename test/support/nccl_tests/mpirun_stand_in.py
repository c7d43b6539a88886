#!/usr/bin/env python3
"""Starts N processes as mpirun does, with the variables of Open MPI; NCCL_COMM_ID takes the place of what MPI would pass around.

    mpirun_stand_in.py -np N COMMAND [ARGUMENT...]

Ends when all have ended, with the first status that is not 0.
"""
import os
import socket
import subprocess
import sys


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def main():
    if len(sys.argv) < 4 or sys.argv[1] != "-np":
        sys.exit("usage: mpirun_stand_in.py -np N COMMAND [ARGUMENT...]")
    count = int(sys.argv[2])
    shared = dict(os.environ, NCCL_COMM_ID="127.0.0.1:%d" % free_port(), OMPI_COMM_WORLD_SIZE=str(count))
    processes = [subprocess.Popen(sys.argv[3:], env=dict(shared, OMPI_COMM_WORLD_RANK=str(rank), OMPI_COMM_WORLD_LOCAL_RANK=str(rank)))
                 for rank in range(count)]
    statuses = [process.wait() for process in processes]
    sys.exit(next((status if status > 0 else 128 - status for status in statuses if status != 0), 0))


if __name__ == "__main__":
    main()
