"""32-bit keys in a process's memory, and their sums over processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nicscope.interfaces.ports.buffers import Buffer
    from nicscope.interfaces.unet.active_messages import ActiveMessages

KEY = np.dtype("<u4")
TABLES = 16  # handlers
STORED = 17
SHORT = 18


async def load(memory: Buffer, count: int) -> NDArray[np.uint32]:
    """The first ``count`` keys of ``memory``."""
    return np.frombuffer(await memory.read(count * KEY.itemsize), KEY)


def placed(memory: Buffer, first: int, count: int) -> Buffer:
    """Where ``count`` keys from the ``first`` on lie."""
    return memory.part(first * KEY.itemsize, count * KEY.itemsize)


class Tables:
    """Has every process know a table of numbers of every other one, again and again."""

    def __init__(self, messages: ActiveMessages, length: int) -> None:
        self._messages = messages
        self._bytes = length * KEY.itemsize
        self._mine = messages.endpoint.allocate(self._bytes)
        self._theirs: list[dict[int, bytearray]] = [{}, {}]  # those that come before their turn
        self._got = [0, 0]
        self._round = 0
        messages.on(TABLES, self._take)

    async def exchange(self, table: NDArray[Any]) -> NDArray[np.uint32]:
        """All processes' tables, a row each."""
        messages, turn = self._messages, self._round % 2
        await messages.flush()  # the last round's have been read
        await self._mine.write(table.astype(KEY).tobytes())
        for node in others(messages):
            await messages.store(node, TABLES, 0, self._mine, turn)
        await messages.wait_until(lambda: self._got[turn] == (messages.nodes - 1) * self._bytes)
        self._theirs[turn][messages.node] = bytearray(table.astype(KEY).tobytes())
        found = [
            np.frombuffer(bytes(self._theirs[turn][node]), KEY) for node in range(messages.nodes)
        ]
        self._theirs[turn], self._got[turn] = {}, 0
        self._round += 1
        return np.stack(found)

    async def _take(self, node: int, first: int, second: int, content: bytes) -> None:
        table = self._theirs[second].setdefault(node, bytearray(self._bytes))
        table[first : first + len(content)] = content
        self._got[second] += len(content)


class Landing:
    """Memory that keys come to: of several stretches, one after the other."""

    def __init__(self, messages: ActiveMessages, stretches: Sequence[Buffer]) -> None:
        self.stretches = stretches
        self.bytes_taken = 0
        messages.on(STORED, self._take)

    async def _take(self, node: int, first: int, second: int, content: bytes) -> None:
        del node
        await self.stretches[second].write(content, first)
        self.bytes_taken += len(content)


def others(messages: ActiveMessages) -> list[int]:
    """All nodes but this one, beginning with the next: not all send to the same one first."""
    return [(messages.node + step) % messages.nodes for step in range(1, messages.nodes)]
