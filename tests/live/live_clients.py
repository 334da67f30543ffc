"""What speaks to the machine as the C library does, and what a test needs installed."""

from __future__ import annotations

import mmap
import os
import shutil
import socket
import struct

import numpy as np
import pytest

from nicscope.live import layout

WORDS = layout.CONSTANTS["WORDS"]
MESSAGE = struct.Struct(f"{WORDS}Q")


class Client:
    """What speaks to the machine as the C library does, or as it never would."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.connect(str(path))
        self.socket.settimeout(60)
        self.segment = None

    def ask(self, name, *words, descriptors=()):
        """The words of the answer, the first of which is an errno."""
        number = layout.OPERATIONS.index(name) if isinstance(name, str) else name
        asked = [number, *(word & (2**64 - 1) for word in words)]
        packed = MESSAGE.pack(*asked, *[0] * (WORDS - len(asked)))
        socket.send_fds(self.socket, [packed], list(descriptors))
        answer, self.given, _, _ = socket.recv_fds(self.socket, MESSAGE.size, 4)
        return list(MESSAGE.unpack(answer))

    def hello(self):
        """Attach; the facts."""
        error, *facts = self.ask("HELLO", layout.FINGERPRINT, os.getpid())
        assert error == 0
        memory, self.bell = self.given
        self.segment = mmap.mmap(memory, layout.CONSTANTS["SEGMENT_BYTES"])
        os.close(memory)
        self.header = np.frombuffer(self.segment, layout.DTYPES["header"], 1)
        return dict(zip(layout.FACTS, facts, strict=False))

    def ring(self):
        """Ring the bell, as after whatever has been written."""
        self.header["bell"] += 1
        os.eventfd_write(self.bell, 1)

    def close(self):
        self.socket.close()


def needs(program):
    """Skips a test where a program is not installed."""
    packages = {
        "ibv": "ibverbs-utils",
        "ib": "perftest",
        "qperf": "qperf",
        "ucx": "ucx-utils",
        "mpirun": "openmpi-bin",
    }
    package = packages.get(program.split("_")[0], "rdmacm-utils")
    return pytest.mark.skipif(
        shutil.which(program) is None, reason=f"needs a package: {package}, of {program}"
    )
