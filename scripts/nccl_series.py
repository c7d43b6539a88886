"""The patch series of nccl/patches: zero-context patches that only insert lines.

A patch file is free text (its purpose), then for each file the two header lines `--- a/PATH` and `+++ b/PATH` and
hunks `@@ -N,0 +M,COUNT @@` followed by COUNT lines that start with `+`. N is the line of the file, as the patches
before it in the series left it, after which the lines go in. Context, deleted lines and the function name that diff
tools print after the second `@@` are refused: they would bring upstream's text into this repository.
"""
import hashlib
import os
import re
import tarfile

HUNK = re.compile(r"@@ -(\d+),0 \+(\d+)(?:,(\d+))? @@(.*)$")


class SeriesError(Exception):
    """One line that says what is wrong and what to do."""


class Hunk:
    def __init__(self, after, start, lines, where):
        self.after = after  # insert after this line, counted from 1, of the file before this patch
        self.start = start  # the number of the first inserted line after this patch
        self.lines = lines
        self.where = where  # "0001-name.patch, hunk 2 (line 14)"


class Patch:
    def __init__(self, name, text):
        self.name = name
        self.preamble = []  # the purpose, everything before the first file header
        self.files = {}     # path -> [Hunk], in order
        self._parse(text)

    def _parse(self, text):
        lines = text.split("\n")
        if lines and lines[-1] == "":
            lines.pop()
        path, i, hunks = None, 0, 0
        while i < len(lines):
            line = lines[i]
            if line.startswith("--- "):
                path, i = self._file_header(lines, i), i + 2
                continue
            if line.startswith("@@"):
                hunks += 1
                where = "%s, hunk %d (line %d)" % (self.name, hunks, i + 1)
                if path is None:
                    raise SeriesError("%s: stands before any '--- a/PATH' line" % where)
                i = self._hunk(lines, i, path, where)
                continue
            if path is None:
                if not line.startswith(("diff --git ", "index ")):
                    self.preamble.append(line)
            elif not line.startswith(("diff --git ", "index ")) and line != "":
                raise SeriesError("%s, line %d: a context or deleted line, or text between hunks; make the patch again "
                                  "with scripts/refresh-patches" % (self.name, i + 1))
            i += 1
        if not self.files:
            raise SeriesError("%s: holds no hunk; remove it from nccl/patches/series" % self.name)

    def _file_header(self, lines, i):
        old = re.match(r"--- a/(\S+)$", lines[i])
        new = re.match(r"\+\+\+ b/(\S+)$", lines[i + 1]) if i + 1 < len(lines) else None
        if not old or not new or old.group(1) != new.group(1) or ".." in old.group(1).split("/"):
            raise SeriesError("%s, line %d: expected '--- a/PATH' and '+++ b/PATH' with one path of upstream's tree" %
                              (self.name, i + 1))
        if old.group(1) in self.files:
            raise SeriesError("%s, line %d: %s comes twice; put all its hunks together" %
                              (self.name, i + 1, old.group(1)))
        self.files[old.group(1)] = []
        return old.group(1)

    def _hunk(self, lines, i, path, where):
        header = HUNK.match(lines[i])
        if not header:
            raise SeriesError("%s: '%s' is not an insertion without context ('@@ -N,0 +M,COUNT @@'); make the patch "
                              "again with scripts/refresh-patches" % (where, lines[i][:40]))
        if header.group(4).strip():
            raise SeriesError("%s: text after the second '@@' is upstream's; delete it" % where)
        count = int(header.group(3)) if header.group(3) is not None else 1
        body = lines[i + 1:i + 1 + count]
        for offset, line in enumerate(body):
            if not line.startswith("+"):
                raise SeriesError("%s: line %d is not an inserted line ('+...')" % (where, i + 2 + offset))
        if count == 0 or len(body) != count:
            raise SeriesError("%s: announces %d inserted lines and has %d" % (where, count, len(body)))
        hunks = self.files[path]
        hunk = Hunk(int(header.group(1)), int(header.group(2)), [line[1:] for line in body], where)
        expected = hunk.after + 1 + sum(len(h.lines) for h in hunks)
        if hunk.start != expected:
            raise SeriesError("%s: line numbers do not agree, '+%d' should be '+%d'; make the patch again with "
                              "scripts/refresh-patches" % (where, hunk.start, expected))
        if hunks and hunk.after < hunks[-1].after:
            raise SeriesError("%s: stands above the hunk before it; sort the hunks by line" % where)
        hunks.append(hunk)
        return i + 1 + count


