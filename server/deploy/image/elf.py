"""Reads from an ELF file which machine it is for and which libraries it needs; `build` checks with it that the image is
complete, for any architecture.
"""

import struct

MACHINES = {62: "amd64", 183: "arm64"}
LOAD, DYNAMIC, INTERPRETER = 1, 2, 3
NEEDED, STRINGS = 1, 5


class Elf:
    """A 64-bit little-endian ELF file."""

    def __init__(self, path):
        self.data = path.read_bytes()
        if self.data[:6] != b"\x7fELF\x02\x01":
            raise ValueError(f"{path} is no 64-bit little-endian ELF file")
        (self.machine,) = struct.unpack_from("<H", self.data, 18)
        (at,), (size, count) = struct.unpack_from("<Q", self.data, 32), struct.unpack_from("<HH", self.data, 54)
        self.segments = [struct.unpack_from("<IIQQQQQQ", self.data, at + i * size) for i in range(count)]

    def arch(self):
        return MACHINES.get(self.machine, f"machine {self.machine}")

    def text(self, at):
        return self.data[at:self.data.index(b"\0", at)].decode()

    def interpreter(self):
        """Returns the path of the loader, or None."""
        found = [s for s in self.segments if s[0] == INTERPRETER]
        return self.text(found[0][2]) if found else None

    def offset(self, address):
        """Returns the place in the file of an address in memory."""
        for kind, _, offset, virtual, _, size, *_ in self.segments:
            if kind == LOAD and virtual <= address < virtual + size:
                return address - virtual + offset
        raise ValueError(f"address {address} is in no segment")

    def needed(self):
        """Returns the names of the libraries that the file needs."""
        entries = []
        for kind, _, offset, _, _, size, *_ in self.segments:
            if kind == DYNAMIC:
                entries = [struct.unpack_from("<qQ", self.data, offset + i) for i in range(0, size, 16)]
        strings = [self.offset(value) for tag, value in entries if tag == STRINGS]
        return [self.text(strings[0] + value) for tag, value in entries if tag == NEEDED]
