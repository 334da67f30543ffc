"""One node's way to its machine: steps of a message as calls, each at a time and until a time.

Bytes are real; a message's journal, if there is one, gets every step's time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.drivers.coherent.boundary import REFUSED, Boundary
from nicscope.drivers.coherent.machine import node_view
from nicscope.drivers.via.completion import write_completion
from nicscope.interfaces.via.journal import Part
from nicscope.nic.coherent.layout import Component
from nicscope.nic.coherent.mechanism import Mechanism

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from nicscope.interfaces.via.journal import Journal
    from nicscope.nic.ways.hosts import AtBuses

BY_PROCESSOR = (Mechanism.PIO, Mechanism.PIO_COMBINED, Mechanism.CNI)
COHERENT = (Mechanism.DMA_RETRY, Mechanism.DMA_INTERVENTION, Mechanism.EDT)


class Port(Boundary):
    """Node ``number`` of ``machine``, under one mechanism."""

    def __init__(self, machine: AtBuses, number: int, mechanism: Mechanism) -> None:
        super().__init__(machine, number, mechanism)
        self.number = number
        self.mechanism = mechanism
        self.by_processor = mechanism in BY_PROCESSOR  # the NIC cannot reach host memory by itself
        self.coherent = mechanism in COHERENT  # it can, and the host's caches know
        self.flushed = mechanism is Mechanism.DMA
        # Whether the processor has to do something before a doorbell.
        self.has_share = self.by_processor or self.flushed
        self._node = node = node_view(machine, number)
        self._times = node.nic.times
        self._host = node.host.registers[0]
        self.memory: NDArray[np.uint8] = node.agent.memory  # the NIC's own
        self.counts: Any = node.host.counts  # bus transactions by master and kind
        self.block = int(node.nic.config[0]["block"])  # bytes in which memory is coherent

    @property
    def times(self) -> dict[str, int]:
        """Picoseconds by component since the beginning."""
        return {part.name.lower(): int(self._times[part]) for part in Component}

    @property
    def bus_busy(self) -> int:
        """Picoseconds that data were on the host's bus."""
        return int(self._host["data_busy"])

    def hand_out(
        self, address: int, count: int, place: int, now: int, journal: Journal | None
    ) -> int:
        """``publish``, and what of it was which component's, to ``journal``."""
        before = self._times.copy()
        end = self.publish(address, count, place, now)
        return self._booked(journal, Part.LIBRARY, before, end)

    def clear(self, address: int, count: int, now: int, journal: Journal | None) -> int:
        """``prepare``, likewise."""
        before = self._times.copy()
        return self._booked(journal, Part.LIBRARY, before, self.prepare(address, count, now))

    def take(
        self, address: int, count: int, place: int, now: int, journal: Journal | None, part: Part
    ) -> int:
        """``fetch``, likewise; see ``fetched``."""
        if journal is None:
            return self.fetch(address, count, place, now)
        before = self._times.copy()
        return self._booked(journal, part, before, self.fetch(address, count, place, now))

    def fetched(self, address: int, count: int, place: int) -> NDArray[np.uint8]:
        """A copy of the bytes that the NIC has fetched from the host's ``address``."""
        at = self.place_of(address, count, place)
        raw: NDArray[np.uint8] = self.memory[at : at + count].copy()
        return raw

    def bring(self, place: int, address: int, count: int, now: int, journal: Journal | None) -> int:
        """``deliver``, likewise."""
        if journal is None:
            return self.deliver(place, address, count, now)
        before = self._times.copy()
        return self._booked(journal, Part.RECEIVE, before, self.deliver(place, address, count, now))

    def pick_up(
        self, place: int, address: int, count: int, now: int, journal: Journal | None
    ) -> int:
        """``collect``, likewise."""
        before = self._times.copy()
        return self._booked(journal, Part.LIBRARY, before, self.collect(place, address, count, now))

    def complete(self, address: int, raw: bytes, now: int) -> int:
        """When ``raw``, a completion within one block, is in host memory."""
        return self.with_payload(write_completion, raw, address, now)

    def _booked(
        self, journal: Journal | None, part: Part, before: NDArray[np.int64], end: int
    ) -> int:
        if journal is not None and end != REFUSED:
            journal.book(part, before, self._times.copy(), end)
        return end
