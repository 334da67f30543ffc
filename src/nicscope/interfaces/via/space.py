"""A process's memory: what it has been given, and what of it is registered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.errors import SimulationError
from nicscope.interfaces.buffers import allocated
from nicscope.interfaces.ports.buffers import Buffer
from nicscope.interfaces.via.names import Return, VipError

if TYPE_CHECKING:
    from nicscope.interfaces.ownership import Owner
    from nicscope.interfaces.via.process import Process


class Space:
    """Of one process."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._page = process._memory.page_size
        self._pinned: dict[int, int] = {}  # how often each page is registered
        self._given_back: dict[int, list[int]] = {}  # addresses, by pages

    def allocate(self, owner: Owner, count: int) -> Buffer:
        """Whole pages of fresh memory.  Errors: ``VIP_ERROR_RESOURCE``."""
        pages = max(-(-count // self._page), 1)
        again = self._given_back.get(pages)
        if again:
            address = again.pop()
        else:
            try:
                address = self._process.allocate(max(count, 1)).address
            except SimulationError as error:
                raise VipError(Return.VIP_ERROR_RESOURCE, str(error)) from None
        return allocated(Buffer, owner, self._process, address, count)

    def give_back(self, owner: Owner, buffer: Buffer) -> None:
        """All of what was allocated as ``buffer``, which nothing uses, may be allocated again."""
        owner.take_back(buffer.room, "given back")
        pages = max(-(-buffer.length // self._page), 1)
        self._given_back.setdefault(pages, []).append(buffer.address)

    def note_pins(self, address: int, length: int, change: int) -> None:
        """The pages of that stretch are registered once more, or once less often."""
        size = self._page
        for page in range(address // size, (address + length - 1) // size + 1):
            left = self._pinned.get(page, 0) + change
            if left:
                self._pinned[page] = left
            else:
                del self._pinned[page]

    def unregistered(self, address: int, length: int) -> int:
        """How many pages of that stretch are not registered."""
        size = self._page
        pages = range(address // size, (address + length - 1) // size + 1)
        return sum(page not in self._pinned for page in pages)

    def holds(self, address: int, count: int) -> bool:
        """Whether all of that is memory which it has been given."""
        return 0 <= address <= self._process._next_page * self._page - count

    def is_pinned(self, address: int, count: int) -> bool:
        """Whether that lies in one page, which is registered: an access cannot fault."""
        if type(address) is not int or type(count) is not int or count < 0:
            return False
        size = self._page
        return address % size + count <= size and address // size in self._pinned
