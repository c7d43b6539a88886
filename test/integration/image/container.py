"""Containers of an image archive, run by runc: as the image's user, with a read-only root and no capabilities, in the host's network.

As a program, it is the image's `ccld` for the fault harness:

    container.py IMAGE_FOLDER serve --verdicts FILE ...

Folders of the files it is told to write are mounted at the same place.
"""
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile

TOOLS = ("runc", "umoci")
FILE_FLAGS = ("--verdicts", "--ready-file", "--record")


def why_not():
    missing = [tool for tool in TOOLS if not shutil.which(tool)]
    if missing:
        return "packages are missing; apt-get install --no-install-recommends %s" % " ".join(missing)
    return None if os.geteuid() == 0 else "containers are made as root"


class Image:
    """An unpacked image: `layout` is the OCI image layout, `rootfs` its root file system, `config` its configuration."""

    def __init__(self, folder):
        self.folder = folder
        self.layout = os.path.join(folder, "layout")
        self.rootfs = os.path.join(folder, "bundle", "rootfs")
        self._state = os.path.join(folder, "runc")
        self.manifest = self.blob(self._read("index.json")["manifests"][0])
        self.config = self.blob(self.manifest["config"])

    @classmethod
    def unpack(cls, archive, folder):
        """By a program that is not ours: what it accepts is an OCI image."""
        layout = os.path.join(folder, "layout")
        with tarfile.open(archive) as file:
            file.extractall(layout)
        image = cls(folder)
        tag = image._read("index.json")["manifests"][0]["annotations"]["org.opencontainers.image.ref.name"]
        subprocess.run(["umoci", "unpack", "--image", "%s:%s" % (layout, tag), os.path.join(folder, "bundle")], check=True)
        return image

    def _read(self, name):
        with open(os.path.join(self.layout, name)) as file:
            return json.load(file)

    def blob_path(self, descriptor):
        return os.path.join(self.layout, "blobs", *descriptor["digest"].split(":"))

    def blob(self, descriptor):
        with open(self.blob_path(descriptor)) as file:
            return json.load(file)

    def runc(self, *arguments):
        return ["runc", "--root", self._state] + list(arguments)

    def command(self, arguments, writable=(), entrypoint=None):
        """The command that runs a new container with these arguments; also its name."""
        bundle = tempfile.mkdtemp(prefix="ccld-", dir=self.folder)
        with open(os.path.join(self.folder, "bundle", "config.json")) as file:
            config = json.load(file)
        process = config["process"]
        process["terminal"] = False
        process["args"] = (self.config["config"]["Entrypoint"] if entrypoint is None else entrypoint) + list(arguments)
        process["capabilities"] = {kind: [] for kind in ("bounding", "effective", "permitted")}
        config["root"] = {"path": self.rootfs, "readonly": True}
        # No control groups and no network of its own: not every machine that runs tests lets us make them.
        config["linux"] = {"namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")],
                           "maskedPaths": config["linux"].get("maskedPaths", []), "readonlyPaths": config["linux"].get("readonlyPaths", [])}
        config["mounts"] = [mount for mount in config["mounts"] if mount["type"] in ("proc", "tmpfs", "devpts")]
        config["mounts"] += [{"destination": path, "type": "bind", "source": path, "options": ["rbind", "rw"]} for path in writable]
        with open(os.path.join(bundle, "config.json"), "w") as file:
            json.dump(config, file)
        name = os.path.basename(bundle)
        return self.runc("run", "--bundle", bundle, name), name

    def run(self, arguments, **how):
        command, _ = self.command(arguments, **how)
        return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)

    def remove_containers(self):
        listed = subprocess.run(self.runc("list", "--quiet"), stdout=subprocess.PIPE, text=True)
        for name in listed.stdout.split():
            subprocess.run(self.runc("delete", "--force", name))


def main():
    image, arguments = Image(sys.argv[1]), sys.argv[2:]
    if arguments[:1] != image.config["config"]["Entrypoint"][1:]:
        sys.exit("the image's entry point is %s" % " ".join(image.config["config"]["Entrypoint"]))
    folders = {os.path.dirname(value) for flag, value in zip(arguments, arguments[1:]) if flag in FILE_FLAGS}
    for folder in folders:
        os.chmod(folder, 0o777)  # the image's user is nobody's on the host
    command, _ = image.command(arguments[1:], writable=sorted(folders))
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
