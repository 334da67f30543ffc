"""Locks between processes: by a manager's queue, and by remote store and fetch alone."""

from __future__ import annotations

import struct
from collections import deque
from typing import TYPE_CHECKING, Protocol

import numpy as np

from nicscope.apps.collectives.mailbox import Key
from nicscope.apps.collectives.messages import ARRIVED
from nicscope.apps.collectives.operations import HostArray
from nicscope.errors import SimulationError

if TYPE_CHECKING:
    from nicscope.apps.collectives.messages import Messages

ASK, GRANT, RELEASE, PLACE = range(ARRIVED + 1, ARRIVED + 5)  # kinds of notes
WORD = bytes(7)  # with its kind a note has 8 bytes
_KEY = struct.Struct("<QQ")
PAUSE_US = 1.0  # between two looks of a process at memory of its own


class Lock(Protocol):
    """One process's view of a lock."""

    async def open(self) -> None:
        """Have it ready; all processes call this."""

    async def acquire(self) -> None:
        """Wait until it is this process's."""

    async def release(self) -> None:
        """Let the next one have it."""


class ManagedLock:
    """A queue at rank 0, who grants it in the order of asking, whenever it waits for something."""

    def __init__(self, messages: Messages) -> None:
        self._messages = messages
        self._is_mine = False
        self._queue: deque[int] = deque()  # at the manager: the holder, and who waits behind it
        messages.on(ASK, self._enqueue)
        messages.on(RELEASE, self._dequeue)
        messages.on(GRANT, self._have)

    async def open(self) -> None:
        """Nothing is to be done."""

    async def acquire(self) -> None:
        """Ask the manager, and wait for its word."""
        if self._messages.rank == 0:
            await self._enqueue(0, b"")
        else:
            await self._messages.say(0, ASK, WORD)
        await self._messages.wait_until(lambda: self._is_mine)

    async def release(self) -> None:
        """Tell the manager, and go on."""
        if not self._is_mine:
            raise SimulationError(f"rank {self._messages.rank} releases a lock that it has not")
        self._is_mine = False
        if self._messages.rank == 0:
            await self._dequeue(0, b"")
        else:
            await self._messages.say(0, RELEASE, WORD)

    async def _enqueue(self, rank: int, content: bytes) -> None:
        del content
        self._queue.append(rank)
        if len(self._queue) == 1:
            await self._grant()

    async def _dequeue(self, rank: int, content: bytes) -> None:
        del rank, content
        self._queue.popleft()
        if self._queue:
            await self._grant()

    async def _grant(self) -> None:
        if self._queue[0] == 0:
            self._is_mine = True
        else:
            await self._messages.say(self._queue[0], GRANT, WORD)

    async def _have(self, rank: int, content: bytes) -> None:
        del rank, content
        self._is_mine = True


class BakeryLock:
    """Lamport's bakery in an array at rank 0, which others store to and fetch from.

    Each has a word there: 0 while it wants nothing, 1 while it chooses, else twice its number.  A
    word that is read amid a store does no harm: the algorithm needs none that is atomic.  The
    processor of rank 0 does nothing for others.
    """

    def __init__(self, messages: Messages) -> None:
        if not messages.wire.is_one_sided and messages.ranks > 1:
            raise SimulationError(
                "a lock by remote store and fetch needs an interface that has both; take the "
                "manager's"
            )
        self._messages = messages
        self._rank, self._ranks = messages.rank, messages.ranks
        self._words = HostArray(messages.wire, messages.ranks, "<u8")
        self._own = HostArray(messages.wire, 1, "<u8")
        self._key: Key | None = None
        messages.on(PLACE, self._hear)

    async def open(self) -> None:
        """Rank 0 says where the words are."""
        wire = self._messages.wire
        if self._rank == 0:
            await wire.store(self._words.all.buffer, bytes(8 * self._ranks))
            key = await wire.offer(self._words.all.whole)
            for rank in range(1, self._ranks):
                await self._messages.say(rank, PLACE, _KEY.pack(*key))
        else:
            await self._messages.wait_until(lambda: self._key is not None)

    async def _hear(self, rank: int, content: bytes) -> None:
        del rank
        self._key = Key(*_KEY.unpack(content))

    async def acquire(self) -> None:
        """Take a number above all others', and wait until nobody has a lower one."""
        await self._say(1)
        number = int((await self._all()).max()) // 2 + 1
        await self._say(2 * number)
        while True:
            words = await self._all()
            chooses = words == 1
            comes_first = [
                0 < int(word) // 2 < number or (int(word) // 2 == number and rank < self._rank)
                for rank, word in enumerate(words)
            ]
            chooses[self._rank] = False
            if not chooses.any() and not any(comes_first):
                return
            if self._rank == 0:
                await self._messages.wire.compute(PAUSE_US)

    async def release(self) -> None:
        """Want nothing."""
        await self._say(0)

    async def _say(self, word: int) -> None:
        wire, own = self._messages.wire, self._own.all.buffer
        raw = word.to_bytes(8, "little")
        if self._rank == 0:
            await wire.store(self._words.part(0, 1).buffer, raw)
            return
        assert self._key is not None
        await wire.store(own, raw)
        await wire.write(0, self._key, 8 * self._rank, own)

    async def _all(self) -> np.ndarray:
        wire = self._messages.wire
        if self._rank:
            assert self._key is not None
            await wire.fetch(0, self._key, 0, self._words.all.buffer)
        return np.frombuffer(await wire.load(self._words.all.buffer), "<u8")
