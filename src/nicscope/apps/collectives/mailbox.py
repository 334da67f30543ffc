"""Notes by remote writes, with slots and credits; collectives over VMMC and miNI by them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import Hashable

    from nicscope.interfaces.mini import Endpoint as MiniEndpoint
    from nicscope.interfaces.mini import Remote
    from nicscope.interfaces.vmmc import Endpoint as VmmcEndpoint
    from nicscope.interfaces.vmmc import Imported, Transfer


SLOTS = 8
RESERVED = 2
PLACES = SLOTS + RESERVED  # of a peer's notes, used in turn


class Credits:
    """Flow control credits between one process and one peer."""

    def __init__(self) -> None:
        self._sent = 0  # notes to the peer, those that only say what is empty aside
        self._heard = 0  # of these, the ones that the peer has emptied
        self._emptied = 0  # notes of the peer's that have been taken here, likewise
        self._told = 0  # of these, the ones that the peer knows of
        self._next = 0

    @property
    def has_free_slot(self) -> bool:
        """Whether the peer has a free slot for a note."""
        return self._sent - self._heard < SLOTS

    @property
    def must_return_credits(self) -> bool:
        """Whether a note of its own has to return credits to the peer."""
        return self._emptied - self._told >= SLOTS // 2

    def send(self, *, only_credit: bool = False) -> tuple[int, int]:
        """Account for a note that is sent: its slot, and the credits that it returns."""
        place, self._next = self._next, (self._next + 1) % PLACES
        self._sent += not only_credit
        told, self._told = self._emptied - self._told, self._emptied
        return place, told

    def take(self, told: int, *, only_credit: bool = False) -> None:
        """Account for a note that has arrived, returning ``told`` credits."""
        self._heard += told
        self._emptied += not only_credit


class Note(NamedTuple):
    """A note from a peer."""

    rank: int
    content: bytes


class Placed(NamedTuple):
    """All bytes of one ``put`` of a peer have arrived in their array."""

    rank: int


class Key(NamedTuple):
    """A peer's name for an offered array: two numbers of the interface's own."""

    first: int
    second: int = 0


class Wire(ABC):
    """One process's channels to its peers, in order for each peer."""

    short: int
    """Bytes of the longest note."""
    is_one_sided = False
    """Whether ``fetch`` reads a peer's memory, without its processor."""

    def __init__(self, endpoint: Any, rank: int, ranks: int) -> None:
        """``endpoint``: what the interface gives a process: its clock, memory and processor."""
        self.endpoint = endpoint
        self.rank, self.ranks = rank, ranks
        self._events: deque[Note | Placed] = deque()

    @property
    def now_us(self) -> float:
        """The process's clock."""
        found: float = self.endpoint.now_us
        return found

    @abstractmethod
    async def open(self) -> None:
        """Connect with all peers, which do so too."""

    @abstractmethod
    async def close(self) -> None:
        """Stay until no peer needs this process any more."""

    def allocate(self, byte_count: int) -> Any:
        """Allocate array memory: the interface's buffers, which have parts and views."""
        return self.endpoint.allocate(max(1, byte_count))

    async def load(self, buffer: Any) -> bytes:
        """Load all of ``buffer`` as the program, with the time that it takes."""
        content: bytes = await buffer.read()
        return content

    async def store(self, buffer: Any, content: bytes) -> None:
        """Store ``content`` to the beginning of ``buffer`` as the program."""
        await buffer.write(content)

    async def compute(self, microseconds: float) -> None:
        """Keep the processor busy."""
        await self.endpoint.compute(microseconds)

    async def rest(self, microseconds: float) -> None:
        """Yield the processor, where the interface has a call for that."""
        await self.endpoint.sleep(microseconds)

    @abstractmethod
    async def note(self, rank: int, content: bytes) -> None:
        """Send up to ``short`` bytes to a peer; ``content`` is copied before this returns."""

    async def event(self) -> Note | Placed:
        """Wait for the next event from any peer."""
        while not self._events:
            await self._take()
        return self._events.popleft()

    @abstractmethod
    async def _take(self) -> None:
        """Receive something from a peer, or wait for it."""

    @abstractmethod
    async def offer(self, buffer: Any) -> Key:
        """Let peers write into ``buffer``; offered again, it has the same key at no cost."""

    @abstractmethod
    async def put(self, rank: int, key: Key, offset: int, buffer: Any) -> None:
        """Post ``buffer``, of a byte or more, to ``offset`` of what ``rank`` offered.

        It must stay as it is until ``settle`` returns.
        """

    @abstractmethod
    async def settle(self) -> None:
        """Wait until the NIC has completed everything that was put.

        Errors: ``SimulationError`` if some of it did not get through.
        """

    @abstractmethod
    async def write(self, rank: int, key: Key, offset: int, buffer: Any) -> None:
        """Write ``buffer`` remotely and wait, without notifying; if ``is_one_sided``."""

    @abstractmethod
    async def fetch(self, rank: int, key: Key, offset: int, buffer: Any) -> None:
        """Fill ``buffer`` from ``offset`` of what ``rank`` offered; if ``is_one_sided``."""


