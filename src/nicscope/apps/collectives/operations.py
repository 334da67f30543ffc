"""Arrays sent between processes, collective operations over such messages, and locks."""

from __future__ import annotations

import struct
from collections import Counter, deque
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from nicscope.apps.collectives.mailbox import Key, Note, Wire
from nicscope.errors import SimulationError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from numpy.typing import NDArray


SHORT, READY = 0, 1  # kinds of notes; what is above is a handler's
FIRST_FREE = 2
_READY = struct.Struct("<BxxxIQQQ")  # kind, bytes, key, offset: a message may go there


class Transfer:
    """A message that is being sent or received."""

    def __init__(self, rank: int, piece: Piece) -> None:
        self.rank = rank
        self.piece = piece
        self.is_over = False  # it has come; or it has gone, put or in a note


class Messages:
    """One process's messages to and from all others."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.rank, self.ranks = wire.rank, wire.ranks
        self._short = wire.short - 1
        peers = range(wire.ranks)
        self._sending: list[deque[Transfer]] = [deque() for _ in peers]  # that wait to be asked for
        self._wanted: list[deque[tuple[Key, int, int]]] = [deque() for _ in peers]
        self._receiving: list[deque[Transfer]] = [deque() for _ in peers]  # of long ones
        self._lying: list[deque[bytes]] = [deque() for _ in peers]  # short ones, not received yet
        self._handlers: dict[int, Callable[[int, bytes], Awaitable[None]]] = {}

    def on(self, kind: int, handler: Callable[[int, bytes], Awaitable[None]]) -> None:
        """Handle notes of ``kind`` by ``handler(rank, content)``, while this process waits."""
        assert kind >= FIRST_FREE
        self._handlers[kind] = handler

    async def say(self, rank: int, kind: int, content: bytes = b"") -> None:
        """Send a note to the handler of ``kind`` at a rank."""
        await self.wire.note(rank, bytes((kind,)) + content)

    async def send(self, rank: int, piece: Piece) -> Transfer:
        """Begin to send; ``piece`` may change after ``settle``.  Nothing is sent of no bytes.

        The receiver must know the length.
        """
        sending = Transfer(rank, piece)
        if not piece.length:
            sending.is_over = True
        elif piece.length <= self._short:
            await self.wire.note(rank, bytes((SHORT,)) + await self.wire.load(piece.buffer))
            sending.is_over = True
        else:
            self._sending[rank].append(sending)
            await self._answer(rank)
        return sending

    async def receive(self, rank: int, piece: Piece) -> Transfer:
        """Begin to receive as many bytes as ``piece`` has."""
        receiving = Transfer(rank, piece)
        if not piece.length:
            receiving.is_over = True
        elif piece.length > self._short:
            key = await self.wire.offer(piece.whole)
            self._receiving[rank].append(receiving)
            await self.wire.note(rank, _READY.pack(READY, piece.length, *key, piece.at))
        return receiving

    async def came(self, receiving: Transfer) -> None:
        """Wait until a message has arrived."""
        if receiving.piece.length > self._short:
            await self.wait_until(lambda: receiving.is_over)
        elif not receiving.is_over:
            lying = self._lying[receiving.rank]
            await self.wait_until(lambda: bool(lying))
            content = lying.popleft()
            if len(content) != receiving.piece.length:
                raise SimulationError(
                    f"rank {receiving.rank} sent {len(content)} bytes to rank {self.rank}, which "
                    f"receives {receiving.piece.length}"
                )
            await self.wire.store(receiving.piece.buffer, content)
            receiving.is_over = True

    async def gone(self, sending: Transfer) -> None:
        """Wait until a message is posted; its buffer may not change before ``settle``."""
        await self.wait_until(lambda: sending.is_over)

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
            self._receiving[rank].popleft().is_over = True
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
            one.is_over = True


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
        reach, number = 1, 0
        while reach < messages.ranks:
            word = number.to_bytes(7, "little")  # with its kind the note has 8 bytes
            await messages.say((messages.rank + reach) % messages.ranks, ARRIVED, word)
            await messages.wait_until(lambda: self._arrived[number] > 0)  # noqa: B023 - awaited
            self._arrived[number] -= 1
            reach, number = 2 * reach, number + 1


OPERATIONS: dict[str, Callable[..., Any]] = {"sum": np.add, "max": np.maximum, "min": np.minimum}


class Piece(NamedTuple):
    """A range of bytes of an array."""

    whole: Any  # the buffer of the array
    at: int
    length: int

    @property
    def buffer(self) -> Any:
        """The range as a buffer of the interface."""
        return self.whole.part(self.at, self.length)


class HostArray:
    """``count`` numbers, anywhere in the memory of one process."""

    def __init__(self, wire: Wire, count: int, dtype: Any, past: int = 0) -> None:
        """``past``: bytes between the begin of a page and the array."""
        self.wire = wire
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.count = count
        length = count * self.dtype.itemsize
        self._buffer = wire.allocate(past + length).part(past, length)

    def part(self, first: int, last: int) -> Piece:
        """The numbers from ``first`` to before ``last``."""
        size = self.dtype.itemsize
        return Piece(self._buffer, first * size, (last - first) * size)

    @property
    def all(self) -> Piece:
        """The whole array."""
        return self.part(0, self.count)

    def seen(self) -> NDArray[Any]:
        """A copy of the content, which takes no virtual time: for checks."""
        return np.array(self._buffer.array(self.dtype)) if self.count else np.empty(0, self.dtype)

    async def fill(self, values: NDArray[Any]) -> None:
        """Store ``values`` by the program's own stores, which snooping NICs see."""
        if self.count:
            await self.wire.store(self._buffer, values.astype(self.dtype, copy=False).tobytes())


