"""Handles as programs carry them about: of a process (16 bits) and of a buffer (48 bits)."""

from __future__ import annotations

from typing import NamedTuple

from nicscope.errors import SimulationError

PROCESS_BITS = 16
BUFFER_BITS = 32
ADDRESS_BITS = 32


class BufferHandle(NamedTuple):
    """CBH: names a registered buffer anywhere in the cluster (miNI, IV)."""

    buffer: int
    process: int  # PCH of its owner

    def packed(self) -> int:
        """The 48 bits."""
        return self.buffer << PROCESS_BITS | self.process


def buffer_handle(packed: int) -> BufferHandle:
    """The handle of 48 bits.  Errors: ``SimulationError`` for more or fewer than there can be."""
    if not 0 <= packed < 1 << (BUFFER_BITS + PROCESS_BITS):
        raise SimulationError(f"a buffer's handle has 48 bits, got {packed}")
    return BufferHandle(packed >> PROCESS_BITS, packed & ((1 << PROCESS_BITS) - 1))


def memory_handle(address: int, process: int) -> int:
    """VMH: 32 bits of address above the process's handle.  Errors: ``SimulationError``."""
    if not 0 <= address < 1 << ADDRESS_BITS:
        raise SimulationError(f"a memory handle has 32 bits of address, got {address:#x}")
    return address << PROCESS_BITS | process


class Remote(NamedTuple):
    """A buffer that a process has opened: where its operations go."""

    handle: BufferHandle
    node: int
    length: int
    place: int  # in the host's table of opened buffers
