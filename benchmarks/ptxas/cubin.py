"""What ptxas decided, read from the ELF file it wrote (a cubin): registers per function, size of variables, sections."""
import struct

SHT_NOTE_CUDA_INFO = 0x70000000  # the sections .nv.info and .nv.info.<function>
EIATTR_REGCOUNT = 0x2F
EIATTR_MIN_STACK_SIZE = 0x12
EIATTR_FRAME_SIZE = 0x11
VALUE_IN_LINE = (0x02, 0x03)     # one or two bytes in place of a length
VALUE_SIZED = 0x04               # two bytes of length, then the value


class CubinError(Exception):
    pass


class Cubin:
    def __init__(self, data):
        if data[:4] != b"\x7fELF" or data[4] != 2:
            raise CubinError("not a 64-bit ELF file")
        offset, = struct.unpack_from("<Q", data, 0x28)
        size, count, names_index = struct.unpack_from("<HHH", data, 0x3A)
        headers = [struct.unpack_from("<IIQQQQIIQQ", data, offset + i * size) for i in range(count)]
        names = self._bytes(data, headers[names_index])
        self._sections = [(self._string(names, h[0]), h, self._bytes(data, h)) for h in headers]
        self._symbols = self._read_symbols()
        self.registers = {}  # mangled name -> count
        self.frame_bytes = {}
        for name, header, content in self._sections:
            if name == ".nv.info" and header[1] == SHT_NOTE_CUDA_INFO:
                self._read_info(content)

    @staticmethod
    def _bytes(data, header):
        return b"" if header[1] == 8 else data[header[4]:header[4] + header[5]]  # 8: SHT_NOBITS

    @staticmethod
    def _string(table, at):
        return table[at:table.index(b"\0", at)].decode(errors="replace")

    def _read_symbols(self):
        for name, header, content in self._sections:
            if name == ".symtab":
                strings = self._sections[header[6]][2]
                return [(self._string(strings, entry[0]), entry[5])
                        for entry in struct.iter_unpack("<IBBHQQ", content)]
        raise CubinError("no symbol table")

    def _read_info(self, content):
        at = 0
        while at + 4 <= len(content):
            form, attribute, length = struct.unpack_from("<BBH", content, at)
            at += 4
            if form != VALUE_SIZED:
                continue
            if attribute in (EIATTR_REGCOUNT, EIATTR_FRAME_SIZE) and length == 8:
                symbol, value = struct.unpack_from("<II", content, at)
                target = self.registers if attribute == EIATTR_REGCOUNT else self.frame_bytes
                target[self._symbols[symbol][0]] = value
            at += length

    def section_names(self):
        return [name for name, _, _ in self._sections]

    def contents(self, section):
        """Bytes of the section with this name; none if there is none."""
        for name, _, content in self._sections:
            if name == section:
                return content
        return b""

    def relocations(self, section):
        """{offset in the section: name of the symbol that is put there}"""
        return {offset: self._symbols[info >> 32][0]
                for offset, info, _ in struct.iter_unpack("<QQq", self.contents(".rela" + section))}

    def size_of(self, variable):
        """Bytes of the variable with this name, or None."""
        for name, size in self._symbols:
            if name == variable and size:
                return size
        return None