def unreachable_error(here: int, there: int, status: str) -> SimulationError:
    """The error for data that did not get from one rank to another."""
    return SimulationError(f"rank {here} does not get through to rank {there}: {status}")


ROOM = 4096  # bytes: all slots for the notes of a peer are on one page
SLOT = ROOM // PLACES
HEAD = 2  # bytes before a note: how many slots are empty, and whether that is all that it says
PLAIN, ONLY_CREDIT = 0, 1
INBOX = Key(0)  # arrays come behind


class MailboxWire(Wire, ABC):
    """A wire over remote writes into peers' memory."""

    short = SLOT - HEAD
    is_one_sided = True

    def __init__(self, endpoint: Any, ranks: int) -> None:
        super().__init__(endpoint, endpoint.node, ranks)
        self._credits = {peer: Credits() for peer in range(ranks) if peer != self.rank}
        self._offered: dict[tuple[int, int], Key] = {}
        self._known: dict[tuple[int, Key], Any] = {}  # what peers have offered, as named here
        self._boxes: dict[int, Any] = {}  # of peers, likewise
        self._called: Hashable = None  # the inbox, by the interface
        self._inbox: Any = None
        self._outbox: Any = None

    # -- what an interface has of its own ---------------------------------------------------------

    @abstractmethod
    async def _publish(self, buffer: Any, key: Key) -> Hashable:
        """Export ``buffer`` under ``key``; returns its name in ``_heard``."""

    @abstractmethod
    async def _find(self, rank: int, key: Key) -> Any:
        """Import what ``rank`` publishes under ``key``, waiting for it; ``_write`` takes it."""

    @abstractmethod
    async def _write(
        self, there: Any, offset: int, buffer: Any, *, tells: bool = True, is_note: bool = False
    ) -> None:
        """Post a write, with notification or without; a note's completion is not waited for."""

    @abstractmethod
    async def _read(self, there: Any, offset: int, buffer: Any) -> None:
        """Read remotely and wait for the completion."""

    @abstractmethod
    async def _heard(self) -> tuple[int, Hashable, int, int]:
        """Wait for the next notified write: its node, buffer, offset and length."""

    @abstractmethod
    async def _drain(self) -> None:
        """Wait until the NIC has completed all writes, those of notes too."""

    # -- as every wire ----------------------------------------------------------------------------

    async def open(self) -> None:
        """Publish the slots, and find those of all peers."""
        if self.ranks == 1:
            return
        self._inbox = self.endpoint.allocate(self.ranks * ROOM)
        self._outbox = self.endpoint.allocate(self.ranks * ROOM)
        self._called = await self._publish(self._inbox, INBOX)
        for step in range(1, self.ranks):
            peer = (self.rank + step) % self.ranks
            self._boxes[peer] = await self._find(peer, INBOX)

    async def close(self) -> None:
        """Wait until all posted writes have completed."""
        await self._drain()

    async def note(self, rank: int, content: bytes) -> None:
        """Write a note to the peer's next slot, once that is empty."""
        while not self._credits[rank].has_free_slot:
            await self._take()
        await self._say(rank, content, PLAIN)

    async def _say(self, rank: int, content: bytes, kind: int) -> None:
        place, told = self._credits[rank].send(only_credit=kind == ONLY_CREDIT)
        slot = self._outbox.part(rank * ROOM + place * SLOT, HEAD + len(content))
        await slot.write(bytes((told, kind)) + content)
        await self._write(self._boxes[rank], self.rank * ROOM + place * SLOT, slot, is_note=True)

    async def _take(self) -> None:
        """Receive the next write."""
        node, name, offset, length = await self._heard()
        if name != self._called:
            self._events.append(Placed(node))
            return
        raw = await self._inbox.read(length, offset)
        credit = self._credits[node]
        credit.take(raw[0], only_credit=raw[1] == ONLY_CREDIT)
        if raw[1] != ONLY_CREDIT:
            self._events.append(Note(node, raw[HEAD:]))
        if credit.must_return_credits:
            await self._say(node, b"", ONLY_CREDIT)

    async def offer(self, buffer: Any) -> Key:
        """Publish the buffer, if it is not yet."""
        place = (buffer.address, len(buffer))
        if place not in self._offered:
            key = self._offered[place] = Key(len(self._offered) + 1)
            await self._publish(buffer, key)
        return self._offered[place]

    async def put(self, rank: int, key: Key, offset: int, buffer: Any) -> None:
        """Post a remote write."""
        await self._write(await self._of(rank, key), offset, buffer)

    async def write(self, rank: int, key: Key, offset: int, buffer: Any) -> None:
        """Write without notification, and wait for the completion."""
        await self._write(await self._of(rank, key), offset, buffer, tells=False)
        await self.settle()

    async def fetch(self, rank: int, key: Key, offset: int, buffer: Any) -> None:
        """Read the peer's memory."""
        await self._read(await self._of(rank, key), offset, buffer)

    async def _of(self, rank: int, key: Key) -> Any:
        if (rank, key) not in self._known:
            self._known[rank, key] = await self._find(rank, key)
        return self._known[rank, key]


