"""What a process reads out of its port: how a descriptor ended, and what has come."""

from __future__ import annotations

from typing import NamedTuple


class Done(NamedTuple):
    """How a descriptor ended."""

    request: int
    status: str  # "done", or what was wrong

    @property
    def ok(self) -> bool:
        """Whether it did what it should."""
        return self.status == "done"


class Arrival(NamedTuple):
    """What a port reports as received."""

    operation: int
    name: int  # tag or export
    node: int  # the peer's
    length: int
    content: bytes | None  # of a small message, in the report itself
    buffers: tuple[int, ...]  # addresses of those that were filled
    offset: int
    status: str
