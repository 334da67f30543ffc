"""A process's memory: virtual pages over frames of the host, and what of it is registered.

The second of the two translations, from the host's address to the NIC's, is made by the
interface's tags.  Source: EDT, 6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from nicscope.interfaces.via.descriptor import AddressSegment, DataSegment
from nicscope.interfaces.via.names import Return, VipError

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = 4096  # bytes
FIRST_PAGE = 0x40000  # virtual: no virtual address is an address of the host by chance


class Buffer(msgspec.Struct, frozen=True):
    """A stretch of a process's virtual memory."""

    node: int
    address: int
    length: int


class Region(msgspec.Struct, frozen=True):
    """Registered memory; its ``handle`` names it in segments.

    ``tag`` is its protection tag; only VIs with the same one may use it.
    """

    handle: int
    node: int
    address: int
    length: int
    tag: int
    rdma_write: bool
    rdma_read: bool

    def segment(self, offset: int = 0, length: int | None = None) -> DataSegment:
        """A stretch of it, by default up to its end."""
        size = self.length - offset if length is None else length
        return DataSegment(self.address + offset, self.handle, size)

    def remote(self, offset: int = 0) -> AddressSegment:
        """Where an RDMA from another node may begin."""
        return AddressSegment(self.address + offset, self.handle)


class AddressSpace:
    """Virtual pages of a node's process, each over a frame that it is given when allocated."""

    def __init__(self, node: int, host_bytes: int, *, scattered: bool) -> None:
        """``scattered``: neighbouring pages have frames apart, as after long use."""
        self.node = node
        frames = list(range(host_bytes // PAGE))
        self._free = [*frames[1::2], *frames[::2]] if scattered else frames
        self._free.reverse()
        self._frames: list[int] = []

    def allocate(self, count: int) -> Buffer:
        """Whole pages for ``count`` bytes.  Errors: ``VIP_ERROR_RESOURCE``."""
        pages = max(-(-count // PAGE), 1)
        if pages > len(self._free):
            raise VipError(
                Return.VIP_ERROR_RESOURCE,
                f"node {self.node} has {len(self._free) * PAGE} bytes of memory left, {count} "
                "were asked for; give the cluster more memory_bytes",
            )
        address = (FIRST_PAGE + len(self._frames)) * PAGE
        self._frames += [self._free.pop() for _ in range(pages)]
        return Buffer(self.node, address, count)

    def holds(self, address: int, length: int) -> bool:
        """Whether all of it is allocated."""
        first = FIRST_PAGE * PAGE
        return first <= address and address + length <= first + len(self._frames) * PAGE

    def runs(self, address: int, length: int) -> Iterator[tuple[int, int]]:
        """(host address, bytes) of stretches that are one behind the other in host memory too."""
        begin = size = 0
        while length > 0:
            within = address % PAGE
            part = min(PAGE - within, length)
            place = self._frames[address // PAGE - FIRST_PAGE] * PAGE + within
            if size and begin + size == place:
                size += part
            else:
                if size:
                    yield begin, size
                begin, size = place, part
            address += part
            length -= part
        if size:
            yield begin, size


class Registrations:
    """The NIC's table of a process's registered regions."""

    def __init__(self) -> None:
        self._regions: dict[int, Region] = {}
        self._next = 1

    def add(self, buffer: Buffer, tag: int, rdma_write: bool, rdma_read: bool) -> Region:
        """``buffer`` under a new handle."""
        region = Region(
            self._next, buffer.node, buffer.address, buffer.length, tag, rdma_write, rdma_read
        )
        self._regions[self._next] = region
        self._next += 1
        return region

    def drop(self, handle: int) -> Region | None:
        """The region that the handle named, and names no more."""
        return self._regions.pop(handle, None)

    def tagged(self, tag: int) -> bool:
        """Whether any region has that tag."""
        return any(region.tag == tag for region in self._regions.values())

    def permits(
        self, handle: int, address: int, length: int, tag: int, *, right: str | None = None
    ) -> bool:
        """Whether a VI with ``tag`` may use that stretch; ``right``: for an RDMA from afar."""
        region = self._regions.get(handle)
        if region is None or region.tag != tag:
            return False
        if right is not None and not getattr(region, right):
            return False
        return region.address <= address and address + length <= region.address + region.length
