"""Results of single cases, kept so that a run can go on where another one ended."""
import hashlib
import json
import os


class Store:
    """`settings` and `version` (of what was built) are part of a result's key: another service or another threshold is another result."""

    def __init__(self, folder, version):
        self._folder = folder
        self._version = version
        os.makedirs(folder, exist_ok=True)

    def key(self, case, settings):
        text = json.dumps([case.id, case.plan, settings, self._version], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def get(self, case, settings):
        """The row, or None if this case was not yet run like this."""
        try:
            with open(self._path(case)) as file:
                stored = json.load(file)
        except (OSError, ValueError):
            return None
        return stored["row"] if stored.get("key") == self.key(case, settings) else None

    def put(self, case, settings, row):
        write_json(self._path(case), {"key": self.key(case, settings), "row": row})

    def _path(self, case):
        return os.path.join(self._folder, case.id.replace("/", "-") + ".json")


def write_json(path, document):
    """All of it or nothing, however the program ends."""
    with open(path + ".part", "w") as file:
        json.dump(document, file, indent=1)
        file.write("\n")
    os.rename(path + ".part", path)


def version_of_files(paths):
    """One text for the contents of these files."""
    digest = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            for block in iter(lambda: file.read(1 << 20), b""):
                digest.update(block)
    return digest.hexdigest()[:16]
