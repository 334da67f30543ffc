"""One node's way to its machine: steps of a message as calls, each at a time and until a time.

Bytes are real; a message's journal, if there is one, gets every step's time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.drivers.coherent import boundary
from nicscope.drivers.coherent.machine import node_view
from nicscope.drivers.via.completion import write_completion
from nicscope.interfaces.via.journal import Part
from nicscope.nic.coherent.layout import Component
from nicscope.nic.coherent.mechanism import Mechanism

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from nicscope.drivers.coherent.machine import Machine
    from nicscope.interfaces.via.journal import Journal

BY_PROCESSOR = (Mechanism.PIO, Mechanism.PIO_COMBINED, Mechanism.CNI)
COHERENT = (Mechanism.DMA_RETRY, Mechanism.DMA_INTERVENTION, Mechanism.EDT)
REFUSED = -1


class Port:
    """Node ``number`` of ``machine``, under one mechanism."""

    def __init__(self, machine: Machine, number: int, mechanism: Mechanism) -> None:
        self.number = number
        self.mechanism = mechanism
        self.by_processor = mechanism in BY_PROCESSOR  # the NIC cannot reach host memory by itself
        self.coherent = mechanism in COHERENT  # it can, and the host's caches know
        self.flushed = mechanism is Mechanism.DMA
        self._machine = machine
        self._node = node_view(machine, number)
        self._times = self._node.nic.times
        self._payload = np.zeros(64, np.uint8)

    @property
    def times(self) -> dict[str, int]:
        """Picoseconds by component since the beginning."""
        return {part.name.lower(): int(self._times[part]) for part in Component}

    @property
    def counts(self) -> Any:
        """Bus transactions by master and kind, shape (2, kinds)."""
        return self._node.host.counts

    @property
    def memory(self) -> NDArray[np.uint8]:
        """The NIC's own."""
        memory: NDArray[np.uint8] = self._node.agent.memory
        return memory

    @property
    def block(self) -> int:
        """Bytes in which memory is coherent."""
        return int(self._node.nic.config[0]["block"])

    def write(self, address: int, raw: bytes, now: int) -> int:
        """When the CPU has stored ``raw`` at the host's ``address``."""
        payload = self._holding(raw)
        return self._call(boundary.host_write, address, payload, len(raw), now)

    def read(self, address: int, count: int, now: int) -> tuple[bytes, int]:
        """``count`` bytes at the host's ``address`` as the CPU reads them, and when."""
        payload = self._holding(bytes(count))
        end = self._call(boundary.host_read, address, payload, count, now)
        return payload[:count].tobytes(), end

    def publish(
        self, address: int, count: int, place: int, now: int, journal: Journal | None
    ) -> int:
        """When the CPU has done its share of handing the bytes to the NIC; or ``REFUSED``."""
        return self._booked(journal, Part.LIBRARY, boundary.publish, address, count, place, now)

    def prepare(self, address: int, count: int, now: int, journal: Journal | None) -> int:
        """When the CPU has done its share of handing a receive buffer to the NIC."""
        return self._booked(journal, Part.LIBRARY, boundary.prepare, address, count, now)

    def fetch(
        self, address: int, count: int, place: int, now: int, journal: Journal | None, part: Part
    ) -> int:
        """When the NIC has the bytes; see ``fetched``."""
        return self._booked(journal, part, boundary.fetch, address, count, place, now)

    def fetched(self, address: int, count: int, place: int) -> NDArray[np.uint8]:
        """A copy of the bytes that the NIC has fetched from the host's ``address``."""
        at = boundary.place_of(
            self._machine, self.number, int(self.mechanism), address, count, place
        )
        raw: NDArray[np.uint8] = self.memory[at : at + count].copy()
        return raw

    def deliver(
        self, place: int, address: int, count: int, now: int, journal: Journal | None
    ) -> int:
        """When the host may be told of bytes that arrived at ``place``; or ``REFUSED``."""
        return self._booked(journal, Part.RECEIVE, boundary.deliver, place, address, count, now)

    def collect(
        self, place: int, address: int, count: int, now: int, journal: Journal | None
    ) -> int:
        """When the CPU has done its share of receiving and the bytes are at ``address``."""
        return self._booked(journal, Part.LIBRARY, boundary.collect, place, address, count, now)

    def doorbell(self, token: int, now: int) -> int:
        """When ``token`` is in the NIC's register."""
        return int(boundary.doorbell(self._machine, self.number, token, now))

    def complete(self, address: int, raw: bytes, now: int) -> int:
        """When ``raw``, a completion within one block, is in host memory."""
        payload = self._holding(raw)
        return int(write_completion(self._machine, self.number, address, payload, len(raw), now))

    def register(self, address: int, count: int, now: int) -> tuple[int, int]:
        """What became of giving the stretch a buffer on the NIC, and when."""
        found, end = boundary.register(self._machine, self.number, address, count, now)
        return int(found), int(end)

    def deregister(self, address: int, count: int, now: int) -> int:
        """When the NIC knows that nobody uses that buffer any more."""
        _, end = boundary.deregister(self._machine, self.number, address, count, now)
        return int(end)

    def _holding(self, raw: bytes) -> Any:
        if len(self._payload) < len(raw):
            self._payload = np.zeros(2 * len(raw), np.uint8)
        self._payload[: len(raw)] = np.frombuffer(raw, np.uint8)
        return self._payload

    def _call(self, step: Callable[..., Any], *arguments: Any) -> int:
        return int(step(self._machine, self.number, int(self.mechanism), *arguments))

    def _booked(
        self, journal: Journal | None, part: Part, step: Callable[..., Any], *arguments: Any
    ) -> int:
        before = self._times.copy()
        end = self._call(step, *arguments)
        if journal is not None and end != REFUSED:
            journal.book(part, (self._times - before).tolist(), end)
        return end
