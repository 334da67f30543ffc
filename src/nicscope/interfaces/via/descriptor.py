"""Descriptors: what they say, and the bytes that say it in host memory.

A control segment of 32 bytes, an address segment of 16 for remote memory, data segments of 16;
little-endian, as the library's header lays them out.  Source: VIA Specification 1.0; EDT, 3.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import msgspec

from nicscope.interfaces.via.names import (
    CONTROL_OP_MASK,
    STATUS_ERROR_MASK,
    Control,
    Return,
    Status,
    VipError,
)

if TYPE_CHECKING:
    from nicscope.interfaces.via.addresses import Region
    from nicscope.interfaces.via.places import Descriptors

CONTROL_SEGMENT = struct.Struct("<QIHHIIII")  # next, its handle, count, control, -, immediate, ...
STATUS_WORDS = struct.Struct("<III")  # immediate data, length and status: what the NIC writes
ADDRESS_SEGMENT = struct.Struct("<QII")
STATUS_AT = CONTROL_SEGMENT.size - STATUS_WORDS.size
DATA_SEGMENT = struct.Struct("<QII")
ALIGNMENT = 64
_DONE = int(Status.VIP_STATUS_DONE)


class DataSegment(msgspec.Struct, frozen=True):
    """A stretch of registered memory: virtual address, handle of its registration, bytes.

    Its numbers are what the NIC gets, which judges them by its own tables.  One that
    ``Region.segment`` gave says besides which region it is of.
    """

    address: int
    handle: int
    length: int
    region: Region | None = None


class AddressSegment(msgspec.Struct, frozen=True):
    """Where in the other node's memory an RDMA begins."""

    address: int
    handle: int


class Descriptor(msgspec.Struct, eq=False):
    """A request, and later how it ended (``status``, ``length``, ``immediate``)."""

    address: int  # virtual, where its bytes are
    handle: int
    data: tuple[DataSegment, ...]
    control: Control = Control.VIP_CONTROL_OP_SENDRECV
    remote: AddressSegment | None = None
    immediate: int = 0
    length: int = 0
    status: Status = Status(0)
    places: Descriptors | None = None  # that gave it

    def __repr__(self) -> str:
        asked = sum(one.length for one in self.data)
        return f"<Descriptor of {asked} bytes, {self.control}: {self.status or 'not done'}>"

    @property
    def operation(self) -> int:
        """The lowest bits of ``control``: a send or receive, an RDMA write, an RDMA read."""
        return int(self.control) & CONTROL_OP_MASK

    @property
    def ok(self) -> bool:
        """Whether it is done, without an error."""
        return int(self.status) & (STATUS_ERROR_MASK | _DONE) == _DONE

    @property
    def byte_count(self) -> int:
        """Of its own bytes."""
        count = len(self.data) + (self.remote is not None)
        return CONTROL_SEGMENT.size + DATA_SEGMENT.size * count

    def encode(self) -> bytes:
        """Its bytes as the library stores them, not done.

        Errors: ``VIP_INVALID_PARAMETER`` for what has no room in them.
        """
        data, remote = self.data, self.remote
        count = len(data) + (remote is not None)
        try:
            total = sum([one.length for one in data]) & 0xFFFFFFFF
            raw = CONTROL_SEGMENT.pack(0, 0, count, self.control, 0, self.immediate, total, 0)
            if remote is not None:
                raw += ADDRESS_SEGMENT.pack(remote.address, remote.handle, 0)
            for one in data:
                raw += DATA_SEGMENT.pack(one.address, one.handle, one.length)
        except (struct.error, TypeError, AttributeError):
            raise VipError(
                Return.VIP_INVALID_PARAMETER,
                "a segment is an address of 64 bits, a handle of 32 and a length of 32, control is "
                "of 16 and immediate data of 32; what region.segment() gives is so",
            ) from None
        return raw
