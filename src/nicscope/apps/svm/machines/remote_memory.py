"""Shared pages at their homes, read and written by remote memory operations."""

from __future__ import annotations

import struct
from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.apps.svm.domain import POISON, Domain
from nicscope.apps.svm.machines.messages import (
    Letter,
    Mail,
    UnreachableError,
    answer_to,
    encode_home,
    frames,
)
from nicscope.interfaces.tasks import Gate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nicscope.interfaces import mini, vmmc
    from nicscope.interfaces.ports.memory import Buffer


class Region:
    """The simulated memory of one domain's pages."""

    def __init__(self, domain: Domain, buffer: Buffer) -> None:
        self.buffer = buffer
        self.page_bytes = domain.memory.shape[1]
        self._domain = domain
        self._agreed = np.zeros_like(domain.memory)  # what both held when they last agreed
        for page in np.flatnonzero(domain.memory.any(axis=1)).tolist():
            self.give(page)

    def agree(self, page: int) -> None:
        """Synchronize ``page``: the program's writes and what arrived, both ways."""
        there = self._array(page)
        came, wrote = np.asarray(there).view(np.uint32), self._domain.memory[page].view(np.uint32)
        agreed = self._agreed[page].view(np.uint32)
        has_come = came != agreed
        wrote[has_come] = came[has_come]
        agreed[:] = wrote
        there[:] = self._domain.memory[page]

    def spoil(self, page: int) -> None:
        """Fill the page with a marker, so that missing deliveries show."""
        self._array(page)[:] = np.full(self.page_bytes, POISON, np.uint8)

    def take(self, page: int) -> None:
        """Copy the whole page from the machine to the program."""
        self._domain.memory[page] = np.asarray(self._array(page))
        self._agreed[page] = self._domain.memory[page]

    def give(self, page: int) -> None:
        """Copy the whole page from the program to the machine."""
        self._array(page)[:] = self._domain.memory[page]
        self._agreed[page] = self._domain.memory[page]

    def put_words(self, page: int, words: NDArray[np.int64], values: NDArray[np.uint32]) -> None:
        """Store ``values`` into words of a page, as a diff states."""
        whole = np.asarray(self._array(page)).view(np.uint32)
        whole[words] = values
        self._array(page)[:] = whole.view(np.uint8)

    def copy_page(self, page: int, source: Region) -> None:
        """Copy a page from another region of the same node's memory."""
        self._array(page)[:] = np.asarray(source._array(page))

    def part(self, page: int) -> Buffer:
        """The page's range of simulated memory."""
        return self.buffer.part(page * self.page_bytes, self.page_bytes)

    def _array(self, page: int) -> Any:
        return self.part(page).array()


class Heard(NamedTuple):
    """A remote write with notification that has completed here."""

    node: int
    offset: int
    length: int


class RemoteMemory(ABC):
    """Remote memory operations of one process."""

    def __init__(self, endpoint: Any) -> None:
        self.endpoint = endpoint
        self._statuses: dict[int, str] = {}
        self._is_heard = False  # a task is told of the next end
        self._next_end = Gate()

    @abstractmethod
    async def export(self, buffer: Buffer, name: str) -> None:
        """Let others write and read ``buffer``."""

    @abstractmethod
    async def find(self, node: int, name: str) -> Any:
        """Import what ``node`` exports as ``name``, waiting for it."""

    @abstractmethod
    async def write(
        self, to: Any, buffer: Buffer, at: int, offset: int, length: int, *, heard: bool = False
    ) -> int:
        """Begin to write ``buffer[at:at + length]`` to ``offset`` there; the operation's number."""

    @abstractmethod
    async def read(self, of: Any, buffer: Buffer, at: int, length: int) -> int:
        """Begin to read what lies ``at`` there into the same place of ``buffer``; its number."""

    @abstractmethod
    async def heard(self) -> Heard:
        """Wait for the next remote write with notification."""

    async def ended(self, number: int) -> str:
        """Wait for an operation's end and return its status.  Tasks may wait for several at a time.

        One of them is told of the next end, whoever's it is, and has the others look.
        """
        while number not in self._statuses:
            if self._is_heard:
                await self._next_end.wait(self.endpoint)
                continue
            self._is_heard = True
            try:
                done = await self.endpoint.done()
            finally:
                self._is_heard = False
            self._statuses[done.request] = done.status
            told, self._next_end = self._next_end, Gate()
            told.open()
        return self._statuses.pop(number)


