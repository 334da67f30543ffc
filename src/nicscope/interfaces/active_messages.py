"""Active Messages over an endpoint: every message names the function that takes it at its end.

Small requests of up to 64 bytes are copied to slots of one page (those below 56 travel in their
descriptor).  ``store`` sends from where the data lies, behind a header, and ``get`` has the other
end copy what it answers to buffers of its own; both move at most ``PIECE`` bytes in a message.
Nobody sends a message for which its receiver has no buffer: of a peer's buffers each may fill a
share, and one is empty again when its message is acknowledged.  What the network loses all the
same is sent again (``streams``): a message is taken once, those of a peer in their order.

Source: U-Net/MM, section 6.2, for the layer and its 64-byte and 4 KB buffers; the rest is ours.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import TYPE_CHECKING

import msgspec

from nicscope.errors import SimulationError
from nicscope.interfaces.arguments import raw_bytes, whole
from nicscope.interfaces.buffers import checked_range, memory_of
from nicscope.interfaces.ports.memory import Buffer
from nicscope.interfaces.unet import SMALL, Endpoint, Process
from nicscope.nic.ports.layout import NOBODY

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable, Iterable

    from nicscope.interfaces.programs import Gate

    Handler = Callable[[int, int, int, bytes], Awaitable[None]]

NUMBERS = 256  # a number is a byte of a message's header
WINDOW = 32  # messages that are not acknowledged; less than half of the numbers
# Assumed, like the rest of the layer.  An acknowledgement waits for a message that it can go with;
# a time-out is longer than a page takes from the disk (22 ms) at both ends, and doubles twice.
ACK_DELAY_US = 500.0
TIME_OUT_US = 50_000.0
DOUBLINGS = 2
LONGEST_TIME_OUT_US = TIME_OUT_US * 2**DOUBLINGS
MOST_TRIES = 12
NEVER_US = float("inf")


class Kept(msgspec.Struct):
    """A message that is not acknowledged, and what it is sent from."""

    request: int  # the descriptor that sent it last
    pieces: tuple[Buffer | bytes, ...]  # the header first, by itself or with all that follows
    used: tuple[deque[Buffer], Buffer] | None  # the layer's buffer with the header; where it goes
    fills: bool  # a buffer of the share that the peer has for this process


class Stream:
    """What one process and one peer have sent each other and not acknowledged."""

    def __init__(self, acknowledge_every: int) -> None:
        """``acknowledge_every``: the peer hears of so many buffers that are empty again at once."""
        self._told_after = acknowledge_every
        self.kept: deque[Kept] = deque()
        self.repeated = 0  # messages sent again
        self.duplicates = 0  # messages that came again, or before one that is missing
        self.tries = 0  # in a row, without a sign of the peer
        self.owed = 0  # messages taken and not acknowledged
        self._emptied = 0  # buffers that these had filled
        self.expected = 0  # the number of the message that is to come
        self._next = 0
        self._ack_due = NEVER_US
        self._again_due = NEVER_US

    @property
    def is_full(self) -> bool:
        """Whether as many messages are on their way as may be."""
        return len(self.kept) >= WINDOW

    @property
    def filled(self) -> int:
        """Buffers of the peer that are not empty, as far as is known."""
        return sum(one.fills for one in self.kept)

    @property
    def due(self) -> float:
        """When something is to be done that no message brings about, in us."""
        return min(self._ack_due, self._again_due)

    def number(self) -> int:
        """The number of the next message."""
        number, self._next = self._next, (self._next + 1) % NUMBERS
        return number

    def acknowledging(self) -> int:
        """What a message that leaves now acknowledges."""
        self.owed = self._emptied = 0
        self._ack_due = NEVER_US
        return self.expected

    def keep(self, message: Kept, now: float) -> None:
        """Keep what has been sent until it is acknowledged."""
        if not self.kept:
            self._again_due = now + TIME_OUT_US
        self.kept.append(message)

    def acknowledged(self, expected: int, now: float) -> list[Kept]:
        """What the peer has taken since it said so last; now it says what it expects."""
        oldest = (self._next - len(self.kept)) % NUMBERS
        count = (expected - oldest) % NUMBERS
        if not 0 < count <= len(self.kept):
            return []
        self.tries = 0
        done = [self.kept.popleft() for _ in range(count)]
        self._again_due = now + TIME_OUT_US if self.kept else NEVER_US
        return done

    def takes(self, number: int, filled: bool, now: float) -> bool:
        """Whether the message of that number is the next one; it is owed an acknowledgement.

        ``filled``: it came in a buffer.
        """
        if number != self.expected:
            self.duplicates += 1
            return False
        self.expected = (self.expected + 1) % NUMBERS
        if not self.owed:
            self._ack_due = now + ACK_DELAY_US
        self.owed += 1
        self._emptied += filled
        return True

    def is_acknowledgement_due(self, now: float) -> bool:
        """Whether an acknowledgement is to go by itself now."""
        is_much = self.owed >= WINDOW // 2 or self._emptied >= self._told_after
        return is_much or self._ack_due <= now

    def is_retransmit_due(self, now: float) -> bool:
        """Whether everything that is kept goes again now; then the next time is noted."""
        if self._again_due > now:
            return False
        self.tries += 1
        self._again_due = now + TIME_OUT_US * 2 ** min(self.tries, DOUBLINGS)
        return True


EXPECTED = 2  # where in a header that lies
IN_FLIGHT = 48  # descriptors of an endpoint at a time; a queue has 64 places


class Links:
    """What one process sends its peers, and what it has taken of each."""

    def __init__(
        self,
        node: int,
        peers: Iterable[int],
        share: int,
        acknowledgement: Callable[[int], bytes],
    ) -> None:
        """``share``: buffers that a peer may fill, which hears of it when half of them have been.

        ``acknowledgement``: the header that says what is expected and nothing else.
        """
        self.node = node
        self.streams = {peer: Stream(max(1, share // 2)) for peer in peers}
        self.tags: dict[int, Hashable] = {}
        self._acknowledgement = acknowledgement
        self._using: set[int] = set()  # requests that the NIC has not done with
        self.endpoint: Endpoint
        self.slot: Buffer | None = None  # of an acknowledgement that its descriptor does not hold

    @property
    def due(self) -> float:
        """When something is to be done that no message brings about, in us."""
        return min((stream.due for stream in self.streams.values()), default=NEVER_US)

    @property
    def is_awaited(self) -> bool:
        """Whether something has not been acknowledged."""
        return any(stream.kept for stream in self.streams.values())

    @property
    def duplicates(self) -> int:
        """Messages received twice, or ahead of one that is missing."""
        return sum(stream.duplicates for stream in self.streams.values())

    @property
    def repeated(self) -> int:
        """Messages retransmitted."""
        return sum(stream.repeated for stream in self.streams.values())

    @property
    def _now(self) -> float:
        return self.endpoint.process.now_us

    async def post(
        self,
        node: int,
        used: tuple[deque[Buffer], Buffer] | None,
        pieces: tuple[Buffer | bytes, ...],
        *,
        fills: bool,
    ) -> None:
        """Send a message and keep it; ``used`` is its buffer here and where that goes then.

        ``fills``: it fills a buffer of the share that ``node`` has for this process.
        """
        request = await self._send(node, pieces)
        self.streams[node].keep(Kept(request, pieces, used, fills), self._now)

    async def acknowledge(self, node: int) -> None:
        """Sends an acknowledgement of its own, unless one was sent already; it may be lost."""
        stream = self.streams[node]
        if not stream.owed:
            return
        await self._acknowledge_with(node, stream)

    async def _acknowledge_with(self, node: int, stream: Stream) -> None:
        head = self._acknowledgement(stream.acknowledging())
        if self.slot is None:
            await self._send(node, (head,))
            return
        await self.slot.write(head)
        request = await self._send(node, (self.slot,))
        while request in self._using:  # until then its page is the NIC's
            await self._reap()

    async def run_timers(self) -> None:
        """Sends acknowledgements and retransmissions that are due.

        Errors: ``SimulationError`` if a peer has shown no sign of life for too long.
        """
        for node, stream in self.streams.items():
            if stream.is_acknowledgement_due(self._now):
                await self._acknowledge_with(node, stream)
            if not stream.is_retransmit_due(self._now):
                continue
            if stream.tries > MOST_TRIES:
                raise SimulationError(
                    f"node {node} does not answer node {self.node}: a message was sent "
                    f"{stream.tries} times"
                )
            for kept in list(stream.kept):
                await self._retransmit(node, stream, kept)

    async def _retransmit(self, node: int, stream: Stream, kept: Kept) -> None:
        await self._wait_until_sent(kept)
        expected = bytes([stream.acknowledging()])
        first = kept.pieces[0]
        if isinstance(first, bytes):
            first = first[:EXPECTED] + expected + first[EXPECTED + 1 :]
        else:
            await first.part(EXPECTED, 1).write(expected)
        kept.pieces = (first, *kept.pieces[1:])
        stream.repeated += 1
        kept.request = await self._send(node, kept.pieces)

    async def is_next(self, node: int, sequence: int | None, expected: int, filled: bool) -> bool:
        """Note what a header says; whether its message, if it has a number, is to be taken now.

        ``filled``: it has filled a buffer, which is empty again.
        """
        stream = self.streams[node]
        for kept in stream.acknowledged(expected, self._now):
            await self._wait_until_sent(kept)
            if kept.used is not None:
                kept.used[0].append(kept.used[1])
        if sequence is None:
            return False
        is_next = stream.takes(sequence, filled, self._now)
        if not is_next or stream.is_acknowledgement_due(self._now):
            await self._acknowledge_with(node, stream)
        return is_next

    async def done(self) -> None:
        """Acknowledge everything, and wait until the NIC has done with all that was sent."""
        for node in self.streams:
            await self.acknowledge(node)
        while self._using:
            await self._reap()

    async def _wait_until_sent(self, kept: Kept) -> None:
        while kept.request in self._using:
            await self._reap()

    async def _send(self, node: int, pieces: tuple[Buffer | bytes, ...]) -> int:
        while len(self._using) >= IN_FLIGHT:
            await self._reap()
        request = await self.endpoint.send(self.tags[node], *pieces)
        self._using.add(request)
        return request

    async def _reap(self) -> None:
        done = await self.endpoint.sent()
        if not done.ok:
            raise SimulationError(f"node {self.node}: a message was not sent: {done.status}")
        self._using.discard(done.request)


PAGE = 4096
SLOT = 64  # bytes of a small message's buffer
HEADER = struct.Struct("<BBBxIQ")  # handler, number, what is expected of the receiver, arguments
PIECE = PAGE - HEADER.size
# Peers together get half of the buffers, answers a quarter, and the rest is for a question of each.
SMALLEST = 2
ACK, GET, ANSWER, ARRIVED, LEAVE = range(5)  # handlers of the layer's own
WITHOUT_TURN = (GET, ANSWER)  # for which there are buffers beside the shares
LINGER_US = 8 * LONGEST_TIME_OUT_US  # a peer has asked eight times by then, or no more
FIRST_FREE, LAST_FREE = 16, 255  # numbers below are the layer's


class ActiveMessages:
    """One process of ``nodes``, one on each node, that all open the layer."""

    def __init__(self, process: Process, nodes: int, buffers: int = 64, answers: int = 16) -> None:
        """``buffers`` of a page are provided for messages, ``answers`` hold what is answered.

        Errors: ``SimulationError`` if the buffers do not give every peer a share.
        """
        self.process = process
        self._owner = process._owner
        self.node = process.node
        self.nodes = nodes
        self._share = buffers // 2 // max(1, nodes - 1)
        self._most_asked = min(answers, buffers // 4)
        if self._share < SMALLEST or self._most_asked < 1:
            raise SimulationError(
                f"{buffers} receive buffers are too few for {nodes} nodes: give each peer "
                f"{2 * SMALLEST} or more, and {4} in all"
            )
        self._buffers = buffers
        self._answers = answers
        self._handlers: dict[int, Handler] = {
            GET: self._answer,
            ANSWER: self._take_answer,
            ARRIVED: self._count_arrival,
            LEAVE: self._note_leave,
        }
        peers = [peer for peer in range(nodes) if peer != self.node]
        self._links = Links(self.node, peers, self._share, _acknowledgement)
        self._slots: deque[Buffer] = deque()
        self._rooms: deque[Buffer] = deque()
        self._pages: dict[int, Buffer] = {}  # for messages, by address
        self._readable: dict[int, Buffer] = {}
        self._wanted: Buffer | None = None
        self._asked = NOBODY  # who has been asked for that
        self._awaited = 0  # bytes of answers
        self._arrived = 0
        self._left = 0
        self._taking = False  # in a handler, what else there is waits
        self.strange = 0  # messages that are none of the layer's
        self.endpoint: Endpoint

    async def open(self) -> None:
        """Open the endpoint, provide its buffers and connect to every other node's."""
        self._owner.check_caller()
        self.endpoint = await self.process.open(f"active messages {self.node}")
        received = self.endpoint.allocate(self._buffers * PAGE)
        slots = self.endpoint.allocate(PAGE)
        rooms = self.endpoint.allocate(self._answers * PAGE)
        self._links.endpoint = self.endpoint
        if not self._is_inside(HEADER.size):
            self._links.slot = slots.part(0, HEADER.size)
        self._slots.extend(slots.part(at, SLOT) for at in range(SLOT, PAGE, SLOT))
        self._rooms.extend(rooms.part(at * PAGE, PAGE) for at in range(self._answers))
        for at in range(self._buffers):
            page = received.part(at * PAGE, PAGE)
            self._pages[page.address] = page
            await self.endpoint.provide(page)
        for node in range(self.nodes):
            if node != self.node:
                self._links.tags[node] = await self.endpoint.connect(
                    node, f"active messages {node}"
                )
        await self.barrier()

    def on(self, number: int, handler: Handler) -> None:
        """Have ``handler(node, first, second, content)`` take messages of ``number``."""
        self._owner.check_caller()
        free = whole(number, "a handler", FIRST_FREE, LAST_FREE)
        if free in self._handlers:
            raise SimulationError(
                f"handler {free} is taken; choose another of {FIRST_FREE} to {LAST_FREE}"
            )
        self._handlers[free] = handler

    def show(self, name: int, memory: Buffer) -> None:
        """Let others ``get`` from ``memory``, which they call ``name``."""
        self._owner.check_caller()
        called = whole(name, "a memory's name", 0, (1 << 16) - 1)
        address, length = checked_range(self._owner, memory_of(self._owner, memory), memory)
        self._readable[called] = Buffer(memory.room, address, length)

    async def request(
        self, node: int, number: int, first: int = 0, second: int = 0, content: bytes = b""
    ) -> None:
        """Send a small message of up to 64 bytes, 16 of which are its header."""
        self._check_peer(node)
        number = whole(number, "a handler", 0, LAST_FREE)
        first = whole(first, "a first argument", 0, (1 << 32) - 1)
        second = whole(second, "a second argument", 0, (1 << 64) - 1)
        content = raw_bytes(content)
        length = HEADER.size + len(content)
        if length > SLOT:
            raise SimulationError(f"a small message has {SLOT} bytes, {length} were given")
        if not self._is_inside(length):
            await self._wait_for_buffer(node)
        await self._send_small(node, number, first, second, content)

    async def store(
        self, node: int, number: int, first: int, data: Buffer, second: int = 0
    ) -> None:
        """Send ``data`` from where it lies, in pieces; ``first`` tells each piece's place.

        A piece that a small message holds goes as one.  The memory must stay as it is until
        ``flush`` returns.
        """
        self._check_peer(node)
        number = whole(number, "a handler", 0, LAST_FREE)
        first = whole(first, "a place", 0, (1 << 32) - 1)
        second = whole(second, "a second argument", 0, (1 << 64) - 1)
        checked_range(self._owner, self.endpoint.memory, data)
        for at in range(0, len(data), PIECE):
            piece = data.part(at, min(PIECE, len(data) - at))
            if HEADER.size + len(piece) <= SLOT:
                await self.request(node, number, first + at, second, await piece.read())
                continue
            await self._wait_for_buffer(node)
            slot = await self._free(self._slots)
            await self._await_window(node)
            await slot.write(self._head(node, number, first + at, second))
            await self._post(node, (self._slots, slot), slot.part(0, HEADER.size), piece)

    async def get(self, node: int, name: int, offset: int, into: Buffer) -> None:
        """Fill ``into`` from ``offset`` of the memory that ``node`` shows as ``name``.

        A handler may do so too: if there is another under way, it asks when that has what it has
        asked for so far, and that one goes on after it.
        """
        self._owner.check_caller()
        name = whole(name, "a memory's name", 0, (1 << 16) - 1)
        offset = whole(offset, "an offset", 0, (1 << 48) - 1)
        checked_range(self._owner, memory_of(self._owner, into), into)
        if node == self.node:
            if name not in self._readable:
                raise SimulationError(f"node {node} shows no memory {name}; show() does")
            await self.process.copy(self._readable[name].part(offset, len(into)), into)
            return
        self._check_peer(node)
        for at in range(0, len(into), PIECE * self._most_asked):
            # By a get in the middle of which this one is; or for room for the question.
            while self._awaited or not self._may_send(node):
                await self._take()
            # From here until the question is sent no message is taken, so no other get begins.  It
            # needs no turn: of each peer there is at most one, for which a buffer is left.
            self._wanted = into.part(at, min(PIECE * self._most_asked, len(into) - at))
            self._asked, self._awaited = node, len(self._wanted)
            await self._send_small(node, GET, self._awaited, name << 48 | (offset + at), b"")
            while self._awaited:
                await self._take()
            await self._links.acknowledge(node)  # whose buffers for answers wait for it

    async def barrier(self) -> None:
        """Wait until all processes are here, and take messages meanwhile."""
        self._owner.check_caller()
        if self.node == 0:
            while self._arrived < self.nodes - 1:
                await self._take()
            self._arrived -= self.nodes - 1
            for node in range(1, self.nodes):
                await self.request(node, LEAVE)
            return
        await self.request(0, ARRIVED)
        while not self._left:
            await self._take()
        self._left -= 1

    async def wait_until(self, is_so: Callable[[], bool]) -> None:
        """Take messages until ``is_so()``, which handlers bring about."""
        self._owner.check_caller()
        while not is_so():
            await self._take()

    async def take_until(self, wakeup: Gate) -> None:
        """Take messages until another task of the process opens ``wakeup``.

        All calls of the layer are one task's: others hand it what it is to send, and ring.
        """
        self._owner.check_caller()
        while not wakeup.is_open:
            await self._take(wakeup=wakeup)

    async def flush(self) -> None:
        """Wait until everything that was sent has arrived, and take messages meanwhile."""
        self._owner.check_caller()
        while self._links.is_awaited:
            await self._take()
        await self._links.done()

    async def acknowledge(self, node: int) -> None:
        """Tell ``node`` at once what has been taken of it, for whoever waits there in ``flush``."""
        self._check_peer(node)
        await self._links.acknowledge(node)

    async def linger(self) -> None:
        """``flush``, and answer whom an acknowledgement has not reached, until nobody asks.

        The last thing that a process does on a network that may lose messages.
        """
        await self.flush()
        seen, until = -1, 0.0
        while self.process.now_us < until or seen != self._links.duplicates:
            if seen != self._links.duplicates:
                seen, until = self._links.duplicates, self.process.now_us + LINGER_US
            await self._take(until)
        await self.flush()

    @property
    def repeated(self) -> int:
        """Messages that were sent again, because nobody had acknowledged them in time."""
        self._owner.check_caller()
        return self._links.repeated

    def _check_peer(self, node: int) -> None:
        """Return if messages go to ``node``: one of the others, once the layer is open."""
        self._owner.check_caller()
        if whole(node, "a node", 0, self.nodes - 1) not in self._links.tags:
            raise SimulationError(
                f"no messages go from node {self.node} to node {node}; open first"
            )

    def _is_inside(self, length: int) -> bool:
        """Whether a message of ``length`` bytes travels in its descriptor, and fills no buffer."""
        return self.process.cluster.small_inside and length < SMALL

    async def _send_small(
        self, node: int, number: int, first: int, second: int, content: bytes
    ) -> None:
        """Send what its descriptor or a slot holds, now that there is a buffer for it."""
        length = HEADER.size + len(content)
        if self._is_inside(length):
            await self._await_window(node)
            await self._post(node, None, self._head(node, number, first, second) + content)
            return
        slot = await self._free(self._slots)
        await self._await_window(node)
        await slot.write(self._head(node, number, first, second) + content)
        small = slot.part(0, length)
        await self._post(node, (self._slots, slot), small, turn=number not in WITHOUT_TURN)

    def _head(self, node: int, number: int, first: int, second: int) -> bytes:
        stream = self._links.streams[node]
        return HEADER.pack(number, stream.number(), stream.acknowledging(), first, second)

    async def _post(
        self,
        node: int,
        used: tuple[deque[Buffer], Buffer] | None,
        *pieces: Buffer | bytes,
        turn: bool = True,
    ) -> None:
        """Send a message and keep it until it is acknowledged; ``turn``: it uses a turn."""
        await self._links.post(node, used, pieces, fills=turn and used is not None)
        while self.endpoint.waiting and not self._taking:
            await self._take()

    def _may_send(self, node: int) -> bool:
        """Whether a small message to ``node`` could go now, without a wait."""
        has_slot = self._is_inside(HEADER.size) or bool(self._slots)
        return has_slot and not self._links.streams[node].is_full

    async def _await_window(self, node: int) -> None:
        while self._links.streams[node].is_full:
            await self._take()

    async def _free(self, free: deque[Buffer]) -> Buffer:
        while not free:
            await self._take()
        return free.popleft()

    async def _wait_for_buffer(self, node: int) -> None:
        """Wait until ``node`` has an empty buffer of those that it has for this process."""
        while self._links.streams[node].filled >= self._share:
            await self._take()

    async def _take(self, until: float = NEVER_US, wakeup: Gate | None = None) -> None:
        """Take the next message, if it comes before something else is due or it is ``until``.

        Or before ``wakeup`` is opened.
        """
        due = min(until, self._links.due)
        coming = self.endpoint.receive() if due == NEVER_US else self.endpoint.receive_until(due)
        if wakeup is None:
            message = await coming
        else:
            ended = dict(await self.process.wait_any(coming, wakeup.wait(self.process)))
            if 0 not in ended:
                return
            message = ended[0]
        if message is None:
            await self._links.run_timers()
            return
        if not message.filled:
            # A transfer needed its entry while it waited: it is translated once more.
            for buffer in message.buffers:
                await self.endpoint.provide(self._pages[buffer.address])
            return
        content = await message.read()
        for buffer in message.buffers:
            await self.endpoint.provide(self._pages[buffer.address])
        if len(content) < HEADER.size or message.node not in self._links.streams:
            self.strange += 1
            return
        number, sequence, expected, first, second = HEADER.unpack_from(content)
        if number not in self._handlers and number != ACK:
            self.strange += 1
            return
        told = None if number == ACK else sequence
        if not await self._links.is_next(message.node, told, expected, bool(message.buffers)):
            return
        taking, self._taking = self._taking, True
        await self._handlers[number](message.node, first, second, content[HEADER.size :])
        self._taking = taking

    async def _answer(self, node: int, first: int, second: int, content: bytes) -> None:
        """Copy what was asked for to buffers of the layer, and send it."""
        del content
        memory, begin = self._readable.get(second >> 48), second & ((1 << 48) - 1)
        if memory is None or begin + first > len(memory):
            self.strange += 1
            return
        for at in range(0, first, PIECE):
            piece = memory.part(begin + at, min(PIECE, first - at))
            room = await self._free(self._rooms)
            await room.write(self._head(node, ANSWER, at, 0))
            await self.process.copy(piece, room.part(HEADER.size, len(piece)))
            answer = room.part(0, HEADER.size + len(piece))
            await self._post(node, (self._rooms, room), answer, turn=False)

    async def _take_answer(self, node: int, first: int, second: int, content: bytes) -> None:
        del second
        if self._wanted is None or node != self._asked or first + len(content) > len(self._wanted):
            self.strange += 1  # it was not asked for that
            return
        await self._wanted.write(content, first)
        self._awaited -= len(content)

    async def _count_arrival(self, node: int, first: int, second: int, content: bytes) -> None:
        del node, first, second, content
        self._arrived += 1

    async def _note_leave(self, node: int, first: int, second: int, content: bytes) -> None:
        del node, first, second, content
        self._left += 1


def _acknowledgement(expected: int) -> bytes:
    return HEADER.pack(ACK, 0, expected, 0, 0)
