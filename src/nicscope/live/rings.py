"""The memory that a program shares with the machine, and the rings in it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
from typing import Any

import msgspec
import numpy as np

from nicscope.interfaces.verbs_device.calls import Refused
from nicscope.live import layout

LINE = 64


class Ring(msgspec.Struct, eq=False):
    """A queue in a segment: the machine's end of it."""

    number: int
    at: int  # bytes from the segment's beginning
    stride: int
    slots: int


class Segment:
    """The memory that a program shares with the machine."""

    def __init__(self) -> None:
        size = layout.CONSTANTS["SEGMENT_BYTES"]
        self.fd = os.memfd_create("nicscope", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(self.fd, size)
            # A program that cut it short would end the machine.
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
            self.memory = mmap.mmap(self.fd, size)
        except OSError:
            os.close(self.fd)
            raise
        self.view = memoryview(self.memory)
        self.header: Any = np.frombuffer(self.memory, layout.DTYPES["header"], 1)
        at, count = layout.CONSTANTS["RINGS_AT"], layout.CONSTANTS["RINGS"]
        rings: Any = np.frombuffer(self.memory, layout.DTYPES["ring"], count, at)
        self.rings, self.state = rings, rings["state"]
        self.header["fingerprint"] = layout.FINGERPRINT
        self._unused = list(range(count - 1, 0, -1))
        self._next, self._end = layout.CONSTANTS["DATA_AT"], size
        self._free: dict[int, list[int]] = {}

    def open(self, stride: int, slots: int) -> Ring:
        """A new ring of at least so many slots.  Errors: ENOMEM."""
        stride = -(-stride // LINE) * LINE
        if not self._unused:
            raise Refused(errno.ENOMEM)
        at, slots = self._room_for(stride, slots)
        number = self._unused.pop()
        self.rings[number] = np.zeros((), self.rings.dtype)
        return Ring(number, at, stride, slots)

    def _room_for(self, stride: int, slots: int) -> tuple[int, int]:
        """Where there is room for at least so many slots, and for how many."""
        slots = 1 << max(slots - 1, 1).bit_length()
        size = 1 << (stride * slots - 1).bit_length()
        if self._free.get(size):
            return self._free[size].pop(), slots
        if self._next + size > self._end:
            raise Refused(errno.ENOMEM)
        at, self._next = self._next, self._next + size
        return at, slots

    def grown(self, ring: Ring, slots: int) -> Ring:
        """The ring with room for so many slots, whose contents are to be moved.  Errors: ENOMEM."""
        at, slots = self._room_for(ring.stride, slots)
        return Ring(ring.number, at, ring.stride, slots)

    def give_room(self, ring: Ring) -> None:
        """Take back the memory of a ring that is somewhere else."""
        size = 1 << (ring.stride * ring.slots - 1).bit_length()
        self._free.setdefault(size, []).append(ring.at)

    def close(self, ring: Ring) -> None:
        """Take a ring back."""
        self.give_room(ring)
        self._unused.append(ring.number)

    def end(self) -> None:
        """Unmap it."""
        self.view.release()
        self.header = self.rings = self.state = None
        with contextlib.suppress(BufferError):  # a view of it is left: it goes with that
            self.memory.close()
        os.close(self.fd)