class Arithmetic(NamedTuple):
    """The reduction operator and its cost."""

    operation: str = "sum"
    ns_per_byte: float = 0.0  # of the processor, beside its loads and stores

    async def combine(self, wire: Wire, dtype: Any, left: Piece, right: Piece, into: Piece) -> None:
        """Store ``left`` op ``right``, element by element, to ``into``."""
        if not into.length:
            return
        several = [np.frombuffer(await wire.load(one.buffer), dtype) for one in (left, right)]
        if self.ns_per_byte:
            await wire.compute(self.ns_per_byte * into.length / 1000)
        await wire.store(into.buffer, OPERATIONS[self.operation](*several).tobytes())


def bounds(count: int, parts: int) -> list[int]:
    """The boundaries of ``parts`` equal parts of ``count`` elements.

    The first ones have one more than the others where they cannot all be equal.
    """
    each, more = divmod(count, parts)
    return [part * each + min(part, more) for part in range(parts + 1)]


async def ring_all_reduce(
    messages: Messages, array: HostArray, room: HostArray, arithmetic: Arithmetic
) -> None:
    """Reduce-scatter, then all-gather, around the ring: each sends 2 (n - 1) / n of its array.

    ``room``: where what comes is put before it is added, of the longest of n parts or more.
    """
    rank, ranks = messages.rank, messages.ranks
    ends = bounds(array.count, ranks)
    behind, before = (rank + 1) % ranks, (rank - 1) % ranks
    for step in range(ranks - 1):
        away, here = (rank - step) % ranks, (rank - step - 1) % ranks
        own = array.part(ends[here], ends[here + 1])
        came = room.part(0, ends[here + 1] - ends[here])
        await messages.exchange(behind, array.part(ends[away], ends[away + 1]), before, came)
        await arithmetic.combine(messages.wire, array.dtype, came, own, own)
    await messages.settle()
    for step in range(ranks - 1):
        away, here = (rank - step + 1) % ranks, (rank - step) % ranks
        await messages.exchange(
            behind,
            array.part(ends[away], ends[away + 1]),
            before,
            array.part(ends[here], ends[here + 1]),
        )
    await messages.settle()


async def tree_all_reduce(
    messages: Messages, array: HostArray, room: HostArray, arithmetic: Arithmetic
) -> None:
    """Recursive doubling: partners twice as far apart each time exchange all that they have.

    Ranks beyond a power of two give theirs to one within first, and get the result back.  What the
    lower rank has stands left of the operator, so that all have the same bits.  ``room``: as long
    as ``array``.
    """
    rank, ranks = messages.rank, messages.ranks
    within = 1 << (ranks.bit_length() - 1)
    wire, all_of_it, came = messages.wire, array.all, room.part(0, array.count)
    if rank >= within:
        await messages.gone(await messages.send(rank - within, all_of_it))
        await messages.settle()
        await messages.came(await messages.receive(rank - within, all_of_it))
        return
    if rank + within < ranks:
        await messages.came(await messages.receive(rank + within, came))
        await arithmetic.combine(wire, array.dtype, all_of_it, came, all_of_it)
    reach = 1
    while reach < within:
        partner = rank ^ reach
        await messages.exchange(partner, all_of_it, partner, came)
        await messages.settle()  # what was sent from is written now
        left, right = (all_of_it, came) if rank < partner else (came, all_of_it)
        await arithmetic.combine(wire, array.dtype, left, right, all_of_it)
        reach *= 2
    if rank + within < ranks:
        await messages.gone(await messages.send(rank + within, all_of_it))
    await messages.settle()


