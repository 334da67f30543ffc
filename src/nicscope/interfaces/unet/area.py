"""The buffer area of an endpoint of original U-Net: pinned as long as the endpoint is open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.errors import SimulationError
from nicscope.host.calls import deregister_frame, register_frame
from nicscope.interfaces.arguments import whole
from nicscope.interfaces.buffers import Allocation, allocated
from nicscope.interfaces.ports.memory import FREED, Buffer, Memory, refusal
from nicscope.kernel.decorators import kernel
from nicscope.kernel.entry import bound
from nicscope.memory.paging.frames import pin_page, unpin_frame
from nicscope.memory.paging.layout import GARBAGE_FRAME
from nicscope.nic.ports.lookup import key_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from nicscope.drivers.simulate.machine import Machine
    from nicscope.interfaces.ports.process import Process


@kernel
def _pin_area(machine: Any, n: int, space: int, pages: int) -> int:
    for page in range(pages):
        frame = pin_page(machine.ports.memory, n, space, page, 1)
        if frame < 0:
            for before in range(page):
                key = key_of(machine, n, space, before)
                unpin_frame(machine.ports.memory, n, space, machine.ports.frames[n, key])
                machine.ports.frames[n, key] = GARBAGE_FRAME
            return int(frame)
        machine.ports.frames[n, key_of(machine, n, space, page)] = frame
    for page in range(pages if machine.ports.rules[0].registers else 0):
        register_frame(machine, n, machine.ports.frames[n, key_of(machine, n, space, page)])
    return 0


@kernel
def _unpin_area(machine: Any, n: int, space: int, pages: int) -> int:
    for page in range(pages):
        key = key_of(machine, n, space, page)
        frame = machine.ports.frames[n, key]
        if (
            unpin_frame(machine.ports.memory, n, space, frame) == 0
            and machine.ports.rules[0].registers
        ):
            deregister_frame(machine, n, frame)
        machine.ports.frames[n, key] = GARBAGE_FRAME
    return 0


class Area:
    """Pinned pages whose addresses are offsets; programs build and read messages in it."""

    def __init__(
        self, process: Process, machine: Machine, memory: Memory, node: int, space: int, pages: int
    ) -> None:
        self._process = process
        self._owner = process._owner
        self._machine = machine
        self._memory = memory
        self._node = node
        self._space = space
        self.pages = pages
        self._next = 0
        self._freed: dict[int, list[int]] = {}  # offsets of what was, by its pages
        self._rooms: list[Allocation] = []
        self._is_closed = False
        memory.map(node, space, 0, pages)
        found = bound(_pin_area, machine)(node, space, pages)
        if found < 0:
            memory.unmap(node, space, 0, pages)
            raise refusal("pin", 0, pages * memory.page_size, found)

    @property
    def frames(self) -> list[int]:
        """The physical frames of its pages, in their order."""
        self._check()
        entries = self._memory.state.entries[self._node, self._space, : self.pages]
        return [int(frame) for frame in entries["frame"]]

    def allocate(self, byte_count: int) -> Buffer:
        """A part of the area that nobody has yet, from a page's begin on."""
        self._check()
        page = self._memory.page_size
        count = whole(byte_count, "a number of bytes")
        again = self._freed.get(-(-count // page))
        if again:
            buffer = allocated(Buffer, self._owner, self, again.pop(), count)
            self._rooms.append(buffer.room)
            return buffer
        if count < 1 or self._next + count > self.pages * page:
            raise SimulationError(
                f"no {count} bytes left in a buffer area of {self.pages * page}; give the "
                "cluster a larger area_bytes"
            )
        buffer = allocated(Buffer, self._owner, self, self._next, count)
        self._rooms.append(buffer.room)
        self._next += -(-count // page) * page
        return buffer

    async def _store_at(self, address: int, content: bytes) -> None:
        """Store bytes at an offset."""
        self._check()
        if self._process._windows is not None:
            await self._process._access(address, len(content), content, self._space)
            return
        self._memory.write(self._node, self._space, address, content)

    async def _load_at(self, address: int, count: int) -> bytes:
        """Load bytes from an offset."""
        self._check()
        if self._process._windows is not None:
            return await self._process._access(address, count, space=self._space)
        return self._memory.read(self._node, self._space, address, count)

    def _view_accessors(
        self, room: Allocation, address: int
    ) -> tuple[Callable[[int, int], bytes], Callable[[int, bytes], None]]:
        """How a view of ``room`` loads and stores bytes from an offset on, taking no time."""
        self._check()
        return self._process._view_accessors(room, address, self._space)

    async def _free(self, room: Allocation) -> None:
        """Have that part of the area be nobody's; its pages stay pinned with all others."""
        self._check()
        _, begin, end = self._owner.record_of(room, Allocation)
        self._process._check_unused(begin, end)
        self._owner.take_back(room, FREED)
        self._rooms.remove(room)
        self._freed.setdefault(-(-(end - begin) // self._memory.page_size), []).append(begin)

    def _check(self) -> None:
        """Return if the area is its process's: another's pages may lie at its addresses else."""
        self._owner.check_caller()
        if self._is_closed:
            raise SimulationError(
                f"a buffer area of {self._owner.name} that is closed with its endpoint already; "
                "open another endpoint"
            )

    def _close(self) -> None:
        """The pages may be used for something else, and buffers in them name nothing."""
        self._is_closed = True
        for room in self._rooms:
            self._owner.take_back(room, "of an area that has closed")
        self._rooms.clear()
        bound(_unpin_area, self._machine)(self._node, self._space, self.pages)
        self._memory.unmap(self._node, self._space, 0, self.pages)
