"""Shared memory over Trapeze: letters are control messages, and payloads where they are longer.

Trapeze has no remote memory: the home's host sends pages and applies diffs.  It sends nothing
again either; on a network that may lose something the rules of Active Messages do
(``apps.collectives.message_wires``).
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.apps.collectives.mailbox import Note
from nicscope.apps.collectives.message_wires import PIECE, PUT, TrapezeWire
from nicscope.apps.svm.machines.messages import (
    Kind,
    Letter,
    MessageMail,
    Posted,
    frames,
    unpacked,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nicscope.interfaces.programs import Gate

PAYLOAD = 4096  # bytes of the longest: a page of shared memory, at most
LETTER, PAGE = range(2)  # what a payload is a piece of


class Piece(NamedTuple):
    """A payload: a piece of a letter, or a page."""

    node: int
    content: bytes
    kind: int
    at: int  # of a letter: where in it; of a page: who asked for it, and by which question
    end: int


class LetterWire(TrapezeWire):
    """Trapeze's wire, whose payloads are handed over in the order of the messages."""

    _events: deque[Any]  # of Note and Piece

    async def piece(self, node: int, content: bytes, kind: int, at: int, end: int) -> None:
        """Send a payload from one of the staging buffers, into which the processor copies it."""
        while not self._rooms:
            await self._take()
        room = self._rooms.popleft()
        await self.endpoint.copy(len(content))
        await room.write(content)
        await self._send(node, PUT, PIECE.pack(kind, at, end), room.part(0, len(content)), room)

    async def take_until(self, wakeup: Gate) -> None:
        """Take messages until another task opens ``wakeup``."""
        while not wakeup.is_open and not self._events:
            await self._take(wakeup=wakeup)

    def taken(self) -> list[Any]:
        """What has come since the last call."""
        came, self._events = list(self._events), deque()
        return came

    async def _place(self, rank: int, content: bytes, key: int, at: int, end: int) -> None:
        await self.endpoint.copy(len(content))
        self._events.append(Piece(rank, content, key, at, end))


class TrapezeMail(MessageMail):
    """A node's message queue over an endpoint of Trapeze."""

    def __init__(self, node: int, node_of: Sequence[int], *, is_lossy: bool) -> None:
        super().__init__(node, node_of)
        self._is_lossy = is_lossy
        self._wire: LetterWire

    async def open(self) -> None:
        """Allocate staging buffers; nodes are addressed by their numbers."""
        self._wire = LetterWire(self.endpoint, self.nodes, PAYLOAD, is_lossy=self._is_lossy)
        await self._wire.open()

    async def _deliver_here(self) -> None:
        """Deliver messages to this node's own domains, and what has come from others."""
        await super()._deliver_here()
        for each in self._wire.taken():
            self._take(each)

    async def _take_until(self, wakeup: Gate) -> None:
        await self._wire.take_until(wakeup)

    async def _close(self) -> None:
        await self._wire.close()

    async def _send(self, posted: Posted) -> None:
        letter, node = posted.letter, posted.node
        if posted.region is not None:
            assert posted.page is not None
            page = np.asarray(posted.region.part(posted.page).array()).tobytes()
            await self._wire.piece(node, page, PAGE, letter.to << 32 | letter.number, len(page))
            return
        raw = letter.packed()
        if len(raw) <= self._wire.short:
            await self._wire.note(node, raw)
            return
        at = 0
        for content, _ in frames(raw, PAYLOAD):
            await self._wire.piece(node, content, LETTER, at, len(raw))
            at += len(content)

    def _take(self, came: Note | Piece) -> None:
        if isinstance(came, Note):
            self.on_letter(unpacked(came.content))
        elif came.kind == LETTER:
            more = came.at + len(came.content) < came.end
            self._take_frame(came.node, came.content, more=more)
        else:
            letter = Letter(Kind.ANSWER, 0, came.at >> 32, came.at & 0xFFFFFFFF)
            self.on_page(letter).array()[:] = np.frombuffer(came.content, np.uint8)
            self.on_letter(letter)
