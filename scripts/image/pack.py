#!/usr/bin/env python3
"""Packs a root file system as a container image: one archive that is an OCI image layout and that `docker load` reads, too.

User, command, ports, health check and labels are read from the last stage of the Dockerfile. The same root file system always gives the same
bytes: owners are root, times not later than the moment in the labels, names in order.
"""
import argparse
import datetime
import gzip
import hashlib
import io
import json
import os
import platform
import re
import shlex
import sys
import tarfile

GOARCH = {"x86_64": "amd64", "aarch64": "arm64"}


class PackError(Exception):
    """A message for the user, with what to do."""


def read_labels(path):
    with open(path) as file:
        return dict(line.rstrip("\n").split("=", 1) for line in file if line.strip())


def seconds_of(text):
    """Of a duration as Dockerfiles write it, in one unit."""
    match = re.fullmatch(r"(\d+)(s|m)", text)
    if not match:
        raise PackError("a duration is a number with s or m, not '%s'" % text)
    return int(match[1]) * (60 if match[2] == "m" else 1)


def healthcheck(text):
    options, command = text.split(" CMD ", 1)
    named = dict(option[2:].split("=", 1) for option in options.split())
    check = {"Test": ["CMD"] + json.loads(command)}
    for name, key in (("interval", "Interval"), ("timeout", "Timeout"), ("start-period", "StartPeriod")):
        if name in named:
            check[key] = seconds_of(named.pop(name)) * 10**9
    check["Retries"] = int(named.pop("retries", 3))
    if named:
        raise PackError("unknown option of HEALTHCHECK: %s" % ", ".join(named))
    return check


def config_of(dockerfile, values):
    """What the last stage of the Dockerfile says of running the image, as an image configuration has it; ${NAME} comes from `values`."""
    with open(dockerfile) as file:
        lines = [line.rstrip("\n") for line in file]
    config = {"Labels": {}, "Env": []}
    last_stage = max(number for number, line in enumerate(lines) if line.startswith("FROM "))
    for line in lines[last_stage + 1:]:
        word, _, rest = line.partition(" ")
        rest = re.sub(r"\$\{(\w+)\}", lambda name: values[name[1].lower()], rest)
        if word == "LABEL":
            name, value = shlex.split(rest)[0].split("=", 1)
            config["Labels"][name] = value
        elif word == "ENV":
            config["Env"].append(rest)
        elif word == "EXPOSE":
            config["ExposedPorts"] = {port: {} for port in rest.split()}
        elif word == "HEALTHCHECK":
            config["Healthcheck"] = healthcheck(rest)
        elif word in ("ENTRYPOINT", "CMD"):
            config[word.capitalize()] = json.loads(rest)
        elif word in ("USER", "STOPSIGNAL"):
            config[{"USER": "User", "STOPSIGNAL": "StopSignal"}[word]] = rest
        elif word not in ("", "ARG", "COPY") and not word.startswith("#"):
            raise PackError("%s: pack.py does not know what %s says" % (dockerfile, word))
    return config


# The state of the service belongs to the image's user (make-root does the same).
OWNERS = {"var/lib/ccld": 10001}


def layer_of(root, latest):
    """The whole root file system as one tar archive."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for folder, folders, files in os.walk(root):
            folders.sort()
            for name in sorted(files + folders):
                path = os.path.join(folder, name)
                entry = archive.gettarinfo(path, os.path.relpath(path, root))
                entry.uid = entry.gid = OWNERS.get(entry.name, 0)
                entry.uname = entry.gname = ""
                entry.mtime = min(int(entry.mtime), latest)
                if entry.isreg():
                    with open(path, "rb") as file:
                        archive.addfile(entry, file)
                elif entry.isdir() or entry.issym():
                    archive.addfile(entry)
                else:
                    raise PackError("%s is neither a file, a folder nor a link" % path)
    return data.getvalue()


class Archive:
    """An OCI image layout in a tar file."""

    def __init__(self, moment):
        self._moment = moment
        self._entries = {}

    def add(self, name, data):
        self._entries[name] = data

    def add_blob(self, data, media_type):
        digest = hashlib.sha256(data).hexdigest()
        self.add("blobs/sha256/" + digest, data)
        return {"mediaType": media_type, "digest": "sha256:" + digest, "size": len(data)}

    def write(self, path):
        with tarfile.open(path + ".part", "w", format=tarfile.PAX_FORMAT) as archive:
            for name in sorted(self._entries):
                entry = tarfile.TarInfo(name)
                entry.size, entry.mtime, entry.mode = len(self._entries[name]), self._moment, 0o644
                archive.addfile(entry, io.BytesIO(self._entries[name]))
        os.rename(path + ".part", path)


def as_json(document):
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def blob_path(descriptor):
    return "blobs/" + descriptor["digest"].replace(":", "/")


def pack(root, labels, dockerfile, tag, out):
    machine = platform.machine()
    created = datetime.datetime.strptime(labels["created"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=datetime.timezone.utc)
    moment = int(created.timestamp())
    layer = layer_of(root, moment)
    packed = gzip.compress(layer, 9, mtime=0)
    archive = Archive(moment)
    layer_blob = archive.add_blob(packed, "application/vnd.oci.image.layer.v1.tar+gzip")
    config = {
        "created": labels["created"], "architecture": GOARCH.get(machine, machine), "os": "linux", "config": config_of(dockerfile, labels),
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
        "history": [{"created": labels["created"], "created_by": "scripts/image/build"}],
    }
    config_blob = archive.add_blob(as_json(config), "application/vnd.oci.image.config.v1+json")
    manifest = archive.add_blob(as_json({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config_blob, "layers": [layer_blob],
        "annotations": config["config"]["Labels"],
    }), "application/vnd.oci.image.manifest.v1+json")
    manifest["annotations"] = {"org.opencontainers.image.ref.name": tag.split(":", 1)[1]}
    archive.add("oci-layout", as_json({"imageLayoutVersion": "1.0.0"}))
    archive.add("index.json", as_json({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [manifest]}))
    # The same image in the words of `docker load` before version 25.
    archive.add("manifest.json", as_json([{"Config": blob_path(config_blob), "RepoTags": [tag], "Layers": [blob_path(layer_blob)]}]))
    archive.write(out)


def main():
    parser = argparse.ArgumentParser(prog="pack", description=__doc__.split("\n\n")[0])
    for name, text in (("root", "root file system"), ("labels", "name=value lines"), ("dockerfile", "what says how to run it"),
                       ("tag", "NAME:TAG"), ("out", "the archive")):
        parser.add_argument("--" + name, required=True, help=text)
    arguments = parser.parse_args()
    pack(arguments.root, read_labels(arguments.labels), arguments.dockerfile, arguments.tag, arguments.out)


if __name__ == "__main__":
    try:
        main()
    except (PackError, OSError) as error:
        print("image: %s" % error, file=sys.stderr)
        sys.exit(1)
