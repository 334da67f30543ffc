"""Mail by remote writes: each node has slots in the others' mailboxes, and hears of what came.

A slot is written again when the receiver has said that it has read it: it writes how many it has
read to a word of the sender's mailbox, after every half of them.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import TYPE_CHECKING, Any

from nicscope.apps.svm.machines.mail import Mail, frames
from nicscope.apps.svm.machines.waits import CarryingError
from nicscope.interfaces.gates import Gate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nicscope.apps.svm.machines.remote_memory import RemoteMemory
    from nicscope.interfaces.ports.buffers import Buffer

SLOT = 4096  # bytes
HEAD = struct.Struct("<I?xxx")  # which piece of a sender's it is, and whether another is to follow
COUNT = struct.Struct("<Q")
MAILBOX = "mailbox"
MOST_SLOTS = 8
REPORTS = 48  # that all slots together may make at a time; a queue has 64 places
AT_ONCE = 8  # writes that nobody has waited for yet


class RemoteMail(Mail):
    """A node's."""

    def __init__(self, node: int, node_of: Sequence[int]) -> None:
        super().__init__(node, node_of)
        self._slots = max(2, min(MOST_SLOTS, REPORTS // max(1, self.nodes - 1)))
        self._counts_at = self.nodes * self._slots * SLOT
        self._sent = [0] * self.nodes  # pieces ever, to each node
        self._read_there = [0] * self.nodes  # of these, as far as is known
        self._read = [0] * self.nodes  # pieces ever, of each node
        self._said = [0] * self.nodes  # of these, to their sender
        self._posted: deque[tuple[int, int, str]] = deque()  # not waited for: number, node, what
        self._mailboxes: dict[int, Any] = {}
        self._box: Buffer
        self._leaving: Buffer  # what is written to others, as it lies in their mailboxes
        self.memory: RemoteMemory

    async def open(self) -> None:
        """Have a mailbox, and find all others."""
        size = self._counts_at + self.nodes * COUNT.size
        self._box = self.endpoint.allocate(size)
        self._leaving = self.endpoint.allocate(size)
        await self.memory.export(self._box, MAILBOX)
        for node in range(self.nodes):
            if node != self.node:
                self._mailboxes[node] = await self.memory.find(node, MAILBOX)

    def tasks(self) -> list[Any]:
        """The one that hears of what has come."""
        return [self._serve()]

    async def carry(self) -> None:
        """Send what is posted, and say what has been read."""
        while True:
            self._bell = Gate()
            await self._deliver_here()
            await self._say_what_was_read()
            if self._outbox:
                posted = self._outbox.popleft()
                for piece, more in frames(posted.letter.packed(), SLOT - HEAD.size):
                    await self._send(posted.node, piece, posted.what, more=more)
            elif self._posted:
                await self._check_oldest()
            elif self._is_over and not self._here:
                return
            elif not self._here:
                await self._bell.wait(self.endpoint)

    async def _send(self, node: int, piece: bytes, what: str, *, more: bool) -> None:
        """Write a piece to a slot of ``node``'s mailbox that it has read."""
        while self._sent[node] - self._read_there[node] >= self._slots:
            self._bell = Gate()
            await self._say_what_was_read()
            if self._posted:
                await self._check_oldest()
            elif self._sent[node] - self._read_there[node] >= self._slots:
                await self._bell.wait(self.endpoint)
        number = self._sent[node]
        self._sent[node] += 1
        slot = node * self._slots + number % self._slots
        raw = HEAD.pack(number & 0xFFFFFFFF, more) + piece
        await self._leaving.write(raw, slot * SLOT)
        there = (self.node * self._slots + number % self._slots) * SLOT
        await self._write(node, slot * SLOT, there, len(raw), what)

    async def _say_what_was_read(self) -> None:
        for node, read in enumerate(self._read):
            if read - self._said[node] >= max(1, self._slots // 2) and not self._is_over:
                self._said[node] = read
                at = self._counts_at + node * COUNT.size
                await self._leaving.write(COUNT.pack(read), at)
                there = self._counts_at + self.node * COUNT.size
                await self._write(node, at, there, COUNT.size, "what was read")

    async def _write(self, node: int, at: int, there: int, length: int, what: str) -> None:
        to = self._mailboxes[node]
        number = await self.memory.write(to, self._leaving, at, there, length, heard=True)
        self._posted.append((number, node, what))
        if len(self._posted) > AT_ONCE:
            await self._check_oldest()

    async def _check_oldest(self) -> None:
        number, node, what = self._posted.popleft()
        status = await self.memory.ended(number)
        if status != "done":
            raise CarryingError(
                f"node {self.node} does not get {what} through to node {node}: {status}"
            )

    async def _serve(self) -> None:
        """Take what comes."""
        while True:
            came = await self.memory.heard()
            if came.offset >= self._counts_at:
                raw = await self._box.read(COUNT.size, came.offset)
                [count] = COUNT.unpack(raw)
                self._read_there[came.node] = max(self._read_there[came.node], count)
                self.ring()
                continue
            raw = await self._box.read(came.length, came.offset)
            number, more = HEAD.unpack_from(raw)
            if number != self._read[came.node] & 0xFFFFFFFF:
                raise CarryingError(
                    f"node {self.node} got piece {number} of node {came.node}'s letters for piece "
                    f"{self._read[came.node]}"
                )
            self._read[came.node] += 1
            if self._read[came.node] - self._said[came.node] >= max(1, self._slots // 2):
                self.ring()
            self._take_frame(came.node, raw[HEAD.size :], more=more)