VMMC_OUTSTANDING = 24  # transfers of either kind; a command queue has 64 places


class VmmcWire(MailboxWire):
    """One process with an endpoint of VMMC."""

    endpoint: VmmcEndpoint

    def __init__(self, endpoint: VmmcEndpoint, ranks: int) -> None:
        super().__init__(endpoint, ranks)
        self._notes: deque[tuple[int, Transfer]] = deque()
        self._puts: deque[tuple[int, Transfer]] = deque()

    async def _publish(self, buffer: Any, key: Key) -> Hashable:
        return (await self.endpoint.export(buffer, f"array {key.first}")).name

    async def _find(self, rank: int, key: Key) -> Imported:
        return await self.endpoint.import_buffer(rank, f"array {key.first}")

    async def _write(
        self,
        there: Imported,
        offset: int,
        buffer: Any,
        *,
        tells: bool = True,
        is_note: bool = False,
    ) -> None:
        posted = self._notes if is_note else self._puts
        if len(posted) >= VMMC_OUTSTANDING:
            await self._end(*posted.popleft())
        transfer = await self.endpoint.store(there, buffer, offset, notify=tells)
        posted.append((there.node, transfer))

    async def _read(self, there: Imported, offset: int, buffer: Any) -> None:
        transfer = await self.endpoint.fetch(there, buffer, offset, length=len(buffer))
        await self._end(there.node, transfer)

    async def _heard(self) -> tuple[int, Hashable, int, int]:
        came = await self.endpoint.notification()
        return came.node, came.name, came.offset, came.length

    async def settle(self) -> None:
        """Wait until all stores to arrays have completed."""
        while self._puts:
            await self._end(*self._puts.popleft())

    async def _drain(self) -> None:
        await self.settle()
        while self._notes:
            await self._end(*self._notes.popleft())

    async def _end(self, rank: int, transfer: Transfer) -> None:
        ended = await self.endpoint.wait(transfer)
        if not ended.ok:
            raise unreachable_error(self.rank, rank, ended.status)


MINI_OUTSTANDING = 32  # descriptors; a queue has 64 places


class MiniWire(MailboxWire):
    """One process with an endpoint of miNI."""

    endpoint: MiniEndpoint

    def __init__(self, endpoint: MiniEndpoint, ranks: int) -> None:
        super().__init__(endpoint, ranks)
        self._posted: dict[int, tuple[int, bool]] = {}  # by number: to whom, and whether a note

    async def _publish(self, buffer: Any, key: Key) -> Hashable:
        return (await self.endpoint.register(buffer, name=_name(self.rank, key))).handle

    async def _find(self, rank: int, key: Key) -> tuple[int, Remote]:
        return rank, await self.endpoint.open(await self.endpoint.find(_name(rank, key)))

    async def _write(
        self,
        there: tuple[int, Remote],
        offset: int,
        buffer: Any,
        *,
        tells: bool = True,
        is_note: bool = False,
    ) -> None:
        if len(self._posted) >= MINI_OUTSTANDING:
            await self._end()
        rank, remote = there
        number = await self.endpoint.write(remote, buffer, len(buffer), offset=offset, notify=tells)
        self._posted[number] = rank, is_note

    async def _read(self, there: tuple[int, Remote], offset: int, buffer: Any) -> None:
        rank, remote = there
        number = await self.endpoint.read(remote, buffer, len(buffer), offset=offset)
        self._posted[number] = rank, False
        await self.settle()

    async def _heard(self) -> tuple[int, Hashable, int, int]:
        came = await self.endpoint.stored()
        return came.node, came.handle, came.offset, came.length

    async def settle(self) -> None:
        """Wait until all descriptors of arrays have completed."""
        while not all(is_note for _, is_note in self._posted.values()):
            await self._end()

    async def _drain(self) -> None:
        while self._posted:
            await self._end()

    async def _end(self) -> None:
        ended = await self.endpoint.done()
        rank, _ = self._posted.pop(ended.request)
        if not ended.ok:
            raise unreachable_error(self.rank, rank, ended.status)


def _name(rank: int, key: Key) -> str:
    return f"array {key.first} of {rank}"
