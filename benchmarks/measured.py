"""Of which commit a result is, and of which sources."""
import hashlib
import os
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))


def commit():
    """Its hash, with "+changes" if the tree is another one; results are no change, for runs write them."""
    name = git("rev-parse", "--short=12", "HEAD")
    return (name + ("+changes" if changed(".", ":!benchmarks/results") else "")) if name else "unknown"


def sources(*paths):
    """One text for what is committed under these git pathspecs. None: some of it is not committed."""
    files = git("ls-files", "--stage", "--", *paths)
    return hashlib.sha256(files.encode()).hexdigest()[:16] if files and not changed(*paths) else None


def changed(*paths):
    return git("status", "--porcelain", "--untracked-files=no", "--", *paths)


def git(*words):
    return subprocess.run(("git", "-C", ROOT) + words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True).stdout.strip()
