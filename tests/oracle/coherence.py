"""Coherence as one would first write it: a dict of bytes.  Every read returns the last write."""


class PlainMemory:
    """Bytes by address; what was never written is 0."""

    def __init__(self):
        self.bytes = {}

    def write(self, address, data):
        for i, byte in enumerate(data):
            self.bytes[address + i] = byte

    def read(self, address, count):
        return bytes(self.bytes.get(address + i, 0) for i in range(count))
