# SPDX-License-Identifier: Apache-2.0
"""Reads 64-bit little-endian ELF files with nothing but struct: build-ID, file offset to
address, and which functions cover an address. The reference that what the product says about
a file is compared with."""

import bisect
import functools
import struct

FUNCTION_TYPES = (2, 10)  # STT_FUNC, STT_GNU_IFUNC
CODE_TYPES = (0, *FUNCTION_TYPES)  # STT_NOTYPE too: labels of assembly
SHT_SYMTAB, SHT_NOTE, SHT_DYNSYM, SHT_NOBITS = 2, 7, 11, 8


class ElfFile:
    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = file.read()
        if self.data[:6] != b"\x7fELF\x02\x01":
            raise ValueError(f"'{path}' is no 64-bit ELF file")
        phoff, shoff = struct.unpack_from("<QQ", self.data, 32)
        phentsize, phnum, shentsize, shnum = struct.unpack_from("<HHHH", self.data, 54)
        self.segments = [struct.unpack_from("<IIQQQQQQ", self.data, phoff + i * phentsize)
                         for i in range(phnum)]
        self.sections = [struct.unpack_from("<IIQQQQIIQQ", self.data, shoff + i * shentsize)
                         for i in range(shnum)]

    @functools.cached_property
    def build_id(self):
        """The GNU build-ID in hexadecimal, "" without one."""
        for kind, _, offset, _, _, size, *_ in self.segments:
            if kind != 4:
                continue
            end = offset + size
            while offset + 12 <= end:
                name, length, note = struct.unpack_from("<III", self.data, offset)
                start = offset + 12 + (name + 3) // 4 * 4
                if note == 3 and self.data[offset + 12 : offset + 16] == b"GNU\0":
                    return self.data[start : start + length].hex()
                offset = start + (length + 3) // 4 * 4
        return ""

    def section(self, name):
        """(address, size) of the section of that name, (0, 0) without one."""
        names = self.sections[struct.unpack_from("<H", self.data, 62)[0]][4] if self.sections else 0
        for title, _, _, address, _, size, *_ in self.sections:
            start = names + title
            if self.data[start : self.data.index(b"\0", start)] == name.encode():
                return address, size
        return 0, 0

    def word(self, address):
        """The 8 bytes at an address as a number; 0 where the file has none."""
        for kind, _, start, begin, _, size, *_ in self.segments:
            if kind == 1 and begin <= address <= begin + size - 8:
                return struct.unpack_from("<Q", self.data, start + address - begin)[0]
        return 0

    @functools.cached_property
    def first_and_last(self):
        """Addresses of what the C library's and the compiler's crt files have run before and after
        everything else: _init, _fini, frame_dummy, __do_global_dtors_aux."""
        code = [self.section(name)[0] for name in (".init", ".fini")]
        arrays = [self.section(name)[0] for name in (".init_array", ".fini_array")]
        return [address for address in code + [self.word(array) for array in arrays] if address]

    def address(self, offset):
        """Address of a file offset as the segments map it, or None."""
        for kind, _, start, address, _, size, *_ in self.segments:
            if kind == 1 and start <= offset < start + size:
                return offset - start + address
        return None

    @functools.cached_property
    def symbols(self):
        """[(address, size, name)] of the defined functions, sorted."""
        return sorted((value, length, name) for value, length, name, kind in self.all_symbols()
                      if kind in FUNCTION_TYPES)

    @functools.cached_property
    def labels(self):
        """[(address, name)] of what is defined in code without a size, sorted."""
        return sorted((value, name) for value, length, name, kind in self.all_symbols()
                      if kind in CODE_TYPES and length == 0 and name)

    def all_symbols(self):
        found = set()
        for _, kind, _, _, offset, size, link, _, _, entry in self.sections:
            if kind not in (SHT_SYMTAB, SHT_DYNSYM):
                continue
            names = self.sections[link][4]
            for start in range(offset, offset + size, entry):
                name, info, _, section, value, length = struct.unpack_from(
                    "<IBBHQQ", self.data, start)
                if section != 0:
                    end = self.data.index(b"\0", names + name)
                    found.add((value, length, self.data[names + name : end].decode(), info & 15))
        return found

    @functools.cached_property
    def reach(self):
        """For each symbol the furthest end of it and all before it, to know when to stop."""
        furthest, result = 0, []
        for address, size, _ in self.symbols:
            furthest = max(furthest, address + size)
            result.append(furthest)
        return result

    def functions(self, address):
        """Names of all functions that cover the address: aliases are many, truth is a set."""
        names = set()
        index = bisect.bisect_right(self.symbols, (address, float("inf"), "")) - 1
        while index >= 0 and self.reach[index] > address:
            start, size, name = self.symbols[index]
            if start <= address < start + size:
                names.add(name)
            index -= 1
        return names

    def labels_before(self, address):
        """Names of the nearest labels at or before an address that no function covers."""
        index = bisect.bisect_right(self.labels, (address, "\U0010ffff")) - 1
        names, nearest = set(), self.labels[index][0] if index >= 0 else None
        while index >= 0 and self.labels[index][0] == nearest:
            names.add(self.labels[index][1])
            index -= 1
        return names

    def symbol(self, name):
        """(address, size) of the one function of that name."""
        matches = [(address, size) for address, size, other in self.symbols if other == name]
        if len(matches) != 1:
            raise KeyError(name)
        return matches[0]


@functools.lru_cache(maxsize=None)
def elf(path):
    """The file at a path; None when there is none or it is no such file."""
    try:
        return ElfFile(path)
    except (OSError, ValueError, struct.error):
        return None
