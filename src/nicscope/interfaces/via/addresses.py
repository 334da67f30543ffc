"""A process's memory as its CPU sees it: virtual pages over frames of the host.

What of it is registered, the NIC knows (``nic.vimsg.regions``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from nicscope.interfaces.via.descriptor import AddressSegment, DataSegment
from nicscope.interfaces.via.names import Return, VipError
from nicscope.nic.vimsg.layout import FIRST_PAGE, PAGE

if TYPE_CHECKING:
    from numpy.typing import NDArray


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

    @property
    def pages(self) -> int:
        """The most that may be allocated."""
        return len(self._free) + len(self._frames)

    def frames(self, address: int, length: int) -> NDArray[np.int64]:
        """Of each page that the stretch touches, in order."""
        first = address // PAGE - FIRST_PAGE
        last = (address + max(length, 1) - 1) // PAGE - FIRST_PAGE
        return np.array(self._frames[first : last + 1], np.int64)

    def holds(self, address: int, length: int) -> bool:
        """Whether all of it is allocated."""
        first = FIRST_PAGE * PAGE
        return first <= address and address + length <= first + len(self._frames) * PAGE

    def runs(self, address: int, length: int) -> list[tuple[int, int]]:
        """(host address, bytes) of stretches that are one behind the other in host memory too."""
        within = address % PAGE
        if 0 < length <= PAGE - within:  # nearly always
            return [(self._frames[address // PAGE - FIRST_PAGE] * PAGE + within, length)]
        found: list[tuple[int, int]] = []
        while length > 0:
            within = address % PAGE
            part = min(PAGE - within, length)
            place = self._frames[address // PAGE - FIRST_PAGE] * PAGE + within
            if found and sum(found[-1]) == place:
                found[-1] = found[-1][0], found[-1][1] + part
            else:
                found.append((place, part))
            address += part
            length -= part
        return found
