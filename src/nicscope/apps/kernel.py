"""A kernel's two users of a Trapeze endpoint: network memory, and TCP.

Trapeze was made for them (Trapeze, 2.2).  Network memory (GMS) keeps the pages for which a host has
no frames in other hosts' memory: a page fault asks for one by a control message, and it comes
through the incoming payload table straight into the frame that will hold it.  TCP sends what a
socket is given as aligned payloads of a page, each behind the control message with its header, and
the receiver's socket layer maps whole pages into the reading process or copies.  Both take frames
from one pool.

Of TCP there is what moves bytes: sequence numbers, cumulative acknowledgements (one for every
second segment at least), a window, fast retransmit and a time-out, after either of which all goes
again from the first byte that is missing.  There is no congestion control: between two hosts on one
switch nothing is dropped for want of buffers, as a full receiver holds the link back.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from nicscope.errors import WaitTimeoutError
from nicscope.interfaces.programs import Gate
from nicscope.interfaces.trapeze import Endpoint, HostBuffer, Message, PageMap, PagePool

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WORD = struct.Struct("<BQ")  # what a control message says, and of which page or byte
GET, PUT, SEGMENT, ACK, END = range(5)
PAGE_TAG = 0  # of the payload table: a process waits for one page at a time


async def say(
    endpoint: Endpoint, to: int, what: int, number: int, payload: HostBuffer | None = None
) -> None:
    """Send a control message, with a payload or without."""
    endpoint.reserve(WORD.size)[:] = WORD.pack(what, number)
    await endpoint.send(to, payload, PAGE_TAG if what == GET and payload is not None else -1)


def heard(message: Message) -> tuple[int, int]:
    """What a control message says."""
    what, number = WORD.unpack(message.scan(WORD.size))
    return what, number


# --- network memory ------------------------------------------------------------------------------


class Frame(NamedTuple):
    """A page that is in a frame of this host, and whether it was written since it came."""

    frame: HostBuffer
    is_dirty: bool


class NetworkMemory:
    """A process's pages, of which ``frames`` at most are on this host, and the others on servers.

    The page used longest ago leaves first; it is sent only if it was written.
    """

    def __init__(
        self, endpoint: Endpoint, pool: PagePool, frames: int, servers: Sequence[int]
    ) -> None:
        self._endpoint = endpoint
        self._pool = pool
        self._frames = frames
        self._servers = servers
        self._here: OrderedDict[int, Frame] = OrderedDict()
        self.stalls_us: list[float] = []  # of each page fault
        self.sent_back = 0

    async def use(self, page: int, *, is_write: bool = False) -> HostBuffer:
        """The frame of ``page``, which is fetched if it is not here."""
        if page not in self._here:
            began = self._endpoint.now_us
            if len(self._here) >= self._frames:
                await self._evict()
            self._here[page] = Frame(await self._fetch(page), is_dirty=False)
            self.stalls_us.append(self._endpoint.now_us - began)
        frame, was_dirty = self._here[page]
        self._here[page] = Frame(frame, was_dirty or is_write)
        self._here.move_to_end(page)
        return frame

    async def _fetch(self, page: int) -> HostBuffer:
        """Ask the page's server for it (getpage)."""
        endpoint, frame = self._endpoint, self._pool.take()
        endpoint.map_payload(PAGE_TAG, frame)
        await say(endpoint, self._server(page), GET, page)
        answer = await endpoint.receive()
        endpoint.unmap_payload(PAGE_TAG)
        endpoint.release(answer)
        return frame

    async def _evict(self) -> None:
        """Free the frame of the page used longest ago, and send what was written (putpage)."""
        page, (frame, is_dirty) = self._here.popitem(last=False)
        if is_dirty:
            await say(self._endpoint, self._server(page), PUT, page, frame)
            await self._endpoint.sent()
            self.sent_back += 1
        self._pool.give_back(frame)

    def _server(self, page: int) -> int:
        return self._servers[page % len(self._servers)]

    async def close(self) -> None:
        """Send what was written, and tell the servers that this process uses them no more."""
        while self._here:
            await self._evict()
        for server in self._servers:
            await say(self._endpoint, server, END, 0)


async def serve_pages(endpoint: Endpoint, pool: PagePool, clients: int) -> dict[int, bytes]:
    """Keep pages for so many other hosts until all have ended; what the pages hold then.

    A page that nobody has sent yet is all zeros.  One that comes stays in the frame in which it
    lies, and a free frame takes that one's place in the receive ring.
    """
    pages: dict[int, HostBuffer] = {}
    while clients:
        message = await endpoint.receive()
        what, page = heard(message)
        if what == PUT:
            if page in pages:
                pool.give_back(pages[page])
            pages[page] = pool.keep(message)
            continue
        endpoint.release(message)
        if what == END:
            clients -= 1
            continue
        if page not in pages:
            pages[page] = pool.take()
        await say(endpoint, message.sender, GET, page, pages[page])
    return {page: frame.bytes.tobytes() for page, frame in pages.items()}


