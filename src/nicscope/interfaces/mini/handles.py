"""Handles as programs carry them about: of a process (16 bits) and of a buffer (48 bits)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from nicscope.errors import SimulationError
from nicscope.interfaces.arguments import shown, whole
from nicscope.interfaces.ownership import Owned

PROCESS_BITS = 16
BUFFER_BITS = 32
ADDRESS_BITS = 32


class _Words(NamedTuple):
    buffer: int
    process: int  # PCH of its owner


class BufferHandle(_Words):
    """CBH: names a registered buffer anywhere in its cluster (miNI, IV).

    A name, and no more: its bits may be sent, and what they may be used for is the owner's to say.
    """

    run: object = None  # the directory that gave it; None if it was made of its bits

    def packed(self) -> int:
        """The 48 bits."""
        return self.buffer << PROCESS_BITS | self.process


def buffer_handle(packed: int) -> BufferHandle:
    """The handle of 48 bits.  Errors: ``SimulationError`` for more or fewer than there can be."""
    try:
        bits = whole(packed, "a handle", 0, (1 << (BUFFER_BITS + PROCESS_BITS)) - 1)
    except SimulationError:
        raise SimulationError(f"a buffer's handle has 48 bits, got {shown(packed)}") from None
    return BufferHandle(bits >> PROCESS_BITS, bits & ((1 << PROCESS_BITS) - 1))


def memory_handle(address: int, process: int) -> int:
    """VMH: 32 bits of address above the process's handle.  Errors: ``SimulationError``."""
    owner = whole(process, "a process's handle", 0, (1 << PROCESS_BITS) - 1)
    try:
        bits = whole(address, "an address", 0, (1 << ADDRESS_BITS) - 1)
    except SimulationError:
        raise SimulationError(
            f"a memory handle has 32 bits of address, got {shown(address)}"
        ) from None
    return bits << PROCESS_BITS | owner


@dataclass(frozen=True, eq=False)
class Remote(Owned):
    """A buffer that a process has opened: where its operations go."""

    what = "an opened buffer"
    origin = "open()"

    handle: BufferHandle
    node: int
    length: int
    place: int  # in the host's table of opened buffers
