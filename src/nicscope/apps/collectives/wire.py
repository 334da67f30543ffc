"""What a process needs of an interface, so that collectives run on it."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from nicscope.errors import SimulationError


class Note(NamedTuple):
    """A peer has said something."""

    rank: int
    content: bytes


class Placed(NamedTuple):
    """All bytes of one ``put`` of a peer are in the array that they were for."""

    rank: int


class Key(NamedTuple):
    """By what a peer names an array that was offered: two numbers of the interface's own."""

    first: int
    second: int = 0


class Wire(Protocol):
    """One process's way to its peers; of each peer everything comes in the order of its sending."""

    rank: int
    ranks: int
    short: int
    """Bytes of the longest note."""
    is_one_sided: bool
    """Whether ``fetch`` reads a peer's memory, without its processor."""

    @property
    def now_us(self) -> float:
        """The process's clock."""

    async def open(self) -> None:
        """Reach all peers, which do so too."""

    async def close(self) -> None:
        """Stay as long as a peer may still need something of this process."""

    def allocate(self, byte_count: int) -> Any:
        """Memory for arrays: the interface's buffers, which have parts and views."""

    async def load(self, buffer: Any) -> bytes:
        """The program's loads of all of ``buffer``, with the time that they take."""

    async def store(self, buffer: Any, content: bytes) -> None:
        """The program's stores to the begin of ``buffer``."""

    async def compute(self, microseconds: float) -> None:
        """Keep the processor busy."""

    async def rest(self, microseconds: float) -> None:
        """Leave the processor to others, where the interface has a call for that."""

    async def note(self, rank: int, content: bytes) -> None:
        """Say up to ``short`` bytes to a peer; ``content`` is taken before this returns."""

    async def event(self) -> Note | Placed:
        """What comes next, from anybody."""

    async def offer(self, buffer: Any) -> Key:
        """Let peers put bytes into ``buffer``; offered again, it has the same key at no cost."""

    async def put(self, rank: int, key: Key, offset: int, buffer: Any) -> None:
        """Post ``buffer``, of a byte or more, to ``offset`` of what ``rank`` offered.

        It must stay as it is until ``settle`` returns.
        """

    async def settle(self) -> None:
        """Wait until the NIC has done with everything that was put.

        Errors: ``SimulationError`` if some of it did not get through.
        """

    async def write(self, rank: int, key: Key, offset: int, buffer: Any) -> None:
        """Have ``buffer`` stand there by the end of this, and tell nobody; if ``is_one_sided``."""

    async def fetch(self, rank: int, key: Key, offset: int, buffer: Any) -> None:
        """Fill ``buffer`` from ``offset`` of what ``rank`` offered; if ``is_one_sided``."""


def not_through(here: int, there: int, status: str) -> SimulationError:
    """The error for what did not get from one rank to another."""
    return SimulationError(f"rank {here} does not get through to rank {there}: {status}")
