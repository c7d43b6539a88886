"""The functions of a cubin: instructions, where each comes from in the source, and whom it calls."""
import bisect
import os
import re

import instruction
import line_table
from cubin import Cubin, CubinError
from line_table import Position

# As clang-format lays out a function of the hooks.
FUNCTION = re.compile(r"(?:static |__device__ |CCLD_WATCHED ).*?\b(ccld_\w+)\(")


class Function:
    def __init__(self, name, instructions, chains, callees):
        self.name = name
        self.instructions = instructions  # in the order of addresses
        self.chains = chains              # of each: positions, innermost first; () where nothing is known
        self.callees = callees            # {index of a call: name of the function}


def read(path):
    """{mangled name: Function}"""
    with open(path, "rb") as file:
        cubin = Cubin(file.read())
    if not cubin.contents(".debug_line"):
        raise CubinError("%s: no line table; it was not compiled with -lineinfo" % path)
    rows = line_table.parse(cubin.contents(".debug_line"), cubin.relocations(".debug_line"))
    functions = {}
    for section in cubin.section_names():
        if section.startswith(".text."):
            name = section[len(".text."):]
            functions[name] = _function(name, cubin.contents(section), cubin.relocations(section), rows.get(name, []))
    return functions


def _function(name, code, relocations, rows):
    addresses = [row[0] for row in rows]
    instructions, chains, callees = [], [], {}
    for address in range(0, len(code), instruction.BYTES):
        decoded = instruction.decode(code, address)
        row = bisect.bisect_right(addresses, address) - 1
        instructions.append(decoded)
        chains.append(rows[row][1] if row >= 0 else ())
        if decoded.flow == instruction.CALL and address in relocations:
            callees[len(instructions) - 1] = relocations[address]
    return Function(name, instructions, chains, callees)


class SourceText:
    """Lines of source files, read once. So what stands at a position can be asked for."""

    def __init__(self):
        self._lines = {}

    def function_at(self, position):
        """Name of the function of ours (ccld_...) that a position is in; None elsewhere."""
        if not file_of(position).startswith("ccld_"):
            return None
        for line in range(position.line, 0, -1):
            found = FUNCTION.match(self.at(Position(position.file, line)))
            if found:
                return found.group(1)
        return None

    def at(self, position):
        if position.file not in self._lines:
            try:
                with open(position.file, errors="replace") as file:
                    self._lines[position.file] = file.read().split("\n")
            except OSError:
                self._lines[position.file] = []
        lines = self._lines[position.file]
        return lines[position.line - 1] if 0 < position.line <= len(lines) else ""


def file_of(position):
    return os.path.basename(position.file)
