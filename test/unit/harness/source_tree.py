"""Runs a script that checks sources, on files that exist only for that."""
import os
import subprocess
import tempfile


def check(script, files):
    """`files`: text by path. Returns (exit status, output)."""
    with tempfile.TemporaryDirectory() as folder:
        for path, text in files.items():
            os.makedirs(os.path.dirname(os.path.join(folder, path)), exist_ok=True)
            with open(os.path.join(folder, path), "w") as file:
                file.write(text)
        done = subprocess.run([script, folder], capture_output=True, text=True)
        return done.returncode, done.stdout