# --- TCP -----------------------------------------------------------------------------------------

ACK_EVERY = 2  # segments (RFC 1122, 4.2.3.2)
DUPLICATES = 3  # acknowledgements of the same byte, after which the segment goes again (RFC 5681)
TIMEOUT_US = 200_000.0  # assumed: the least that systems wait; no path of these takes a thousandth
LINGER_US = 4 * TIMEOUT_US
SEND_FRAMES = 64  # pages of the socket's buffer that segments leave from


class Sender:
    """The sending end of a connection."""

    def __init__(self, endpoint: Endpoint, to: int, page_bytes: int, window: int) -> None:
        """``window``: bytes on their way, as the receiver's socket buffer allows."""
        self._endpoint = endpoint
        self._to = to
        self._page_bytes = page_bytes
        self._window = window
        self._frames = [endpoint.allocate(page_bytes) for _ in range(SEND_FRAMES)]
        self._used = 0
        self._acknowledged = self._sent = self._repeats = 0
        self._bell = Gate()
        self.retransmitted = 0  # segments

    async def send(
        self, total: int, content: Callable[[int, int], bytes], protocol_us: float
    ) -> None:
        """Send bytes 0 to ``total`` of a stream, whose bytes ``content(first, end)`` gives.

        Returns when all are acknowledged.  ``protocol_us``: what a segment takes of the processor
        beside copying it from the process to the socket's buffer.
        """
        endpoint = self._endpoint
        taking = endpoint.spawn(self._take_acknowledgements(total))
        furthest = 0
        while self._acknowledged < total:
            count = min(self._page_bytes, total - self._sent)
            if not count or self._sent + count - self._acknowledged > self._window:
                self._bell = Gate()
                await self._wait()
                continue
            first = self._sent
            self._sent += count
            self.retransmitted += first < furthest
            furthest = max(furthest, self._sent)
            frame = self._frames[self._used % SEND_FRAMES]
            self._used += 1
            await frame.write(content(first, first + count))  # when the NIC has read it
            await endpoint.copy(count)
            if protocol_us:
                await endpoint.compute(protocol_us)
            await say(endpoint, self._to, SEGMENT, first, frame.part(0, count))
        await taking.join()
        await say(endpoint, self._to, END, total)

    async def _wait(self) -> None:
        """Wait for an acknowledgement; without one for so long, all goes again."""
        try:
            await self._endpoint.wait_any(self._bell.wait(self._endpoint), timeout_us=TIMEOUT_US)
        except WaitTimeoutError:
            self._sent = self._acknowledged

    async def _take_acknowledgements(self, total: int) -> None:
        while self._acknowledged < total:
            message = await self._endpoint.receive()
            _, number = heard(message)
            self._endpoint.release(message)
            if number > self._acknowledged:
                self._acknowledged, self._repeats = number, 0
                self._sent = max(self._sent, number)
            elif number == self._acknowledged:
                self._repeats += 1
                if self._repeats == DUPLICATES:
                    self._sent = number
            self._bell.open()


class Receiver:
    """The receiving end of a connection, which reads into a buffer of a process again and again."""

    def __init__(self, endpoint: Endpoint, pool: PagePool, buffer_bytes: int, offset: int) -> None:
        """The process's buffer has ``buffer_bytes``, and begins at ``offset`` of a page."""
        self._endpoint = endpoint
        self._offset = offset
        self._buffer_bytes = buffer_bytes
        self.reader = PageMap(pool, -(-(offset + buffer_bytes) // pool.page_bytes))

    async def receive(
        self, total: int, content: Callable[[int, int], bytes], protocol_us: float
    ) -> float:
        """Receive and check ``total`` bytes; when the last came (us)."""
        endpoint, size = self._endpoint, self._buffer_bytes
        expected = unsaid = 0
        ended_us = 0.0
        while True:
            try:
                wait = LINGER_US if expected == total else None
                message = await endpoint.receive(timeout_us=wait)
            except WaitTimeoutError:
                return ended_us  # its end was lost; nobody has sent anything again
            what, first = heard(message)
            if what == END:
                endpoint.release(message)
                return ended_us
            if protocol_us:
                await endpoint.compute(protocol_us)
            if first != expected:
                endpoint.release(message)
                await say(endpoint, message.sender, ACK, expected)
                unsaid = 0
                continue
            await self.reader.put(message, self._offset + first % size)
            expected += message.byte_count
            unsaid += 1
            is_whole = expected % size == 0 or expected == total
            if is_whole:
                begin = (expected - 1) // size * size
                read = self.reader.content()[self._offset :][: expected - begin]
                assert read == content(begin, expected), "the stream is not what was sent"
                ended_us = endpoint.now_us
            if unsaid == ACK_EVERY or is_whole:
                await say(endpoint, message.sender, ACK, expected)
                unsaid = 0
