"""How endpoints reach each other: tags, the service that names them, links that lose nothing."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from nicscope.drivers.simulate.ports.connections import connect
from nicscope.errors import SimulationError
from nicscope.host.release import is_tag_idle, release_tag
from nicscope.interfaces.ports.shared_memory import Rows
from nicscope.kernel.decorators import kernel
from nicscope.kernel.entry import bound

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from nicscope.drivers.simulate.machine import Machine
    from nicscope.interfaces.ports.memory import Buffer
    from nicscope.interfaces.unet.endpoint import Endpoint


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


NO_CHANNEL = -1


class TagForm(Protocol):
    """What tags are on one kind of network."""

    def tag(self, node: int, channel: int) -> Hashable:
        """The tag by which programs on ``node`` know its ``channel``."""

    def channel(self, node: int, tag: object) -> int:
        """The channel of ``node`` that ``tag`` names; negative if it is no such tag."""


class AtmCircuits:
    """Virtual circuit identifiers: a number from 32 on, as lower ones are the network's own."""

    first = 32  # ITU-T I.361: VCI 0 to 31 are reserved

    def tag(self, node: int, channel: int) -> int:  # noqa: ARG002 - as on any node
        """The VCI of a channel."""
        return self.first + channel

    def channel(self, node: int, tag: object) -> int:  # noqa: ARG002 - as on any node
        """The channel with this VCI."""
        return tag - self.first if type(tag) is int else NO_CHANNEL


class EthernetTag(NamedTuple):
    """A station and a U-Net port on it."""

    station: str
    port: int


class EthernetPorts:
    """An Ethernet address and a port number, as on the DC21140 (U-Net/MM 5.2)."""

    def tag(self, node: int, channel: int) -> EthernetTag:
        """The station's address, here by its number, and the port."""
        return EthernetTag(_station(node), channel)

    def channel(self, node: int, tag: object) -> int:
        """The channel of that port, if the tag was made for this node."""
        if isinstance(tag, EthernetTag) and tag.station == _station(node):
            return tag.port
        return NO_CHANNEL


def _station(node: int) -> str:
    return f"02:00:00:00:{node >> 8:02x}:{node & 255:02x}"


@kernel
def _is_at_rest(machine: Any, n: int, p: int, tag: int) -> Any:
    return is_tag_idle(machine, n, p, tag)


@kernel
def _let_go(machine: Any, n: int, tag: int) -> Any:
    release_tag(machine, n, tag)


Place = tuple[int, int]  # of an endpoint: its node and its port


class End(NamedTuple):
    """One of the two ends of a channel."""

    node: int
    port: int
    tag: int


class Registry:
    """Which endpoints there are, and the channels between them.

    One for the cluster: how the kernels of two nodes agree on a channel is not simulated, so it
    takes no time beyond the caller's system call.
    """

    def __init__(self, machine: Machine, buffer_bytes: int, most_bytes: int) -> None:
        self._ports = machine.ports
        self._buffer_bytes = buffer_bytes
        self._most_bytes = most_bytes
        self._names: dict[tuple[int, str], int] = {}
        self._channels: dict[tuple[Place, Place], tuple[End, End]] = {}
        self._taken: set[tuple[int, int]] = set()
        nodes, tags = self._ports.channels.shape
        self._tags = Rows(nodes, tags, "tags", "channels")
        self._is_at_rest = bound(_is_at_rest, machine)
        self._let_go = bound(_let_go, machine)

    def take_port(self, node: int, own: int, processes: int) -> int:
        """A port of ``node`` for one more endpoint: the process's ``own``, or one of nobody's."""
        many = int(self._ports.table.shape[1])
        port: int
        for port in (own, *range(processes + 1, many)):
            if (node, port) not in self._taken:
                self._taken.add((node, port))
                return port
        raise SimulationError(
            f"node {node} has no endpoint left; give the cluster endpoints={many} or more"
        )

    def is_taken(self, node: int, port: int) -> bool:
        """Whether there is an endpoint at ``port`` of ``node``."""
        return (node, port) in self._taken

    def publish(self, node: int, name: str, port: int) -> None:
        """Let others find the endpoint at ``port`` of ``node`` as ``name``."""
        if (node, name) in self._names:
            raise SimulationError(f"node {node} has an endpoint {name!r} already; close it first")
        self._names[node, name] = port

    def find(self, node: int, name: str) -> int | None:
        """The port of the endpoint ``name`` of ``node``, if it is open."""
        return self._names.get((node, name))

    def names_of(self, node: int) -> list[str]:
        """What the endpoints of ``node`` are found as."""
        return [name for where, name in self._names if where == node]

    def channel(self, node: int, port: int, peer: int, peer_port: int) -> int:
        """The channel of ``node`` between two endpoints; made at both ends if there is none."""
        mine, theirs = (node, port), (peer, peer_port)
        if (mine, theirs) in self._channels:
            return self._channels[mine, theirs][0].tag
        if (theirs, mine) in self._channels:
            return self._channels[theirs, mine][1].tag
        here = self._tags.take(node)
        try:
            there = self._tags.take(peer)
        except SimulationError:
            self._tags.give_back((node, here), once=lambda: True)
            raise
        try:
            streams = connect(self._ports, node, peer)
        except SimulationError:
            self._tags.give_back((node, here), (peer, there), once=lambda: True)
            raise
        ends = End(node, port, here), End(peer, peer_port, there)
        for one, other, stream in zip(ends, ends[::-1], streams, strict=True):
            channel = self._ports.channels[one.node, one.tag]
            channel["stream"] = stream
            channel["port"] = one.port
            channel["node"] = other.node
            channel["tag"] = other.tag
            channel["unit"] = self._buffer_bytes
            channel["most"] = self._most_bytes
            channel["placed"] = -1
        self._channels[mine, theirs] = ends
        return here

    def forget(self, node: int, port: int) -> None:
        """The endpoint has closed: its name is free, and so are its tags at both ends.

        A tag is free once nothing names it: no descriptor, no packet, no message not yet read.
        """
        self._names = {key: at for key, at in self._names.items() if (key[0], at) != (node, port)}
        for key in [*self._channels]:
            if (node, port) in key:
                ends = self._channels.pop(key)
                rows = [(end.node, end.tag) for end in ends]
                self._tags.give_back(*rows, once=partial(self._are_over, ends))
        self._taken.discard((node, port))

    def tags_in_use(self, node: int) -> int:
        """How many tags of ``node`` are registered, or still named."""
        return self._tags.in_use(node)

    def _are_over(self, ends: tuple[End, End]) -> bool:
        """Whether nothing names a channel any more at either end; then it is nobody's."""
        if not all(self._is_at_rest(*end) for end in ends):
            return False
        for end in ends:
            self._let_go(end.node, end.tag)
        return True
