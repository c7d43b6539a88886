"""Of which commit a result is."""
import os
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


def commit():
    """Its hash, with "+changes" if the tree is another one; results are no change, for runs write them."""
    def git(*words):
        return subprocess.run(("git", "-C", ROOT) + words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True).stdout.strip()
    name = git("rev-parse", "--short=12", "HEAD")
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!benchmarks/results")
    return (name + ("+changes" if changed else "")) if name else "unknown"
