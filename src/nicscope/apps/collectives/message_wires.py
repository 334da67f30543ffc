"""Collectives over U-Net and Trapeze, which write to no peer's memory: messages are all they have.

Pieces of arrays lie in a receive buffer as they come, and the processor copies them to the array,
at the price that the platform has for that.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import TYPE_CHECKING, Any

from nicscope.apps.collectives.mailbox import Key, Note, Placed, Wire
from nicscope.errors import SimulationError, WaitTimeoutError
from nicscope.interfaces.active_messages import (
    FIRST_FREE,
    HEADER,
    LONGEST_TIME_OUT_US,
    MOST_TRIES,
    NEVER_US,
    PAGE,
    SLOT,
    ActiveMessages,
    Kept,
    Stream,
)

if TYPE_CHECKING:
    from nicscope.interfaces.programs import Gate
    from nicscope.interfaces.trapeze import Endpoint
    from nicscope.interfaces.unet import Process


class MessageWire(Wire):
    """A wire over messages alone: offered arrays have numbers, and nothing is pinned for that."""

    refusals: tuple[str, str]  # of remote writes and reads

    def __init__(self, endpoint: Any, rank: int, ranks: int) -> None:
        super().__init__(endpoint, rank, ranks)
        self._offered: list[Any] = []
        self._keys: dict[tuple[int, int], Key] = {}
        self._has_put = False

    async def offer(self, buffer: Any) -> Key:
        """Assign a number to the buffer."""
        place = (buffer.address, len(buffer))
        if place not in self._keys:
            self._keys[place] = Key(len(self._offered))
            self._offered.append(buffer)
        return self._keys[place]

    async def write(self, rank: int, key: Key, offset: int, buffer: Any) -> None:  # noqa: ARG002
        """Not supported."""
        raise SimulationError(self.refusals[0])

    async def fetch(self, rank: int, key: Key, offset: int, buffer: Any) -> None:  # noqa: ARG002
        """Not supported."""
        raise SimulationError(self.refusals[1])


ON_NOTE, ON_PIECE = FIRST_FREE, FIRST_FREE + 1  # handlers of Active Messages
KEY_BITS = 32  # of the second argument, above the end of what is put
BUFFERS_EACH = 8  # of a peer


class UNetWire(MessageWire):
    """One process with Active Messages: they carry notes, and pieces of arrays."""

    refusals = (
        "U-Net writes to no other process's memory",
        "U-Net reads no other process's memory",
    )
    short = SLOT - HEADER.size

    def __init__(self, process: Process, ranks: int) -> None:
        super().__init__(process, process.node, ranks)
        self._layer = ActiveMessages(process, ranks, max(64, BUFFERS_EACH * ranks))
        self._layer.on(ON_NOTE, self._hear)
        self._layer.on(ON_PIECE, self._place)

    async def open(self) -> None:
        """Open the layer, which connects all."""
        await self._layer.open()
        self._page = self._layer.endpoint.allocate(PAGE)

    async def close(self) -> None:
        """Serve peers until no one sends any more."""
        await self._layer.linger()

    def allocate(self, byte_count: int) -> Any:
        """Memory of the process; of its pinned area where original U-Net is."""
        return self._layer.endpoint.allocate(max(1, byte_count))

    async def note(self, rank: int, content: bytes) -> None:
        """Send a small Active Message."""
        await self._layer.request(rank, ON_NOTE, content=content)

    async def _take(self) -> None:
        await self._layer.wait_until(lambda: bool(self._events))

    async def _hear(self, rank: int, first: int, second: int, content: bytes) -> None:
        del first, second
        self._events.append(Note(rank, content))

    async def _place(self, rank: int, first: int, second: int, content: bytes) -> None:
        """Copy a piece to its place; the last one completes the ``put``."""
        key, end = second >> KEY_BITS, second & ((1 << KEY_BITS) - 1)
        came = self._page.part(0, len(content))
        await came.write(content)  # where the layer has it: no time of its own
        await self.endpoint.copy(came, self._offered[key].part(first, len(content)))
        if first + len(content) == end:  # its sender waits to hear of that
            await self._layer.acknowledge(rank)
            self._events.append(Placed(rank))

    async def put(self, rank: int, key: Key, offset: int, buffer: Any) -> None:
        """Store the buffer remotely in pieces, in place."""
        end = offset + len(buffer)
        self._has_put = True
        await self._layer.store(rank, ON_PIECE, offset, buffer, key.first << KEY_BITS | end)

    async def settle(self) -> None:
        """Wait until all pieces are acknowledged."""
        if self._has_put:
            await self._layer.flush()
            self._has_put = False


HEADER = struct.Struct("<BBBB")  # kind, number, what is expected, bytes of a note
PIECE = struct.Struct("<IQQ")  # key, offset, end of what is put
NOTE, PUT, ACK = range(3)
CONTROL_BYTES = 128
ALIGNMENT = 4
ROOMS = 16  # for copies of pieces that DMA cannot begin at
TOLD_AFTER = 8  # messages taken, of which a peer hears by itself
LEAST_US = 0.001  # of a wait: what is due a rounding error later comes due by it
LINGER_US = 8 * LONGEST_TIME_OUT_US


class TrapezeWire(MessageWire):
    """One process with an endpoint of Trapeze: control messages are notes, payloads pieces.

    A payload comes to a buffer of the receive ring.  Trapeze sends nothing again, so where the
    network may lose something messages are numbered, acknowledged and repeated by the rules of
    Active Messages (``nicscope.interfaces.active_messages``).
    """

    refusals = (
        "Trapeze writes to no other process's memory by name",
        "Trapeze reads no other process's memory",
    )
    short = CONTROL_BYTES - HEADER.size
    endpoint: Endpoint

    def __init__(self, endpoint: Endpoint, ranks: int, payload: int, *, is_lossy: bool) -> None:
        """``payload``: bytes of the longest; ``is_lossy``: what is sent may have to go again."""
        super().__init__(endpoint, endpoint.node, ranks)
        self._payload = payload // ALIGNMENT * ALIGNMENT
        self._is_lossy = is_lossy
        peers = [peer for peer in range(ranks) if peer != self.rank]
        self._streams = {peer: Stream(TOLD_AFTER) for peer in peers}
        self._rooms: deque[Any] = deque()

    async def open(self) -> None:
        """Allocate staging buffers; peers are addressed by their numbers."""
        self._rooms.extend(self.endpoint.allocate(self._payload) for _ in range(ROOMS))

    async def close(self) -> None:
        """Stay until no peer has sent for a long time, where the network loses messages."""
        await self.settle()
        while any(stream.kept for stream in self._streams.values()):
            await self._take()
        if not self._is_lossy or self.ranks == 1:
            return
        seen, until = -1, 0.0
        while self.now_us < until or seen != self._duplicates:
            if seen != self._duplicates:
                seen, until = self._duplicates, self.now_us + LINGER_US
            await self._take(until)

    @property
    def _duplicates(self) -> int:
        return sum(stream.duplicates for stream in self._streams.values())

    async def load(self, buffer: Any) -> bytes:
        """The program's loads."""
        content: bytes = buffer.bytes.tobytes()
        return content

    async def note(self, rank: int, content: bytes) -> None:
        """Send a control message without a payload."""
        await self._send(rank, NOTE, content, None, None)

    async def _send(self, rank: int, kind: int, words: bytes, payload: Any, room: Any) -> None:
        """Send a message, to be acknowledged if the network is lossy; ``room`` is freed then."""
        stream = self._streams[rank]
        number = 0
        if self._is_lossy:
            while stream.is_full:
                await self._take()
            number = stream.number()
        head = HEADER.pack(kind, number, 0, len(words)) + words
        request = await self._post_message(rank, head, payload)
        used = None if room is None else (self._rooms, room)
        if self._is_lossy:
            stream.keep(Kept(request, (head, payload), used, False), self.now_us)
        elif room is not None:  # a write to it waits until the NIC has read it
            self._rooms.append(room)

    async def _post_message(self, rank: int, head: bytes, payload: Any) -> int:
        """Post a message with the current acknowledgement number for ``rank``."""
        expected = bytes((self._streams[rank].acknowledging(),))
        control = head[:2] + expected + head[3:]
        self.endpoint.reserve(len(control))[:] = control
        return await self.endpoint.send(rank, payload)

    async def _take(self, until: float = NEVER_US, wakeup: Gate | None = None) -> None:
        """Receive a message, or do what is due before one arrives, or before ``wakeup`` opens."""
        due = min([until, *(stream.due for stream in self._streams.values())])
        try:
            wait = None if due == NEVER_US else max(LEAST_US, due - self.now_us)
            if wakeup is None:
                message = await self.endpoint.receive(timeout_us=wait)
            else:
                waits = self.endpoint.receive(), wakeup.wait(self.endpoint)
                done = dict(await self.endpoint.wait_any(*waits, timeout_us=wait))
                if 0 not in done:
                    return
                message = done[0]
        except WaitTimeoutError:
            await self._send_due()
            return
        kind, number, expected, length = HEADER.unpack(message.scan(HEADER.size))
        words = message.scan(length)
        content = message.payload.tobytes()
        self.endpoint.release(message)
        rank = message.sender
        if self._is_lossy and not await self._process_acknowledgement(rank, kind, number, expected):
            return
        if kind == NOTE:
            self._events.append(Note(rank, words))
        elif kind == PUT:
            await self._place(rank, content, *PIECE.unpack(words))

    async def _place(self, rank: int, content: bytes, key: int, at: int, end: int) -> None:
        """Copy a piece to its array; the last one completes the ``put``."""
        await self.endpoint.copy(len(content))
        await self._offered[key].part(at, len(content)).write(content)
        if at + len(content) == end:
            if self._is_lossy:  # its sender waits to hear of that
                await self._post_message(rank, HEADER.pack(ACK, 0, 0, 0), None)
            self._events.append(Placed(rank))

    async def _process_acknowledgement(
        self, rank: int, kind: int, number: int, expected: int
    ) -> bool:
        """Process an acknowledgement; whether the message is the next in sequence."""
        stream = self._streams[rank]
        for kept in stream.acknowledged(expected, self.now_us):
            if kept.used is not None:
                kept.used[0].append(kept.used[1])
        if kind == ACK:
            return False
        is_next = stream.takes(number, True, self.now_us)
        if not is_next or stream.is_acknowledgement_due(self.now_us):
            await self._post_message(rank, HEADER.pack(ACK, 0, 0, 0), None)
        return is_next

    async def _send_due(self) -> None:
        """Send acknowledgements and retransmissions that are due."""
        for rank, stream in self._streams.items():
            if stream.is_acknowledgement_due(self.now_us):
                await self._post_message(rank, HEADER.pack(ACK, 0, 0, 0), None)
            if not stream.is_retransmit_due(self.now_us):
                continue
            if stream.tries > MOST_TRIES:
                raise SimulationError(
                    f"rank {self.rank} does not get through to rank {rank}: a message was sent "
                    f"{stream.tries} times"
                )
            for kept in [*stream.kept]:
                head, payload = kept.pieces
                assert isinstance(head, bytes)
                kept.request = await self._post_message(rank, head, payload)
                stream.repeated += 1

    async def put(self, rank: int, key: Key, offset: int, buffer: Any) -> None:
        """Send the buffer as payloads, in place if DMA can begin there, else from copies."""
        self._has_put = True
        for at in range(0, len(buffer), self._payload):
            piece = buffer.part(at, min(self._payload, len(buffer) - at))
            room = None
            if piece.address % ALIGNMENT:
                while not self._rooms:
                    await self._take()
                room = self._rooms.popleft()
                await room.write(piece.bytes)
                await self.endpoint.copy(len(piece))
                piece = room.part(0, len(piece))
            words = PIECE.pack(key.first, offset + at, offset + len(buffer))
            await self._send(rank, PUT, words, piece, room)

    async def settle(self) -> None:
        """Wait until the NIC has read all payloads, and peers have acknowledged them if lossy."""
        if not self._has_put:
            return
        while self._is_lossy and any(stream.kept for stream in self._streams.values()):
            await self._take()
        await self.endpoint.sent()
        self._has_put = False
