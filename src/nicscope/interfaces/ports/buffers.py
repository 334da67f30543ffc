"""Buffers of programs on ports: bytes are stored and loaded with the page faults that takes."""

from __future__ import annotations

from nicscope.interfaces.arguments import raw_bytes
from nicscope.interfaces.buffers import Stretch, owner_of, stretch_of


class Buffer(Stretch):
    """A stretch of a process's memory, or of an endpoint's pinned area."""

    __slots__ = ()

    async def write(self, content: bytes, offset: int = 0) -> None:
        """Store ``content`` from byte ``offset`` on; page faults take their time."""
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