class VmmcMemory(RemoteMemory):
    """Remote memory by VMMC's export, import, remote store and remote fetch."""

    endpoint: vmmc.Endpoint

    async def export(self, buffer: Buffer, name: str) -> None:
        """Export it to all."""
        await self.endpoint.export(buffer, name)

    async def find(self, node: int, name: str) -> vmmc.Imported:
        """Import it."""
        return await self.endpoint.import_buffer(node, name)

    async def write(
        self, to: Any, buffer: Buffer, at: int, offset: int, length: int, *, heard: bool = False
    ) -> int:
        """Post a remote store, with a notification if it is to be heard of."""
        transfer = await self.endpoint.store(to, buffer, offset, at=at, length=length, notify=heard)
        return transfer.number

    async def read(self, of: Any, buffer: Buffer, at: int, length: int) -> int:
        """Post a remote fetch."""
        return (await self.endpoint.fetch(of, buffer, at, at=at, length=length)).number

    async def heard(self) -> Heard:
        """The next notification."""
        said = await self.endpoint.notification("block")
        return Heard(said.node, said.offset, said.length)


class MiniMemory(RemoteMemory):
    """Remote memory by miNI's registered buffers, remote write and remote read."""

    endpoint: mini.Endpoint

    async def export(self, buffer: Buffer, name: str) -> None:
        """Register it under a name that says whose it is."""
        await self.endpoint.register(buffer, name=_of_node(self.endpoint.node, name))

    async def find(self, node: int, name: str) -> mini.Remote:
        """Find and open it."""
        return await self.endpoint.open(await self.endpoint.find(_of_node(node, name)))

    async def write(
        self, to: Any, buffer: Buffer, at: int, offset: int, length: int, *, heard: bool = False
    ) -> int:
        """Post an RDMA write."""
        return await self.endpoint.write(to, buffer, length, offset=offset, at=at, notify=heard)

    async def read(self, of: Any, buffer: Buffer, at: int, length: int) -> int:
        """Post an RDMA read."""
        return await self.endpoint.read(of, buffer, length, offset=at, at=at)

    async def heard(self) -> Heard:
        """The next write that has come to a buffer of this process."""
        said = await self.endpoint.stored("block")
        return Heard(said.node, said.offset, said.length)


def _of_node(node: int, name: str) -> str:
    return f"{name} of node {node}"


class HomeDirectory:
    """Those whose number names this domain.  The first who asks for one is its home."""

    def __init__(self, mail: Mail) -> None:
        self._mail = mail
        self._homes: dict[int, int] = {}
        self._asking: dict[int, list[Letter]] = {}  # by page whose home does not have it yet

    def claim(self, letter: Letter, page: int) -> None:
        """Answer with the page's home: the claimant, if there is none."""
        if page not in self._homes:
            self._homes[page] = letter.sender
            self._asking[page] = []
            self._answer(letter, page)
        elif page in self._asking:
            self._asking[page].append(letter)
        else:
            self._answer(letter, page)

    def settled(self, page: int) -> None:
        """Note that the home has the page: others may fetch it."""
        for letter in self._asking.pop(page):
            self._answer(letter, page)

    def _answer(self, letter: Letter, page: int) -> None:
        self._mail.post(answer_to(letter, encode_home(self._homes[page])), f"page {page}")


SLOT = 4096  # bytes
HEAD = struct.Struct("<I?xxx")  # which piece of a sender's it is, and whether another is to follow
COUNT = struct.Struct("<Q")
MAILBOX = "mailbox"
MOST_SLOTS = 8
REPORTS = 48  # that all slots together may make at a time; a queue has 64 places
AT_ONCE = 8  # writes that nobody has waited for yet


class RemoteMail(Mail):
    """A node's message queue over remote memory operations."""

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
        """Export a mailbox, and import all others."""
        size = self._counts_at + self.nodes * COUNT.size
        self._box = self.endpoint.allocate(size)
        self._leaving = self.endpoint.allocate(size)
        await self.memory.export(self._box, MAILBOX)
        for node in range(self.nodes):
            if node != self.node:
                self._mailboxes[node] = await self.memory.find(node, MAILBOX)

    def tasks(self) -> list[Any]:
        """The task that receives notifications."""
        return [self._serve()]

    async def carry(self) -> None:
        """Send posted messages, and return credits for messages read."""
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
        """Write a fragment to a free slot of ``node``'s mailbox."""
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
            raise UnreachableError(
                f"node {self.node} does not get {what} through to node {node}: {status}"
            )

    async def _serve(self) -> None:
        """Receive messages."""
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
                raise UnreachableError(
                    f"node {self.node} got piece {number} of node {came.node}'s letters for piece "
                    f"{self._read[came.node]}"
                )
            self._read[came.node] += 1
            if self._read[came.node] - self._said[came.node] >= max(1, self._slots // 2):
                self.ring()
            self._take_frame(came.node, raw[HEAD.size :], more=more)
