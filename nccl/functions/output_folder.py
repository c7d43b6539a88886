"""A folder that a build step makes, kept up to date file by file."""
import os


class OutputFolder:
    """Collects files and brings a folder up to date with them."""

    def __init__(self, folder):
        self.folder = folder
        self.files = {}

    def add(self, path, text):
        self.files[path] = text

    def update(self):
        written = 0
        for path, text in sorted(self.files.items()):
            full = os.path.join(self.folder, path)
            data = text.encode("utf-8", "surrogateescape")
            if os.path.isfile(full):
                with open(full, "rb") as f:
                    if f.read() == data:
                        continue
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full + ".new", "wb") as f:
                f.write(data)
            os.replace(full + ".new", full)
            written += 1
        for folder, _, names in os.walk(self.folder):
            for name in names:
                full = os.path.join(folder, name)
                if os.path.relpath(full, self.folder) not in self.files:
                    os.remove(full)
        return written
