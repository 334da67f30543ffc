"""A process's own stores and loads: at once, or through its host's caches, and with page faults."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nicscope.drivers.simulate.machine import ACCESS, COMPUTE
from nicscope.interfaces.arguments import raw_bytes, whole
from nicscope.interfaces.buffers import Room
from nicscope.interfaces.payloads import settle_memory
from nicscope.memory.coherence.access import LOAD, STORE

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from nicscope.drivers.simulate.driven import Process as Driven
    from nicscope.drivers.simulate.machine import Machine
    from nicscope.drivers.simulate.ports.state import Ports
    from nicscope.interfaces.ownership import Owner
    from nicscope.interfaces.ports.memory import Memory


class OwnMemory:
    """What a process does with its address space by itself."""

    _owner: Owner
    _memory: Memory
    _driven: Driven
    _machine: Machine
    _ports: Ports
    _node: int
    _number: int
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
        await self._spend_faults(before)

    async def _load_at(self, address: int, count: int) -> bytes:
        """``load``, likewise."""
        self._owner.check_caller()
        if self._windows is not None:
            return await self._access(address, count)
        before = self._memory.faults(self._node, self._number)
        content = self._memory.read(self._node, self._number, address, count)
        await self._spend_faults(before)
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
        window, loaded = self._windows[self._driven.number], bytearray()
        done = 0
        while done < count:
            at = address + done
            piece = min(count - done, size - at % size)
            before = self._memory.faults(node, space)
            self._memory.bring(node, space, at, write=write)
            await self._spend_faults(before)
            if content is not None:
                window[:piece] = np.frombuffer(content[done : done + piece], np.uint8)
            kind = STORE if write else LOAD
            ended = await self._driven.ask(ACCESS, 0, piece, kind, at, own=space + 1)
            if ended.own < 0:
                continue  # the page had to go while others had the CPU
            loaded += b"" if write else window[:piece].tobytes()
            done += piece
        return bytes(loaded)

    def _seen(
        self, room: Room, address: int, space: int | None = None
    ) -> tuple[Callable[[int, int], bytes], Callable[[int, bytes], None]]:
        """How a view of ``room`` loads and stores bytes from ``address`` on, taking no time."""
        number = self._number if space is None else space

        self._check_seen(room)

        def load(at: int, count: int) -> bytes:
            self._check_seen(room)
            self._settle(number, address + at, count)
            return self._memory.read(self._node, number, address + at, count)

        def store(at: int, content: bytes) -> None:
            self._check_seen(room)
            self._settle(number, address + at, len(content), write=True)
            self._memory.write(self._node, number, address + at, content)

        return load, store

    def _check_seen(self, room: Room) -> None:
        self._owner.check_caller()
        self._owner.record_of(room, Room)

    def _settle(self, space: int, address: int, count: int, *, write: bool = False) -> None:
        """Have what the host's caches have modified in its memory, which is to be overwritten."""
        if self._windows is None:
            return
        size = self._memory.page_size
        for page in range(address // size, (address + count - 1) // size + 1):
            self._memory.bring(self._node, space, page * size, write=write)
            frame = int(self._memory.state.entries[self._node, space, page]["frame"])
            settle_memory(self._machine, self._node, frame * size, size, forget=write)

    async def _spend_faults(self, before: tuple[int, int, int]) -> None:
        after = self._memory.faults(self._node, self._number)
        if after == before:
            return
        costs = self._ports.costs[self._node]
        each = (int(costs["zero"]), int(costs["pin_shared"]), int(costs["page_in"]))
        spent = sum(
            (now - then) * cost for now, then, cost in zip(after, before, each, strict=True)
        )
        if spent:
            await self._driven.ask(COMPUTE, duration=spent)