class Series:
    def __init__(self, folder):
        self.folder = folder
        self.names = []
        self.digest = hashlib.sha256()
        listing = self._read("series")
        for number, line in enumerate(listing.split("\n"), 1):
            name = line.split("#", 1)[0].strip()
            if not name:
                continue
            if "/" in name or name in self.names:
                raise SeriesError("%s/series, line %d: '%s' is listed twice or is not a file name" %
                                  (folder, number, name))
            self.names.append(name)
        present = sorted(n for n in os.listdir(folder) if n.endswith(".patch"))
        for name in present:
            if name not in self.names:
                raise SeriesError("%s/%s is not listed in %s/series; add or remove it" % (folder, name, folder))
        self.patches = [Patch(name, self._read(name)) for name in self.names]

    def _read(self, name):
        path = os.path.join(self.folder, name)
        try:
            with open(path, encoding="utf-8", newline="") as f:
                text = f.read()
        except OSError as error:
            raise SeriesError("%s: %s; restore the file or correct %s/series" % (path, error.strerror, self.folder))
        self.digest.update(name.encode() + b"\0" + text.encode() + b"\0")
        return text

    def hexdigest(self):
        return self.digest.hexdigest()


def split_lines(text):
    """The lines of a file and whether the last one ended with a newline."""
    ended = text.endswith("\n")
    lines = text.split("\n")
    if ended:
        lines.pop()
    return lines, ended


def insert(owned, hunks, owner):
    """Inserts the hunks of one patch into `owned`, a list of (line, owner)."""
    added = 0
    for hunk in hunks:
        if hunk.after + added > len(owned):
            raise SeriesError("%s: does not apply, the file has only %d lines; correct the hunk or make it again with "
                              "scripts/refresh-patches" % (hunk.where, len(owned) - added))
        at = hunk.after + added
        owned[at:at] = [(line, owner) for line in hunk.lines]
        added += len(hunk.lines)
    return owned


def read_text(path):
    # surrogateescape: bytes that are not UTF-8 come back as they were
    with open(path, encoding="utf-8", errors="surrogateescape", newline="") as f:
        return f.read()


def write_text(path, text):
    with open(path, "w", encoding="utf-8", errors="surrogateescape", newline="") as f:
        f.write(text)


def owned_files(series, pristine):
    """path -> list of (line, name of the patch that inserted it or None), for the files that the series touches."""
    files = {}
    for patch in series.patches:
        for path, hunks in patch.files.items():
            if path not in files:
                full = os.path.join(pristine, path)
                if not os.path.isfile(full):
                    raise SeriesError("%s: does not apply, upstream has no file %s" % (hunks[0].where, path))
                files[path] = [(line, None) for line in split_lines(read_text(full))[0]]
            insert(files[path], hunks, patch.name)
    return files


def unpack(tarball, folder):
    """Unpacks `tarball` so that `folder` is upstream's top folder."""
    os.makedirs(folder)
    try:
        with tarfile.open(tarball) as archive:
            members = []
            for member in archive.getmembers():
                parts = member.name.strip("/").split("/")
                if member.name.startswith("/") or ".." in parts:
                    raise SeriesError("%s: unsafe path %s; fetch it again with scripts/fetch-nccl" %
                                      (tarball, member.name))
                if len(parts) < 2:
                    continue
                member.name = "/".join(parts[1:])
                if member.islnk() or member.isdev():
                    raise SeriesError("%s: unexpected kind of member %s; fetch it again with scripts/fetch-nccl" %
                                      (tarball, member.name))
                members.append(member)
            archive.extractall(folder, members=members)
    except (OSError, tarfile.TarError) as error:
        raise SeriesError("%s: cannot unpack it (%s); fetch it again with scripts/fetch-nccl" % (tarball, error))


def file_sha256(path):
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as f:
            for block in iter(lambda: f.read(1 << 20), b""):
                digest.update(block)
    except OSError as error:
        raise SeriesError("%s: %s; get the tarball with scripts/fetch-nccl" % (path, error.strerror))
    return digest.hexdigest()
