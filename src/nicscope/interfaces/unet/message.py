"""What an endpoint's receive queue reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Hashable

    from nicscope.interfaces.ports.memory import Buffer


class Message(NamedTuple):
    """A message, or a buffer that comes back unfilled."""

    tag: Hashable  # of this end: messages sent by it go back to the sender
    node: int  # the sender's
    length: int  # bytes
    buffers: tuple[Buffer, ...]  # that hold it, cut to what they hold; the program's again
    content: bytes | None  # of a small message, which takes no buffer
    status: str  # "done", or why the buffer was not filled

    @property
    def filled(self) -> bool:
        """Whether this is a message, not a buffer that could not be used."""
        return self.status == "done"

    async def read(self) -> bytes:
        """Its bytes, wherever they are; page faults take their time."""
        if self.content is not None:
            return self.content
        return b"".join([await buffer.read() for buffer in self.buffers if self.filled])
