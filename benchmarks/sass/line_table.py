"""Source positions of GPU code: the line table that nvcc -lineinfo writes (DWARF 2, with NVIDIA's inlined calls)."""
import struct
from collections import namedtuple

Position = namedtuple("Position", "file line")  # file: the path as nvcc was given it

# Standard opcodes of DWARF 2.
COPY, ADVANCE_PC, ADVANCE_LINE, SET_FILE, SET_COLUMN, NEGATE_STATEMENT, BASIC_BLOCK, CONST_ADD_PC, FIXED_ADVANCE_PC = range(1, 10)
# Extended opcodes: DWARF's, and NVIDIA's for code that was inlined.
END_SEQUENCE, SET_ADDRESS, DEFINE_FILE = 1, 2, 3
INLINED_CALL = 0x90


class LineTableError(Exception):
    pass


class _Reader:
    def __init__(self, data, at=0):
        self.data, self.at = data, at

    def take(self, form):
        values = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return values[0] if len(values) == 1 else values

    def unsigned(self):
        value = shift = 0
        while True:
            byte = self.take("B")
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def signed(self):
        start = self.at
        value = self.unsigned()
        bits = 7 * (self.at - start)
        return value - (1 << bits) if value >> (bits - 1) else value

    def string(self):
        end = self.data.index(b"\0", self.at)
        text = self.data[self.at:end].decode(errors="replace")
        self.at = end + 1
        return text


def parse(data, symbol_at):
    """{function: [(address, chain), ...]} in the order of addresses. A chain starts with the position of the
    instruction and goes on with the calls that it was inlined through, outermost last. `symbol_at`: {offset in `data`:
    symbol} from the section's relocations, which say where a sequence of addresses begins.
    """
    reader = _Reader(data)
    rows = {}
    while reader.at < len(data):
        _unit(reader, symbol_at, rows)
    return {name: sorted(positions, key=lambda row: row[0]) for name, positions in rows.items()}


def _unit(reader, symbol_at, rows):
    length, version, header_length = reader.take("IHI")
    end = reader.at - 6 + length
    program = reader.at + header_length
    if version != 2:
        raise LineTableError("line table of DWARF %d, not 2" % version)
    unit_bytes, _, line_base, line_range, opcode_base = reader.take("BBbBB")
    reader.take("%ds" % (opcode_base - 1))
    folders = [""]
    while reader.data[reader.at]:
        folders.append(reader.string())
    reader.at += 1
    files = [None]
    while reader.data[reader.at]:
        name, folder, _, _ = reader.string(), reader.unsigned(), reader.unsigned(), reader.unsigned()
        files.append(folders[folder] + "/" + name if folder else name)
    reader.at = program
    chains = [None]  # of the function's rows, from 1: an inlined call names its caller by the number of its row
    function, address, file, line, caller = None, 0, 1, 1, 0

    def row():
        chain = (Position(files[file], line),) + (chains[caller] if caller else ())
        chains.append(chain)
        if function is not None:
            rows.setdefault(function, []).append((address, chain))

    while reader.at < end:
        opcode = reader.take("B")
        if opcode >= opcode_base:
            address += (opcode - opcode_base) // line_range * unit_bytes
            line += line_base + (opcode - opcode_base) % line_range
            row()
        elif opcode == 0:
            size = reader.unsigned()
            next_at = reader.at + size
            extended = reader.take("B")
            if extended == SET_ADDRESS:
                function, address = symbol_at.get(reader.at), reader.take("Q")
            elif extended == INLINED_CALL:
                caller = reader.unsigned()
            elif extended == END_SEQUENCE:
                function, address, file, line, caller = None, 0, 1, 1, 0
                chains = [None]
            reader.at = next_at
        elif opcode == COPY:
            row()
        elif opcode == ADVANCE_PC:
            address += reader.unsigned() * unit_bytes
        elif opcode == ADVANCE_LINE:
            line += reader.signed()
        elif opcode == SET_FILE:
            file = reader.unsigned()
        elif opcode == SET_COLUMN:
            reader.unsigned()
        elif opcode == CONST_ADD_PC:
            address += (255 - opcode_base) // line_range * unit_bytes
        elif opcode == FIXED_ADVANCE_PC:
            address += reader.take("H")
        elif opcode not in (NEGATE_STATEMENT, BASIC_BLOCK):
            raise LineTableError("opcode %d of a line table" % opcode)
    reader.at = end
