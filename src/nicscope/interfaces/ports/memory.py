"""A process's memory: pages of an address space that it shares with nobody, unless it forked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.errors import SimulationError
from nicscope.kernel.decorators import kernel
from nicscope.kernel.entering import bound
from nicscope.memory.paging.access import bring_page, may_access, read_bytes, write_bytes
from nicscope.memory.paging.layout import (
    ALREADY_MAPPED,
    DENIED,
    LIMIT,
    NO_FRAME,
    NOT_MAPPED,
    OUTSIDE,
    READ,
    WRITE,
    HostMemory,
)
from nicscope.memory.paging.pins import pin_page
from nicscope.memory.paging.spaces import (
    close_space,
    fork_space,
    map_pages,
    protect_pages,
    unmap_pages,
)
from nicscope.memory.paging.swapper import keep_free, reclaim

if TYPE_CHECKING:
    from numpy.typing import NDArray

AT_ONCE = 1 << 16  # bytes

_WHY = {
    DENIED: "the process may not do that to these pages",
    NOT_MAPPED: "no memory is mapped there; allocate it first",
    NO_FRAME: "the host has no frame left, and none can be swapped out; give it more frames",
    LIMIT: "that is more than may be pinned",
    ALREADY_MAPPED: "memory is mapped there already",
    OUTSIDE: "the address space ends before; give the cluster more pages_per_space",
}


class _Window(NamedTuple):
    """The hosts' memory, and bytes on their way to or from a program."""

    memory: HostMemory
    bytes: NDArray[np.uint8]


@kernel
def _write(window: Any, host: int, space: int, address: int, count: int) -> Any:

    return write_bytes(window.memory, host, space, address, window.bytes, count)


@kernel
def _read(window: Any, host: int, space: int, address: int, count: int) -> Any:

    return read_bytes(window.memory, host, space, address, window.bytes, count)


@kernel
def _may_access(window: Any, host: int, space: int, address: int, count: int, write: int) -> Any:
    return may_access(window.memory, host, space, address, count, write)


@kernel
def _bring(window: Any, host: int, space: int, page: int, write: int) -> Any:
    return bring_page(window.memory, host, space, page, write)


@kernel
def _map(window: Any, host: int, space: int, first: int, count: int, rights: int) -> Any:
    return map_pages(window.memory, host, space, first, count, rights)


@kernel
def _unmap(window: Any, host: int, space: int, first: int, count: int) -> Any:
    return unmap_pages(window.memory, host, space, first, count)


@kernel
def _protect(window: Any, host: int, space: int, first: int, count: int, rights: int) -> Any:
    return protect_pages(window.memory, host, space, first, count, rights)


@kernel
def _fork(window: Any, host: int, parent: int, child: int) -> Any:
    return fork_space(window.memory, host, parent, child)


@kernel
def _close(window: Any, host: int, space: int) -> Any:
    return close_space(window.memory, host, space)


@kernel
def _reclaim(window: Any, host: int) -> Any:
    return reclaim(window.memory, host)


@kernel
def _keep_free(window: Any, host: int, frames: int) -> Any:
    return keep_free(window.memory, host, frames)


@kernel
def _pin(window: Any, host: int, space: int, page: int, write: int) -> Any:
    return pin_page(window.memory, host, space, page, write)


class Memory:
    """The memories of a cluster's hosts, as programs and the operating system reach them."""

    def __init__(self, memory: HostMemory) -> None:
        self.state = memory
        self.page_size = int(memory.config[0]["page_size"])
        self._bytes = np.zeros(AT_ONCE, np.uint8)
        window = _Window(memory, self._bytes)
        self._write = bound(_write, window)
        self._read = bound(_read, window)
        self.window = window

    def write(self, host: int, space: int, address: int, content: bytes) -> None:
        """Store ``content``, with whatever faults that takes.  Errors: ``SimulationError``."""
        for begin in range(0, len(content), AT_ONCE):
            piece = content[begin : begin + AT_ONCE]
            self._bytes[: len(piece)] = np.frombuffer(piece, np.uint8)
            found = self._write(host, space, address + begin, len(piece))
            if found < 0:
                raise refusal("write", address + begin, len(piece), found)

    def read(self, host: int, space: int, address: int, count: int) -> bytes:
        """``count`` bytes, with whatever faults that takes.  Errors: ``SimulationError``."""
        pieces = []
        for begin in range(0, count, AT_ONCE):
            size = min(AT_ONCE, count - begin)
            found = self._read(host, space, address + begin, size)
            if found < 0:
                raise refusal("read", address + begin, size, found)
            pieces.append(self._bytes[:size].tobytes())
        return b"".join(pieces)

    def check(self, host: int, space: int, address: int, count: int, *, write: bool) -> None:
        """Return if the space has the right to all of the range.  Errors: ``SimulationError``."""
        found = bound(_may_access, self.window)(host, space, address, count, int(write))
        if found < 0:
            raise refusal("write" if write else "read", address, count, found)

    def bring(self, host: int, space: int, address: int, *, write: bool) -> None:
        """Have the page of ``address`` in memory, with whatever faults that takes.

        Errors: ``SimulationError``.
        """
        page = address // self.page_size
        found = bound(_bring, self.window)(host, space, page, int(write))
        if found < 0:
            raise refusal("write" if write else "read", address, 1, found)

    def map(
        self, host: int, space: int, first: int, count: int, rights: int = READ | WRITE
    ) -> None:
        """Map pages, all zeros until they are written.  Errors: ``SimulationError``."""
        self._checked(
            "map", first, count, bound(_map, self.window)(host, space, first, count, rights)
        )

    def unmap(self, host: int, space: int, first: int, count: int) -> None:
        """Unmap pages; what a NIC maps stays alive until it lets go."""
        self._checked("unmap", first, count, bound(_unmap, self.window)(host, space, first, count))

    def protect(self, host: int, space: int, first: int, count: int, rights: int) -> None:
        """Change the rights of pages."""
        found = bound(_protect, self.window)(host, space, first, count, rights)
        self._checked("protect", first, count, found)

    def fork(self, host: int, parent: int, child: int) -> None:
        """Give ``child`` the pages of ``parent``, copied when one of them writes."""
        self._checked("fork", 0, 0, bound(_fork, self.window)(host, parent, child))

    def close(self, host: int, space: int) -> None:
        """The end of an address space."""
        bound(_close, self.window)(host, space)

    def swap_out(self, host: int) -> bool:
        """Have the swapper take one frame; whether there was one to take."""
        return bool(bound(_reclaim, self.window)(host))

    def keep_free(self, host: int, frames: int) -> int:
        """Have the swapper keep ``frames`` frames free; how many it could not."""
        return int(bound(_keep_free, self.window)(host, frames))

    def pin(self, host: int, space: int, page: int) -> int:
        """Pin a page for good; its frame."""
        frame = int(bound(_pin, self.window)(host, space, page, 1))
        self._checked("pin", page, 1, frame)
        return frame

    def faults(self, host: int, space: int) -> tuple[int, int, int]:
        """Faults of the space so far: zeroed, copied, from disk."""
        record = self.state.spaces[host, space]
        return int(record["zero_faults"]), int(record["copy_faults"]), int(record["disk_faults"])

    def _checked(self, what: str, first: int, count: int, found: int) -> None:
        if found < 0:
            raise refusal(what, first * self.page_size, count * self.page_size, found)


def refusal(what: str, address: int, count: int, code: int) -> SimulationError:
    """The error for what ``memory.paging`` refused with ``code``."""
    return SimulationError(f"cannot {what} {count} bytes at address {address:#x}: {_WHY[code]}")
