"""Collectives over U-Net: Active Messages carry notes, and pieces of arrays that a handler copies.

U-Net writes to no peer's memory: what comes lies in a receive buffer of the layer, and the
processor copies it to the array, at the price that the platform has for that.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from nicscope.apps.collectives.mailbox import Key, Note, Placed
from nicscope.errors import SimulationError
from nicscope.interfaces.unet.active_messages import (
    FIRST_FREE,
    HEADER,
    PAGE,
    SLOT,
    ActiveMessages,
)

if TYPE_CHECKING:
    from nicscope.interfaces.unet import Process

NOTE, PIECE = FIRST_FREE, FIRST_FREE + 1  # handlers
KEY_BITS = 32  # of the second argument, above the end of what is put
BUFFERS_EACH = 8  # of a peer


class UNetWire:
    """One process with Active Messages."""

    short = SLOT - HEADER.size
    is_one_sided = False

    def __init__(self, process: Process, ranks: int) -> None:
        self._process = process
        self.rank, self.ranks = process.node, ranks
        self._events: deque[Note | Placed] = deque()
        self._offered: list[Any] = []
        self._keys: dict[tuple[int, int], Key] = {}
        self._has_put = False
        self._layer = ActiveMessages(process, ranks, max(64, BUFFERS_EACH * ranks))
        self._layer.on(NOTE, self._hear)
        self._layer.on(PIECE, self._place)

    @property
    def now_us(self) -> float:
        """The process's clock."""
        return self._process.now_us

    async def open(self) -> None:
        """Open the layer, which connects all."""
        await self._layer.open()
        self._page = self._layer.endpoint.allocate(PAGE)

    async def close(self) -> None:
        """Serve peers until no one sends any more."""
        await self._layer.linger()

    def allocate(self, byte_count: int) -> Any:
        """Memory of the process; of its pinned area where original U-Net is."""
        return self._layer.endpoint.allocate(max(1, byte_count))

    async def load(self, buffer: Any) -> bytes:
        """The program's loads."""
        content: bytes = await buffer.read()
        return content

    async def store(self, buffer: Any, content: bytes) -> None:
        """The program's stores."""
        await buffer.write(content)

    async def compute(self, microseconds: float) -> None:
        """Keep the processor busy."""
        await self._process.compute(microseconds)

    async def rest(self, microseconds: float) -> None:
        """Leave the processor to others."""
        await self._process.sleep(microseconds)

    async def note(self, rank: int, content: bytes) -> None:
        """Send a small Active Message."""
        await self._layer.request(rank, NOTE, content=content)

    async def event(self) -> Note | Placed:
        """What comes next."""
        await self._layer.wait_until(lambda: bool(self._events))
        return self._events.popleft()

    async def _hear(self, rank: int, first: int, second: int, content: bytes) -> None:
        del first, second
        self._events.append(Note(rank, content))

    async def _place(self, rank: int, first: int, second: int, content: bytes) -> None:
        """Copy a piece to its place; the last one completes the ``put``."""
        key, end = second >> KEY_BITS, second & ((1 << KEY_BITS) - 1)
        came = self._page.part(0, len(content))
        await came.write(content)  # where the layer has it: no time of its own
        await self._process.copy(came, self._offered[key].part(first, len(content)))
        if first + len(content) == end:  # its sender waits to hear of that
            await self._layer.acknowledge(rank)
            self._events.append(Placed(rank))

    async def offer(self, buffer: Any) -> Key:
        """Assign a number to the buffer; nothing is pinned for that."""
        place = (buffer.address, len(buffer))
        if place not in self._keys:
            self._keys[place] = Key(len(self._offered))
            self._offered.append(buffer)
        return self._keys[place]

    async def put(self, rank: int, key: Key, offset: int, buffer: Any) -> None:
        """Store the buffer remotely in pieces, in place."""
        end = offset + len(buffer)
        self._has_put = True
        await self._layer.store(rank, PIECE, offset, buffer, key.first << KEY_BITS | end)

    async def settle(self) -> None:
        """Wait until all pieces are acknowledged."""
        if self._has_put:
            await self._layer.flush()
            self._has_put = False

    async def write(self, rank: int, key: Key, offset: int, buffer: Any) -> None:
        """Not supported."""
        del rank, key, offset, buffer
        raise SimulationError("U-Net writes to no other process's memory")

    async def fetch(self, rank: int, key: Key, offset: int, buffer: Any) -> None:
        """Not supported."""
        del rank, key, offset, buffer
        raise SimulationError("U-Net reads no other process's memory")
