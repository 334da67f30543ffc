"""The endpoint of a process and its peers: what leaves is kept until it is acknowledged.

``streams`` says what is due; here it is sent.  Every message has a header whose second and third
bytes are its number and what its sender expects; both are of the stream between the two.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.errors import SimulationError
from nicscope.interfaces.unet.streams import MOST_TRIES, NEVER_US, Kept, Stream

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Hashable, Iterable

    from nicscope.interfaces.ports.memory import Buffer
    from nicscope.interfaces.unet.endpoint import Endpoint

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
        """Messages that came again, or before one that is missing."""
        return sum(stream.duplicates for stream in self.streams.values())

    @property
    def repeated(self) -> int:
        """Messages that were sent again."""
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
        """Say by itself what has been taken, if nothing has said it yet; it may be lost."""
        stream = self.streams[node]
        if not stream.owed:
            return
        await self._say(node, stream)

    async def _say(self, node: int, stream: Stream) -> None:
        head = self._acknowledgement(stream.acknowledging())
        if self.slot is None:
            await self._send(node, (head,))
            return
        await self.slot.write(head)
        request = await self._send(node, (self.slot,))
        while request in self._using:  # until then its page is the NIC's
            await self._reap()

    async def mind(self) -> None:
        """See to acknowledgements and repetitions that are due.

        Errors: ``SimulationError`` if a peer has shown no sign of life for too long.
        """
        for node, stream in self.streams.items():
            if stream.must_acknowledge(self._now):
                await self._say(node, stream)
            if not stream.must_repeat(self._now):
                continue
            if stream.tries > MOST_TRIES:
                raise SimulationError(
                    f"node {node} does not answer node {self.node}: a message was sent "
                    f"{stream.tries} times"
                )
            for kept in list(stream.kept):
                await self._repeat(node, stream, kept)

    async def _repeat(self, node: int, stream: Stream, kept: Kept) -> None:
        await self._have_left(kept)
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
            await self._have_left(kept)
            if kept.used is not None:
                kept.used[0].append(kept.used[1])
        if sequence is None:
            return False
        is_next = stream.takes(sequence, filled, self._now)
        if not is_next or stream.must_acknowledge(self._now):
            await self._say(node, stream)
        return is_next

    async def done(self) -> None:
        """Acknowledge everything, and wait until the NIC has done with all that was sent."""
        for node in self.streams:
            await self.acknowledge(node)
        while self._using:
            await self._reap()

    async def _have_left(self, kept: Kept) -> None:
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
