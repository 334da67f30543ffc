"""Sending and receiving arrays between processes, and a barrier over such messages."""

from __future__ import annotations

import struct
from collections import Counter, deque
from typing import TYPE_CHECKING

from nicscope.apps.collectives.mailbox import Key, Note, Wire
from nicscope.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from nicscope.apps.collectives.operations import Piece


SHORT, READY = 0, 1  # kinds of notes; what is above is a handler's
FIRST_FREE = 2
_READY = struct.Struct("<BxxxIQQQ")  # kind, bytes, key, offset: a message may go there


class Sending:
    """A message that is being sent."""

    def __init__(self, rank: int, piece: Piece) -> None:
        self.rank = rank
        self.piece = piece
        self.has_gone = False  # put, or in a note


class Receiving:
    """A message that is being received."""

    def __init__(self, rank: int, piece: Piece) -> None:
        self.rank = rank
        self.piece = piece
        self.has_come = False


class Messages:
    """One process's messages to and from all others."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.rank, self.ranks = wire.rank, wire.ranks
        self._short = wire.short - 1
        peers = range(wire.ranks)
        self._sending: list[deque[Sending]] = [deque() for _ in peers]  # that wait to be asked for
        self._wanted: list[deque[tuple[Key, int, int]]] = [deque() for _ in peers]
        self._receiving: list[deque[Receiving]] = [deque() for _ in peers]  # of long ones
        self._lying: list[deque[bytes]] = [deque() for _ in peers]  # short ones, not received yet
        self._handlers: dict[int, Callable[[int, bytes], Awaitable[None]]] = {}

    def on(self, kind: int, handler: Callable[[int, bytes], Awaitable[None]]) -> None:
        """Handle notes of ``kind`` by ``handler(rank, content)``, while this process waits."""
        assert kind >= FIRST_FREE
        self._handlers[kind] = handler

    async def say(self, rank: int, kind: int, content: bytes = b"") -> None:
        """Send a note to the handler of ``kind`` at a rank."""
        await self.wire.note(rank, bytes((kind,)) + content)

    async def send(self, rank: int, piece: Piece) -> Sending:
        """Begin to send; ``piece`` may change after ``settle``.  Nothing is sent of no bytes.

        The receiver must know the length.
        """
        sending = Sending(rank, piece)
        if not piece.length:
            sending.has_gone = True
        elif piece.length <= self._short:
            await self.wire.note(rank, bytes((SHORT,)) + await self.wire.load(piece.buffer))
            sending.has_gone = True
        else:
            self._sending[rank].append(sending)
            await self._answer(rank)
        return sending

    async def receive(self, rank: int, piece: Piece) -> Receiving:
        """Begin to receive as many bytes as ``piece`` has."""
        receiving = Receiving(rank, piece)
        if not piece.length:
            receiving.has_come = True
        elif piece.length > self._short:
            key = await self.wire.offer(piece.whole)
            self._receiving[rank].append(receiving)
            await self.wire.note(rank, _READY.pack(READY, piece.length, *key, piece.at))
        return receiving

    async def came(self, receiving: Receiving) -> None:
        """Wait until a message has arrived."""
        if receiving.piece.length > self._short:
            await self.wait_until(lambda: receiving.has_come)
        elif not receiving.has_come:
            lying = self._lying[receiving.rank]
            await self.wait_until(lambda: bool(lying))
            content = lying.popleft()
            if len(content) != receiving.piece.length:
                raise SimulationError(
                    f"rank {receiving.rank} sent {len(content)} bytes to rank {self.rank}, which "
                    f"receives {receiving.piece.length}"
                )
            await self.wire.store(receiving.piece.buffer, content)
            receiving.has_come = True

    async def gone(self, sending: Sending) -> None:
        """Wait until a message is posted; its buffer may not change before ``settle``."""
        await self.wait_until(lambda: sending.has_gone)

    async def settle(self) -> None:
        """Wait until all sends have completed: buffers may change."""
        while any(self._sending):
            await self._take()
        await self.wire.settle()

    async def exchange(self, to: int, out: Piece, of: int, into: Piece) -> None:
        """Send ``out`` to one rank, and receive ``into`` from another."""
        receiving = await self.receive(of, into)
        sending = await self.send(to, out)
        await self.came(receiving)
        await self.gone(sending)

    async def wait_until(self, is_so: Callable[[], bool]) -> None:
        """Process events until ``is_so()``, which they bring about."""
        while not is_so():
            await self._take()

    async def _take(self) -> None:
        event = await self.wire.event()
        rank = event.rank
        if not isinstance(event, Note):
            self._receiving[rank].popleft().has_come = True
            return
        kind = event.content[0]
        if kind == SHORT:
            self._lying[rank].append(event.content[1:])
        elif kind == READY:
            _, length, first, second, at = _READY.unpack(event.content)
            self._wanted[rank].append((Key(first, second), at, length))
            await self._answer(rank)
        else:
            await self._handlers[kind](rank, event.content[1:])

    async def _answer(self, rank: int) -> None:
        """Put the messages that a peer waits for and that are ready to be sent."""
        sending, wanted = self._sending[rank], self._wanted[rank]
        while sending and wanted:
            (key, at, length), one = wanted.popleft(), sending.popleft()
            if length != one.piece.length:
                raise SimulationError(
                    f"rank {self.rank} sends {one.piece.length} bytes to rank {rank}, which "
                    f"receives {length}"
                )
            await self.wire.put(rank, key, at, one.piece.buffer)
            one.has_gone = True


ARRIVED = FIRST_FREE  # kind of note


class Barrier:
    """One process's side of a dissemination barrier."""

    def __init__(self, messages: Messages) -> None:
        self._messages = messages
        self._arrived: Counter[int] = Counter()  # by round: of this barrier, or of the next one
        messages.on(ARRIVED, self._hear)

    async def _hear(self, rank: int, content: bytes) -> None:
        del rank
        self._arrived[content[0]] += 1

    async def meet(self) -> None:
        """Dissemination: in round k each tells the one 2 ** k ranks on, and hears of one before."""
        messages = self._messages
        reach = number = 0
        reach = 1
        while reach < messages.ranks:
            word = number.to_bytes(7, "little")  # with its kind the note has 8 bytes
            await messages.say((messages.rank + reach) % messages.ranks, ARRIVED, word)
            await messages.wait_until(lambda: self._arrived[number] > 0)  # noqa: B023 - awaited
            self._arrived[number] -= 1
            reach, number = 2 * reach, number + 1