def room_for(algorithm: str, count: int, ranks: int) -> int:
    """Scratch elements that an all-reduce of ``count`` elements needs."""
    return -(-count // ranks) if algorithm == "ring" else count


async def pairwise_all_to_all(messages: Messages, array: HostArray, into: HostArray) -> None:
    """In n - 1 steps each sends to one that many ranks on, and receives from as many before.

    Part k of ``array`` goes to rank k.  All arrays are as long; where n does not divide that, the
    first ranks' parts have one number more, so ``into`` needs n of the longest.
    """
    rank, ranks = messages.rank, messages.ranks
    ends = bounds(array.count, ranks)
    each = ends[rank + 1] - ends[rank]
    own = array.part(ends[rank], ends[rank + 1])
    if own.length:
        await messages.wire.store(
            into.part(rank * each, (rank + 1) * each).buffer,
            await messages.wire.load(own.buffer),
        )
    for step in range(1, ranks):
        to, of = (rank + step) % ranks, (rank - step) % ranks
        await messages.exchange(
            to, array.part(ends[to], ends[to + 1]), of, into.part(of * each, (of + 1) * each)
        )
    await messages.settle()


SEGMENT = 16384  # bytes that go around the ring at a time: four pages


async def tree_broadcast(messages: Messages, piece: Piece, root: int = 0) -> None:
    """A binomial tree: who has it sends it on, to one that is half as far each time."""
    ranks = messages.ranks
    place = (messages.rank - root) % ranks
    reach = 1
    while not place & reach and reach < ranks:
        reach *= 2
    if place:
        parent = (place - reach + root) % ranks
        await messages.came(await messages.receive(parent, piece))
    reach //= 2
    while reach:
        if place + reach < ranks:
            await messages.gone(await messages.send((place + reach + root) % ranks, piece))
        reach //= 2
    await messages.settle()


async def ring_broadcast(messages: Messages, piece: Piece, root: int = 0) -> None:
    """A pipeline along the ring: segments are sent on while the next ones come."""
    ranks = messages.ranks
    place = (messages.rank - root) % ranks
    before, behind = (messages.rank - 1) % ranks, (messages.rank + 1) % ranks
    begins = range(0, piece.length, SEGMENT)
    segments = [Piece(piece.whole, piece.at + at, min(SEGMENT, piece.length - at)) for at in begins]
    asked = deque(
        [await messages.receive(before, one) for one in segments[:2]] if place else [],
    )
    for number, segment in enumerate(segments):
        if place:
            await messages.came(asked.popleft())
            if number + 2 < len(segments):  # two at a time, so that its sender need not wait
                asked.append(await messages.receive(before, segments[number + 2]))
        if place < ranks - 1:
            await messages.send(behind, segment)
    await messages.settle()


ASK, GRANT, RELEASE, PLACE = range(ARRIVED + 1, ARRIVED + 5)  # kinds of notes
WORD = bytes(7)  # with its kind a note has 8 bytes
_KEY = struct.Struct("<QQ")
PAUSE_US = 1.0  # between two looks of a process at memory of its own


class Lock(Protocol):
    """One process's view of a lock."""

    async def open(self) -> None:
        """Initialize the lock; all processes call this."""

    async def acquire(self) -> None:
        """Wait until this process holds the lock."""

    async def release(self) -> None:
        """Pass the lock to the next waiter."""


class ManagedLock:
    """A queue at rank 0, which grants the lock in the order of requests while it waits itself."""

    def __init__(self, messages: Messages) -> None:
        self._messages = messages
        self._is_mine = False
        self._queue: deque[int] = deque()  # at the manager: the holder, and who waits behind it
        messages.on(ASK, self._enqueue)
        messages.on(RELEASE, self._dequeue)
        messages.on(GRANT, self._have)

    async def open(self) -> None:
        """Does nothing."""

    async def acquire(self) -> None:
        """Ask the manager, and wait for its grant."""
        if self._messages.rank == 0:
            await self._enqueue(0, b"")
        else:
            await self._messages.say(0, ASK, WORD)
        await self._messages.wait_until(lambda: self._is_mine)

    async def release(self) -> None:
        """Tell the manager without waiting."""
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
        """Announce the address of the words at rank 0."""
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
        """Take a number above all others', and wait until no process has a lower one."""
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
        """Withdraw the number."""
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
