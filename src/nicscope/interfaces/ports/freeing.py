"""Memory that a process gives back: unpinned and unmapped, and its addresses given out again.

Pages that nothing pins go back to the host.  What stays pinned, as the scheme keeps it on the NIC
or in its tables, stays mapped too, and is zeroed when its addresses are given out again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.drivers.simulate.machine import UNPIN
from nicscope.errors import SimulationError
from nicscope.interfaces.buffers import Room
from nicscope.memory.paging.layout import PRESENT, UNMAPPED
from nicscope.nic.ports.layout import INLINE, SEND

if TYPE_CHECKING:
    from nicscope.drivers.simulate.driven import Process as Driven
    from nicscope.drivers.simulate.ports.state import Ports
    from nicscope.interfaces.ownership import Owner
    from nicscope.interfaces.ports.memory import Memory

FREED = "freed"


class Freeing:
    """What a process does with memory that it does not need any more."""

    _owner: Owner
    _memory: Memory
    _driven: Driven
    _ports: Ports
    _node: int
    _number: int
    _port: int
    _mapped: dict[int, int]
    _next_page: int
    _freed: dict[int, list[int]]  # first pages of what was, by how many pages it has

    def _take_pages(self, pages: int) -> int:
        """The first of ``pages`` pages, mapped and all zeros.  Errors: if there are none."""
        again = self._freed.get(pages)
        if not again:
            self._memory.map(self._node, self._number, self._next_page, pages)
            self._next_page += pages
            return self._next_page - pages
        first, size = again.pop(), self._memory.page_size
        for page in range(first, first + pages):
            if self._entry(page)["state"] == UNMAPPED:
                self._memory.map(self._node, self._number, page, 1)
            else:
                self._memory.write(self._node, self._number, page * size, bytes(size))
        return first

    async def _free(self, room: Room) -> None:
        """Give all of ``room`` back: one system call."""
        self._owner.check_caller()
        _, begin, end = self._owner.record_of(room, Room)
        self._check_unused(begin, end)
        await self._driven.ask(UNPIN, peer=self._port, address=begin, payload=end - begin)
        self._check_unused(begin, end)
        self._owner.take_back(room, FREED)
        size = self._memory.page_size
        first, pages = begin // size, -(-(end - begin) // size)
        for page in range(first, first + pages):
            if not self._is_pinned(page):
                self._memory.unmap(self._node, self._number, page, 1)
        self._freed.setdefault(pages, []).append(first)

    def _check_unused(self, begin: int, end: int) -> None:
        """Errors: ``SimulationError`` if something names memory from ``begin`` to ``end``."""
        for address, length, what in [*self._posted_pieces(), *self._held()]:
            if address < end and begin < address + length:
                raise SimulationError(f"a buffer is not freed while {what}")

    def _held(self) -> list[tuple[int, int, str]]:
        """Address, length and what holds it, of memory that an interface has in use."""
        return []

    def _posted_pieces(self) -> list[tuple[int, int, str]]:
        """Likewise of descriptors that have not ended."""
        found: list[tuple[int, int, str]] = []
        what = "a descriptor that names it has not ended; wait for its end first"
        for port in self._mapped:
            pending: Any = self._ports.pending[self._node, port]
            ring = len(pending)
            for number in pending["number"][pending["busy"] == 1].tolist():
                request = self._ports.requests[self._node, port, number % ring]
                if request["operation"] == SEND and request["options"] & INLINE:
                    continue
                many = int(request["segments"])
                pieces = self._ports.segments[self._node, port, number % ring, :many]
                found.extend((int(one["address"]), int(one["length"]), what) for one in pieces)
        return found

    def _entry(self, page: int) -> Any:
        return self._memory.state.entries[self._node, self._number, page]

    def _is_pinned(self, page: int) -> bool:
        entry = self._entry(page)
        if entry["state"] != PRESENT:
            return False
        return bool(self._memory.state.frames[self._node, int(entry["frame"])]["pins"] > 0)
