"""Page frames that the kernel's users of a Trapeze endpoint share, and pages mapped without a copy.

The network driver, file and memory services take frames from one pool, and payloads stay in the
frame in which they came.  Source: Trapeze, 2.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.errors import SimulationError
from nicscope.interfaces.arguments import whole

if TYPE_CHECKING:
    from nicscope.interfaces.payloads import HostBuffer
    from nicscope.interfaces.trapeze_endpoint import Endpoint
    from nicscope.interfaces.trapeze_message import Message


class PagePool:
    """A host's free page frames, each of which holds the largest payload."""

    def __init__(self, endpoint: Endpoint, frames: int, page_bytes: int) -> None:
        """Allocate ``frames`` of ``page_bytes``, a power of two, at multiples of it."""
        count = whole(frames, "a number of frames", 1)
        self.page_bytes = page_bytes
        self.endpoint = endpoint
        self._free = [endpoint.allocate(page_bytes, align=page_bytes) for _ in range(count)]

    def __len__(self) -> int:
        """Frames that are free."""
        return len(self._free)

    def take(self) -> HostBuffer:
        """A free frame.  Errors: ``SimulationError`` when there is none."""
        if not self._free:
            raise SimulationError("the page pool has no free frame; give one back, or make more")
        return self._free.pop()

    def give_back(self, frame: HostBuffer) -> None:
        """``frame`` is free again."""
        if len(frame) != self.page_bytes or any(frame is each for each in self._free):
            raise SimulationError("what is given back is a whole frame, and not free already")
        self._free.append(frame)

    def keep(self, message: Message) -> HostBuffer:
        """The frame in which the payload lies; a free one takes its place in the receive ring."""
        instead = self.take()
        try:
            return self.endpoint.keep(message, instead)
        except SimulationError:
            self._free.append(instead)
            raise


class PageMap:
    """A process's buffer of whole pages, into which what has come is mapped or copied.

    Mapping takes no time of its own: the paper prints none.
    """

    def __init__(self, pool: PagePool, pages: int) -> None:
        self._pool = pool
        self._frames = [pool.take() for _ in range(whole(pages, "a number of pages", 1))]
        self.mapped = 0  # payloads
        self.copied = 0

    def content(self) -> bytes:
        """What the process reads, page after page."""
        return b"".join(frame.bytes.tobytes() for frame in self._frames)

    def close(self) -> None:
        """Give all frames to the pool: there are no pages any more."""
        while self._frames:
            self._pool.give_back(self._frames.pop())

    async def put(self, message: Message, offset: int) -> bool:
        """Have the payload at byte ``offset``; whether it could be mapped.

        It can if it is a whole page and goes to a whole page: the frame in which it lies takes the
        place of the one that was there, which goes to the pool.  Else the CPU copies it, and its
        frame goes back to the ring.  Errors: what is not within the pages.
        """
        page_bytes = self._pool.page_bytes
        count, begin = message.byte_count, whole(offset, "an offset")
        if begin + count > page_bytes * len(self._frames):
            raise SimulationError(
                f"bytes {begin} to {begin + count} are not in {len(self._frames)} pages of "
                f"{page_bytes}"
            )
        if message.own and count == page_bytes and begin % page_bytes == 0:
            page = begin // page_bytes
            before, self._frames[page] = self._frames[page], self._pool.keep(message)
            self._pool.give_back(before)
            self.mapped += 1
            return True
        await self._copy(message, begin)
        self.copied += 1
        return False

    async def _copy(self, message: Message, begin: int) -> None:
        content = message.payload.tobytes()
        if content:
            await self._pool.endpoint.copy(len(content))
        page_bytes = self._pool.page_bytes
        done = 0
        while done < len(content):
            page, at = divmod(begin + done, page_bytes)
            count = min(len(content) - done, page_bytes - at)
            await self._frames[page].write(content[done : done + count], at)
            done += count
        self._pool.endpoint.release(message)
