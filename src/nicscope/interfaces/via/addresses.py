"""Registered memory, as programs hold it; what the NIC knows of it is in ``nic.ports.regions``."""

from __future__ import annotations

from dataclasses import dataclass

from nicscope.interfaces.arguments import LEAST
from nicscope.interfaces.ownership import Owned
from nicscope.interfaces.via.descriptor import AddressSegment, DataSegment
from nicscope.interfaces.via.numbers import whole


@dataclass(frozen=True, eq=False)
class Region(Owned):
    """Registered memory; its ``handle`` names it in segments.

    ``tag`` is its protection tag; only VIs with the same one may use it.
    """

    what = "a registered region"
    origin = "register_mem()"

    handle: int
    node: int
    address: int
    length: int
    tag: int
    rdma_write: bool
    rdma_read: bool

    def segment(self, offset: int = 0, length: int | None = None) -> DataSegment:
        """A stretch of it, by default up to its end."""
        begin = offset if type(offset) is int else whole(offset, "an offset", LEAST)
        if length is None:
            size = self.length - begin
        else:
            size = length if type(length) is int else whole(length, "a length", LEAST)
        return DataSegment(self.address + begin, self.handle, size, self)

    def remote(self, offset: int = 0) -> AddressSegment:
        """Where an RDMA from another node may begin."""
        return AddressSegment(self.address + whole(offset, "an offset", LEAST), self.handle)
