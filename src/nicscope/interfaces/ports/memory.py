"""A process's memory: pages of its own address space, stores and loads, and freeing it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.drivers.simulate.records import ACCESS, COMPUTE, UNPIN
from nicscope.errors import SimulationError
from nicscope.interfaces.arguments import raw_bytes, whole
from nicscope.interfaces.buffers import (
    Allocation,
    MemoryRange,
    checked_range,
    owner_of,
    settle_memory,
)
from nicscope.kernel.decorators import kernel
from nicscope.kernel.entry import bound
from nicscope.memory.coherence.processor import LOAD, STORE
from nicscope.memory.paging.frames import keep_free, pin_page, reclaim
from nicscope.memory.paging.layout import (
    ALREADY_MAPPED,
    DENIED,
    LIMIT,
    NO_FRAME,
    NOT_MAPPED,
    OUTSIDE,
    PRESENT,
    READ,
    UNMAPPED,
    WRITE,
    HostMemory,
)
from nicscope.memory.paging.spaces import (
    bring_page,
    close_space,
    fork_space,
    map_pages,
    may_access,
    move_bytes,
    protect_pages,
    unmap_pages,
)
from nicscope.nic.ports.layout import INLINE, SEND

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from nicscope.drivers.simulate.machine import Machine
    from nicscope.drivers.simulate.ports.state import Ports
    from nicscope.drivers.simulate.process import Process as SimProcess
    from nicscope.interfaces.ownership import Owner


FREED = "freed"


class Buffer(MemoryRange):
    """A range of a process's memory, or of an endpoint's pinned area."""

    __slots__ = ()

    async def read(self, count: int | None = None, offset: int = 0) -> bytes:
        """Load ``count`` bytes, by default all, from ``offset`` on; page faults take their time."""
        owner, memory = owner_of(self)
        address, size = checked_range(owner, memory, self, offset, count)
        content: bytes = await memory._load_at(address, size)
        return content


class ProcessMemory:
    """A process's own address space: stores and loads there, and giving memory back."""

    _owner: Owner
    _memory: Memory
    _sim_process: SimProcess
    _machine: Machine
    _ports: Ports
    _node: int
    _number: int
    _port: int
    _mapped: dict[int, int]
    _next_page: int
    _freed: dict[int, list[int]]  # first pages of what was, by how many pages it has
    _windows: NDArray[np.uint8] | None  # what processes hold in registers, where there are caches

    async def store(self, address: int, content: bytes) -> None:
        """Store bytes at an address of this process; page faults take their time."""
        await self._store_at(whole(address, "an address"), raw_bytes(content))

    async def load(self, address: int, count: int) -> bytes:
        """Load bytes from an address of this process; page faults take their time."""
        return await self._load_at(whole(address, "an address"), whole(count, "a number of bytes"))

    async def _store_at(self, address: int, content: bytes) -> None:
        """``store``, for buffers: numbers are as they should be."""
        self._owner.check_caller()
        if self._windows is not None:
            await self._access(address, len(content), content)
            return
        before = self._memory.faults(self._node, self._number)
        self._memory.write(self._node, self._number, address, content)
        await self._charge_faults(before)

    async def _load_at(self, address: int, count: int) -> bytes:
        """``load``, likewise."""
        self._owner.check_caller()
        if self._windows is not None:
            return await self._access(address, count)
        before = self._memory.faults(self._node, self._number)
        content = self._memory.read(self._node, self._number, address, count)
        await self._charge_faults(before)
        return content

    async def _access(
        self, address: int, count: int, content: bytes | None = None, space: int | None = None
    ) -> bytes:
        """Store ``content``, or load, through the caches: page by page, in the CPU's time.

        ``space``: whose address it is, of those that the process reaches; its own by default.
        """
        node, size = self._node, self._memory.page_size
        space = self._number if space is None else space
        write = content is not None
        self._memory.check(node, space, address, count, write=write)
        assert self._windows is not None
        window, loaded = self._windows[self._sim_process.number], bytearray()
        done = 0
        while done < count:
            at = address + done
            piece = min(count - done, size - at % size)
            before = self._memory.faults(node, space)
            self._memory.bring(node, space, at, write=write)
            await self._charge_faults(before)
            if content is not None:
                window[:piece] = np.frombuffer(content[done : done + piece], np.uint8)
            kind = STORE if write else LOAD
            ended = await self._sim_process.ask(ACCESS, 0, piece, kind, at, own=space + 1)
            if ended.own < 0:
                continue  # the page had to go while others had the CPU
            loaded += b"" if write else window[:piece].tobytes()
            done += piece
        return bytes(loaded)

    def _view_accessors(
        self, room: Allocation, address: int, space: int | None = None
    ) -> tuple[Callable[[int, int], bytes], Callable[[int, bytes], None]]:
        """The load and store functions of an array view of ``room``, which take no time."""
        number = self._number if space is None else space

        self._check_view(room)

        def load(at: int, count: int) -> bytes:
            self._check_view(room)
            self._settle(number, address + at, count)
            return self._memory.read(self._node, number, address + at, count)

        def store(at: int, content: bytes) -> None:
            self._check_view(room)
            self._settle(number, address + at, len(content), write=True)
            self._memory.write(self._node, number, address + at, content)

        return load, store

    def _check_view(self, room: Allocation) -> None:
        self._owner.check_caller()
        self._owner.record_of(room, Allocation)

    def _settle(self, space: int, address: int, count: int, *, write: bool = False) -> None:
        """Writes back what the host's caches have modified there; ``write``: drops it as well."""
        if self._windows is None:
            return
        size = self._memory.page_size
        for page in range(address // size, (address + count - 1) // size + 1):
            self._memory.bring(self._node, space, page * size, write=write)
            frame = int(self._memory.state.entries[self._node, space, page]["frame"])
            settle_memory(self._machine, self._node, frame * size, size, forget=write)

    async def _charge_faults(self, before: tuple[int, int, int]) -> None:
        after = self._memory.faults(self._node, self._number)
        if after == before:
            return
        costs = self._ports.costs[self._node]
        each = (int(costs["zero"]), int(costs["pin_shared"]), int(costs["page_in"]))
        spent = sum(
            (now - then) * cost for now, then, cost in zip(after, before, each, strict=True)
        )
        if spent:
            await self._sim_process.ask(COMPUTE, duration=spent)

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

    async def _free(self, room: Allocation) -> None:
        """Give all of ``room`` back: one system call."""
        self._owner.check_caller()
        _, begin, end = self._owner.record_of(room, Allocation)
        self._check_unused(begin, end)
        await self._sim_process.ask(UNPIN, peer=self._port, address=begin, payload=end - begin)
        self._check_unused(begin, end)
        self._owner.take_back(room, FREED)
        size = self._memory.page_size
        first, pages = begin // size, -(-(end - begin) // size)
        for page in range(first, first + pages):
            entry = self._entry(page)
            frame = self._memory.state.frames[self._node, int(entry["frame"])]
            if entry["state"] != PRESENT or frame["pins"] == 0:
                self._memory.unmap(self._node, self._number, page, 1)
        self._freed.setdefault(pages, []).append(first)

    def _check_unused(self, begin: int, end: int) -> None:
        """Errors: ``SimulationError`` if something names memory from ``begin`` to ``end``."""
        for address, length, what in [*self._posted_pieces(), *self._held()]:
            if address < end and begin < address + length:
                raise SimulationError(f"a buffer is not freed while {what}")

    def _held(self) -> list[tuple[int, int, str]]:
        """Memory that an interface has in use: address, length and what holds it."""
        return []

    def _posted_pieces(self) -> list[tuple[int, int, str]]:
        """Memory of descriptors that have not ended: address, length and what holds it."""
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
def _move(window: Any, host: int, space: int, address: int, count: int, write: int) -> Any:

    return move_bytes(window.memory, host, space, address, window.bytes, count, write)


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
        crossing = np.zeros(AT_ONCE, np.uint8)
        self._bytes = crossing.data
        window = _Window(memory, crossing)
        self._move = bound(_move, window)
        self.window = window

    def write(self, host: int, space: int, address: int, content: bytes) -> None:
        """Store ``content``, with whatever faults that takes.  Errors: ``SimulationError``."""
        for begin in range(0, len(content), AT_ONCE):
            piece = content[begin : begin + AT_ONCE]
            self._bytes[: len(piece)] = piece
            found = self._move(host, space, address + begin, len(piece), 1)
            if found < 0:
                raise refusal("write", address + begin, len(piece), found)

    def read(self, host: int, space: int, address: int, count: int) -> bytes:
        """``count`` bytes, with whatever faults that takes.  Errors: ``SimulationError``."""
        pieces = []
        for begin in range(0, count, AT_ONCE):
            size = min(AT_ONCE, count - begin)
            found = self._move(host, space, address + begin, size, 0)
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
        """Unmaps pages; those a NIC maps stay alive until it releases them."""
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
        """Has the swapper evict one frame; returns whether there was one to evict."""
        return bool(bound(_reclaim, self.window)(host))

    def keep_free(self, host: int, frames: int) -> int:
        """Has the swapper keep ``frames`` frames free; returns how many it could not."""
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
