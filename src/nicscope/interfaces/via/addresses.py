"""Processes' memory as their CPU sees it: virtual pages of one node over frames of its host.

What of it is registered, the NIC knows (``nic.vimsg.regions``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nicscope.interfaces.arguments import LEAST
from nicscope.interfaces.buffers import Stretch, allocated, owner_of
from nicscope.interfaces.ownership import Owned
from nicscope.interfaces.via.descriptor import AddressSegment, DataSegment
from nicscope.interfaces.via.names import Return, VipError
from nicscope.interfaces.via.numbers import whole
from nicscope.nic.vimsg.layout import FIRST_PAGE, PAGE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.interfaces.ownership import Owner


class Buffer(Stretch):
    """A stretch of a process's virtual memory."""

    __slots__ = ()

    @property
    def node(self) -> int:
        """Whose host it is in."""
        _, space = owner_of(self)
        number: int = space.node
        return number


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


class AddressSpace:
    """Virtual pages of a node's processes, each over a frame that it is given when allocated.

    A page is one process's for good: what a process gives back, it is given again itself.
    """

    def __init__(self, node: int, host_bytes: int, *, scattered: bool) -> None:
        """``scattered``: neighbouring pages have frames apart, as after long use."""
        self.node = node
        frames = list(range(host_bytes // PAGE))
        self._free = [*frames[1::2], *frames[::2]] if scattered else frames
        self._free.reverse()
        self._frames: list[int] = []
        self._owners: list[Owner] = []  # of each page
        self._given_back: dict[tuple[Owner, int], list[int]] = {}  # addresses, by pages

    def allocate(self, owner: Owner, count: int) -> Buffer:
        """Whole pages for ``count`` bytes.  Errors: ``VIP_ERROR_RESOURCE``."""
        pages = max(-(-count // PAGE), 1)
        again = self._given_back.get((owner, pages))
        if again:
            return allocated(Buffer, owner, self, again.pop(), count)
        if pages > len(self._free):
            raise VipError(
                Return.VIP_ERROR_RESOURCE,
                f"node {self.node} has {len(self._free) * PAGE} bytes of memory left, {count} "
                "were asked for; give the cluster more memory_bytes",
            )
        address = (FIRST_PAGE + len(self._frames)) * PAGE
        self._frames += [self._free.pop() for _ in range(pages)]
        self._owners += [owner] * pages
        return allocated(Buffer, owner, self, address, count)

    def give_back(self, owner: Owner, buffer: Buffer) -> None:
        """All of what was allocated as ``buffer``, which nothing uses, may be allocated again."""
        owner.take_back(buffer.room, "given back")
        pages = max(-(-buffer.length // PAGE), 1)
        self._given_back.setdefault((owner, pages), []).append(buffer.address)

    @property
    def pages(self) -> int:
        """The most that may be allocated."""
        return len(self._free) + len(self._frames)

    def frames(self, address: int, length: int) -> NDArray[np.int64]:
        """Of each page that the stretch touches, in order."""
        first = address // PAGE - FIRST_PAGE
        last = (address + max(length, 1) - 1) // PAGE - FIRST_PAGE
        return np.array(self._frames[first : last + 1], np.int64)

    def holds(self, owner: Owner, address: int, length: int) -> bool:
        """Whether all of it is allocated, and ``owner``'s."""
        first, end = FIRST_PAGE * PAGE, (FIRST_PAGE + len(self._frames)) * PAGE
        if not first <= address <= end - length:
            return False
        begin = address // PAGE - FIRST_PAGE
        pages = self._owners[begin : (address + length + PAGE - 1) // PAGE - FIRST_PAGE]
        return all(each is owner for each in pages)

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
