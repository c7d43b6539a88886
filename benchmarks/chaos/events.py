"""What happens to the service and to the files of the job: one context manager for each kind of drawing.EVENTS.

    with happening(run, event):     # it begins
        ...                         # it lasts
                                    # it is over, and the service can work again

`run` has service, place, job, name, folder, build, next_address(), and start_stranger().
"""
import contextlib
import os
import random
import struct
import subprocess
import sys

from run.errors import RunError
from run.processes import Child, state_of, wait_for

from chaos_job import NAMES

HERE = os.path.dirname(os.path.realpath(__file__))
TUNE_WITHIN_S = 30


def _kill(run, event):
    run.service.kill()
    yield
    run.service.start()


def _stop(run, event):
    run.service.stop()
    yield
    run.service.go_on()


def _move(run, event):
    run.service.kill()
    run.service.start(run.next_address())
    yield
    run.place.name(run.name, run.service.address)


def _unnamed(run, event):
    run.place.name(run.name, None)
    run.service.kill()
    run.service.start(run.next_address())
    yield
    run.place.name(run.name, run.service.address)


def _redirect(run, event):
    run.service.kill()
    run.service.start(run.next_address())
    yield
    run.name = next(name for name in NAMES if name != run.name)
    run.place.name(run.name, run.service.address)
    for child in run.job.children:
        if child.exit_status() is None and state_of(child.pid) != "T":
            _tune(run, child.pid)


def _tune(run, pid):
    command = [run.build.service, "tune", "--pid", str(pid), "--dir", run.place.frames, "endpoint=" + run.service.endpoint(run.name)]
    done = subprocess.run(run.place.command(command), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TUNE_WITHIN_S)
    if done.returncode != 0:
        raise RunError("ccld tune: %s" % (done.stderr or done.stdout).strip())


def _impostor(run, event):
    run.service.kill()
    with _stranger(run, event, "impostor") as stranger:
        if not wait_for(lambda: "listening" in stranger.last_lines(), 20):
            raise RunError("nothing listens in the service's place: %s" % " ".join(stranger.last_lines(1)))
        yield
    run.service.start()


def _full(folders_of):
    def fill(run, event):
        for folder in folders_of(run):
            run.place.fill(folder)
        yield
        for folder in folders_of(run):
            run.place.free(folder)
    return fill


def _read_only(run, event):
    _remount(run, "ro")
    yield
    _remount(run, "rw")


def _remount(run, how):
    run.service.kill()
    disk = os.path.join(run.place.folder, "disk")
    done = subprocess.run(run.place.command(["mount", "-o", "remount," + how, disk]), capture_output=True, text=True)
    if done.returncode != 0:
        raise RunError("mount: %s" % done.stderr.strip())
    run.service.start()


def _frames(change):
    def attack(run, event):
        for path in run.job.frames_of(int(event["rank_share"] * run.job.plan.rank_count)):
            change(path, event["seed"])
        yield
    return attack


def _cut(path, _):
    os.truncate(path, 0)


def _gone(path, _):
    os.unlink(path)


def _replaced(path, seed):
    with open(path + ".part", "wb") as file:
        file.write(random.Random(seed).randbytes(os.stat(path).st_size))
    os.chmod(path + ".part", 0o400)
    os.rename(path + ".part", path)


@contextlib.contextmanager
def _stranger(run, event, what, address=None):
    command = [sys.executable, "-B", os.path.join(HERE, "stranger.py"), what, address or "%s:%d" % (run.service.address, run.service.port),
               "--seed", str(event["seed"])]
    with _child(run, what, command) as child:
        yield child


@contextlib.contextmanager
def _child(run, name, command):
    child = Child("stranger", command, os.path.join(run.folder, "stranger-%s.log" % name))
    try:
        yield child
    finally:
        child.end()


def _over_tcp(what):
    def send(run, event):
        with _stranger(run, event, what):
            yield
    return send


def _connections(run, event):
    with _stranger(run, event, "connections"), _stranger(run, event, "connections", _http_address(run)):
        yield


def _http(run, event):
    with _stranger(run, event, "http", _http_address(run)):
        yield


def _http_address(run):
    return run.service.http.split("//")[1]


def _over_zeromq(what):
    def send(run, event):
        command = [os.path.join(run.build.folder, "bin", "ccld-stranger"), run.service.endpoint(), what, "--seed", str(event["seed"])]
        with _child(run, what, command):
            yield
    return send


def _clock(run, event):
    _jump(run.job.clock_file("service"), event["jump_s"])
    yield
    _jump(run.job.clock_file("service"), 0)


def _rank_clock(run, event):
    path = run.job.clock_file("node%d" % event["node"])
    _jump(path, event["jump_s"])
    yield
    _jump(path, 0)


def _jump(path, seconds):
    with open(path, "r+b") as file:
        file.write(struct.pack("<q", int(seconds * 10**9)))


KINDS = {
    "kill": _kill, "stop": _stop, "move": _move, "unnamed": _unnamed, "redirect": _redirect, "impostor": _impostor,
    "disk_full": _full(lambda run: [os.path.join(run.place.folder, "disk")]), "read_only": _read_only,
    "records_full": _full(lambda run: [os.path.join(run.place.folder, "records")]), "shm_full": _full(lambda run: ["/dev/shm", run.place.frames]),
    "frames_cut": _frames(_cut), "frames_gone": _frames(_gone), "frames_replaced": _frames(_replaced), "bytes": _over_tcp("bytes"),
    "garbage": _over_zeromq("garbage"), "claims": _over_zeromq("claims"), "connections": _connections, "http": _http,
    "clock": _clock, "rank_clock": _rank_clock,
}


def happening(run, event):
    return contextlib.contextmanager(KINDS[event["kind"]])(run, event)
