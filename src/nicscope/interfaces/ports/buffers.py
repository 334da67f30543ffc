"""Buffers of programs on ports: bytes are stored and loaded with the page faults that takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.interfaces.arguments import raw_bytes
from nicscope.interfaces.buffers import Stretch, owner_of, stretch_of, whole_room
from nicscope.interfaces.views import View

if TYPE_CHECKING:
    from numpy.typing import DTypeLike


class Buffer(Stretch):
    """A stretch of a process's memory, or of an endpoint's pinned area."""

    __slots__ = ()

    async def write(self, content: Any, offset: int = 0) -> None:
        """Store ``content`` from byte ``offset`` on; page faults take their time.

        Anything that has bytes, as arrays have, is taken, and ``offset`` counts bytes.
        """
        raw = raw_bytes(content)
        owner, memory = owner_of(self)
        address, _ = stretch_of(owner, memory, self, offset, len(raw))
        await memory._store_at(address, raw)

    async def read(self, count: int | None = None, offset: int = 0) -> bytes:
        """Load ``count`` bytes, by default all, from ``offset`` on; page faults take their time."""
        owner, memory = owner_of(self)
        address, size = stretch_of(owner, memory, self, offset, count)
        content: bytes = await memory._load_at(address, size)
        return content

    def array(self, dtype: DTypeLike = "uint8") -> View:
        """The same memory as an array: it shows what is there whenever it is read.

        What is stored through it is there at once; neither takes time (``interfaces.views``).
        """
        owner, memory = owner_of(self)
        address, size = stretch_of(owner, memory, self)
        return View(size, dtype, *memory._seen(self.room, address))

    async def free(self) -> None:
        """Give the memory back, all that was allocated at once: nothing may name it any more.

        Errors: ``SimulationError`` while a descriptor, or somebody else, still does.
        """
        owner, memory = owner_of(self)
        await memory._free(whole_room(owner, self))
