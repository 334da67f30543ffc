"""What the time of one message went into, without a gap, so that the parts add up to the whole."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from nicscope.nic.coherent.layout import Component

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Part(IntEnum):
    """Of a message's latency.  Source: EDT, 7.2 and Figures 8 and 9.

    LIBRARY, COPY and WAIT are ours: the paper's Transport is the time of VI-MSG alone.
    """

    USER_DATA = 0  # the program writes the message
    DMA_INIT = 1
    DMA_EXEC = 2
    DMA_INTERRUPT = 3
    COHERENCE = 4  # the NIC writes back, or takes, blocks that it keeps
    BLOCK_WAIT = 5  # the NIC waits for blocks that it reads because the host wrote them
    COPY = 6  # the processor moves or flushes the message itself
    SEND = 7  # transport at the sender: the NIC's messaging
    RECEIVE = 8
    LIBRARY = 9  # the library posts and polls
    WAIT = 10  # for a processor, or a program, that has something else to do
    PIN = 11  # with a translation cache: the library checks and pins
    TRANSLATION = 12  # the NIC looks pages up
    MISS = 13  # it has to wait for a translation


DATA_TRANSFER = (
    Part.DMA_INIT,
    Part.DMA_EXEC,
    Part.DMA_INTERRUPT,
    Part.COHERENCE,
    Part.BLOCK_WAIT,
    Part.COPY,
)
TRANSLATING = (Part.PIN, Part.TRANSLATION, Part.MISS)
TRANSPORT = (Part.SEND, Part.RECEIVE)

# What the machine books by component, by part; the rest belongs to whoever called.
PART_OF = {
    Component.DMA_INIT: Part.DMA_INIT,
    Component.DMA_EXEC: Part.DMA_EXEC,
    Component.DMA_INTERRUPT: Part.DMA_INTERRUPT,
    Component.EDT_WAIT: Part.BLOCK_WAIT,
    Component.EDT_WRITE_BACK: Part.COHERENCE,
    Component.EDT_INVALIDATE: Part.COHERENCE,
    Component.QUEUE_WAIT: Part.BLOCK_WAIT,
    Component.QUEUE_DELIVER: Part.COHERENCE,
    Component.FLUSH: Part.COPY,
    Component.PIO_WRITE: Part.COPY,
    Component.PIO_READ: Part.COPY,
    Component.QUEUE_WRITE: Part.COPY,
    Component.QUEUE_READ: Part.COPY,
}


class Journal:
    """Of one message: ``begin`` and ``at`` (ps), and picoseconds by part between them."""

    __slots__ = ("_booked", "_parts", "at", "begin")

    def __init__(self, begin: int) -> None:
        self.begin = begin
        self.at = begin
        self._parts = [0] * len(Part)
        self._booked: list[tuple[Part, int, NDArray[np.int64], NDArray[np.int64]]] = []

    @property
    def parts(self) -> list[int]:
        """By ``Part``."""
        for part, spent, before, after in self._booked:
            left = spent
            for component, ps in enumerate((after - before).tolist()):
                if ps and component in PART_OF:
                    self._parts[PART_OF[Component(component)]] += ps
                    left -= ps
            self._parts[part] += left
        self._booked.clear()
        return self._parts

    def spend(self, part: Part, until: int) -> None:
        """All time from where the journal stands up to ``until`` went into ``part``."""
        self._parts[part] += until - self.at
        self.at = until

    def resume(self, now: int) -> None:
        """The message is being worked on again; it waited."""
        self.spend(Part.WAIT, now)

    def overlap(self, other: Journal) -> None:
        """What is left of another's time, which ran beside, from here on: in its own parts."""
        if other.at <= self.at:
            return
        self.spend(Part.WAIT, max(self.at, other.begin))
        hidden = self.at - other.begin
        for part, ps in enumerate(other.parts):
            self.spend(Part(part), self.at + ps - min(hidden, ps))
            hidden -= min(hidden, ps)

    def book(
        self, part: Part, before: NDArray[np.int64], after: NDArray[np.int64], until: int
    ) -> None:
        """A step up to ``until``: what the machine booked by component, else ``part``.

        ``before`` and ``after`` are its times by component.  Most journals are never read, so
        they are told apart when this one is.
        """
        self._booked.append((part, until - self.at, before, after))
        self.at = until
