"""What the loader sees of a shared library, as readelf prints it."""
import os
import re
import subprocess

from errors import AbiError

NEEDED = re.compile(r"\(NEEDED\).*\[(.+)\]")
SONAME = re.compile(r"\(SONAME\).*\[(.+)\]")
SYMBOL = re.compile(r"^ *\d+: +\S+ +\S+ +\S+ +(GLOBAL|WEAK|UNIQUE) +(DEFAULT|PROTECTED) +(\S+) (\S+)", re.M)
VERSION = re.compile(r"Name: (GLIBC|GLIBCXX|CXXABI)_([0-9.]+)\b")
STACK = re.compile(r"GNU_STACK.* (R?W?E?) +0x\S+$", re.M)


def run(command, what):
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=dict(os.environ, LC_ALL="C"))
    except OSError as error:
        raise AbiError("%s: %s: %s" % (what, command[0], error.strerror))
    if done.returncode != 0:
        lines = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        errors = [line for line in lines if "error" in line] or lines[-1:] or ["status %d" % done.returncode]
        raise AbiError("%s: %s" % (what, errors[0].strip()))
    return done.stdout


class Library:
    def __init__(self, path):
        if not os.path.isfile(path):
            raise AbiError("%s is not there" % path)
        dynamic = run(["readelf", "-dW", path], path)
        if "(SONAME)" not in dynamic and "(NEEDED)" not in dynamic:
            raise AbiError("%s is not a shared library" % path)
        self.needed = NEEDED.findall(dynamic)
        self.soname = (SONAME.findall(dynamic) + [None])[0]
        self.text_relocations = "(TEXTREL)" in dynamic
        # Names may carry a version: name@@VERSION.
        self.exported = {name.split("@")[0] for _, _, section, name in SYMBOL.findall(run(["readelf", "--dyn-syms", "-W", path], path))
                         if section not in ("UND", "ABS")}
        self.executable_stack = any("E" in flags for flags in STACK.findall(run(["readelf", "-lW", path], path)))
        self._versions = VERSION.findall(run(["readelf", "-VW", path], path))

    def newest_versions(self):
        """Of each versioned interface the newest that the library uses: ["GLIBC 2.34", ...]."""
        newest = {}
        for name, version in self._versions:
            number = tuple(int(part) for part in version.strip(".").split("."))
            newest[name] = max(newest.get(name, (0,)), number)
        return ["%s %s" % (name, ".".join(map(str, number))) for name, number in sorted(newest.items())]
