#!/usr/bin/env python3
"""Holds some threads of a process in their tracks, as a debugger does: all the time, or a part of every period.

The process itself is not stopped, and nothing is written into it; when this program ends, however it does, its threads go on.
Threads that appear later are held from the next period on. With --jitter no
period is as long as the one before, so that nothing falls into step with them. Prints "held" once the threads stand still for the first time, and before that "awaited"
if there are none yet (--await). Exit status: 1 and one line if that is not possible.
"""
import argparse
import ctypes
import errno
import os
import random
import re
import signal
import sys
import time

PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
WALL = 0x40000000  # waitpid: threads that are not children, too

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def ptrace(request, thread):
    if _libc.ptrace(request, thread, None, None) == -1:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def threads_of(pid, chosen):
    """The threads for whose name chosen() is true."""
    found = []
    for thread in os.listdir("/proc/%d/task" % pid):
        try:
            with open("/proc/%d/task/%s/comm" % (pid, thread)) as name:
                if chosen(name.read().strip()):
                    found.append(int(thread))
        except FileNotFoundError:
            pass  # it has ended since
    return found


def hold(threads):
    """Returns those that stand still: not the ones that have ended since they were listed."""
    held = []
    for thread in threads:
        try:
            ptrace(PTRACE_SEIZE, thread)
            ptrace(PTRACE_INTERRUPT, thread)
            held.append(thread)
        except ProcessLookupError:
            pass
    for thread in held:
        os.waitpid(thread, WALL)
    return held


def let_go(threads):
    for thread in threads:
        try:
            ptrace(PTRACE_DETACH, thread)
        except ProcessLookupError:
            pass  # its process was killed meanwhile


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--pid", type=int, required=True)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--only", metavar="REGEX", help="the threads whose name begins so")
    which.add_argument("--all-but", metavar="REGEX", help="the threads whose name does not begin so")
    parser.add_argument("--held-ms", type=float, default=0, help="of every period; 0: all the time")
    parser.add_argument("--period-ms", type=float, default=0)
    parser.add_argument("--jitter", type=float, default=0, help="a period is shorter or longer by up to this part of it")
    parser.add_argument("--await", action="store_true", dest="await_them", help="if there is no such thread yet, wait for one")
    arguments = parser.parse_args()
    pattern = re.compile(arguments.only or arguments.all_but)

    def chosen_threads():
        return threads_of(arguments.pid, lambda name: bool(pattern.match(name)) == bool(arguments.only))
    threads = chosen_threads()
    if not threads and not arguments.await_them:
        raise OSError(errno.ESRCH, "no such thread", arguments.only or arguments.all_but)
    if not threads:
        print("awaited", flush=True)
    while not threads:
        time.sleep(0.002)
        threads = chosen_threads()
    threads = hold(threads)
    print("held", flush=True)
    if arguments.held_ms <= 0:
        signal.pause()
    rng = random.Random(arguments.pid)
    while True:
        longer = 1 + arguments.jitter * rng.uniform(-1, 1)
        time.sleep(longer * arguments.held_ms / 1000)
        let_go(threads)
        time.sleep(longer * (arguments.period_ms - arguments.held_ms) / 1000)
        threads = hold(chosen_threads())


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        print("hold_threads: %s%s" % (error.strerror, ": %s" % error.filename if error.filename else ""))
        sys.exit(1)
