"""Where a run lives: a mount namespace of its own with small file systems, an own /dev/shm and an own /etc/hosts.

Nothing is mounted or changed in the machine's own namespace; what was mounted is gone with the last process in it. Needs root.
"""
import os

from run.errors import RunError
from run.processes import Child, wait_for

SHM_MIB, STATE_MIB, RECORDS_MIB = 1536, 24, 64
FILLER = "filler"

SCRIPT = """set -e
mount -t tmpfs -o size=%(shm)dm tmpfs /dev/shm
mount -t tmpfs -o size=%(state)dm tmpfs "$1/disk"
mount -t tmpfs -o size=%(records)dm tmpfs "$1/records"
mount -t tmpfs -o size=%(frames)dk tmpfs "$1/frames"
mount --bind "$1/hosts" /etc/hosts
echo mounted
exec sleep infinity
"""


def why_not():
    """None if namespaces can be made here, otherwise one line that says why not."""
    return None if os.geteuid() == 0 else "it makes mount namespaces with small file systems, and that needs root: run it as root"


class Place:
    """Context manager. `folder` exists and is not temporary; hosts is {name: address or None}."""

    def __init__(self, folder, frames_kib, hosts):
        self.folder = folder
        self.frames = os.path.join(folder, "frames")  # of the probes
        for name in ("disk", "records", "frames"):
            os.makedirs(os.path.join(folder, name))
        self._hosts_path = os.path.join(folder, "hosts")
        self._hosts = {}
        for name, address in hosts.items():
            self.name(name, address)
        script = SCRIPT % {"shm": SHM_MIB, "frames": frames_kib, "state": STATE_MIB, "records": RECORDS_MIB}
        self._holder = Child("place", ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", folder],
                             os.path.join(folder, "place.log"))
        if not wait_for(lambda: "mounted" in self._holder.last_lines() or self._holder.exit_status() is not None, 20):
            raise RunError("the file systems of the run were not mounted within 20 s")
        if self._holder.exit_status() is not None:
            raise RunError("cannot mount the file systems of the run: %s" % " ".join(self._holder.last_lines(1)))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._holder.end()

    def command(self, command):
        """`command` as it is to be started to run in here; the process id stays that of the command."""
        return ["nsenter", "--mount=/proc/%d/ns/mnt" % self._holder.pid, "--"] + list(command)

    def path(self, path):
        """The file that is called `path` in here, for us who are outside."""
        return "/proc/%d/root%s" % (self._holder.pid, path)

    def name(self, name, address):
        """What the name resolves to from now on; None: to nothing. Written in place: the file is mounted."""
        self._hosts[name] = address
        lines = ["127.0.0.1 localhost"] + ["%s %s" % (address, name) for name, address in self._hosts.items() if address]
        with open(self._hosts_path, "w") as file:
            file.write("\n".join(lines) + "\n")

    def fill(self, folder):
        """Takes all room of the file system there."""
        with open(os.path.join(self.path(folder), FILLER), "wb") as file:
            end, size = 0, 1 << 30
            while size >= 4096:
                try:
                    os.posix_fallocate(file.fileno(), end, size)
                    end += size
                except OSError:
                    size //= 2

    def free(self, folder):
        os.unlink(os.path.join(self.path(folder), FILLER))

    def processes(self):
        """Those that live in here, but for the one that holds it."""
        wanted = os.stat("/proc/%d/ns/mnt" % self._holder.pid).st_ino
        found = []
        for name in os.listdir("/proc"):
            try:
                if name.isdigit() and int(name) != self._holder.pid and os.stat("/proc/%s/ns/mnt" % name).st_ino == wanted:
                    found.append(int(name))
            except OSError:
                pass  # it has ended
        return found
