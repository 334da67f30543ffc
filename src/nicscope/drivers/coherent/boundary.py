"""What layers above call, for every mechanism: one call per step of a message.

All take the present in ps and return when the step is done, in ps; what lies between is booked in
``machine.nics.times`` by component.  Addresses are of the host's memory, places of the NIC's.  A
send: ``write``, ``publish``, ``doorbell``, ``fetch``; a receive: ``prepare`` when it is posted,
``deliver``, ``collect``, ``read``.  Each mechanism has kernels of its own (``ways``), and those
that a run does not use are not compiled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.drivers.coherent import programs, ways
from nicscope.drivers.coherent.binding import Binding
from nicscope.kernel.decorators import kernel
from nicscope.nic.coherent.mechanism import Mechanism

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from nicscope.nic.ways.hosts import AtBuses

    Step = Callable[..., Any]

REFUSED = -1


class Way(NamedTuple):
    """A mechanism's kernels; where one is None there is nothing to do and no time passes."""

    publish: Step | None = None
    fetch: Step | None = None
    prepare: Step | None = None
    deliver: Step | None = None
    collect: Step | None = None


_PIO = Way(publish=ways.pio_publish, collect=ways.pio_collect)
_COHERENT = Way(fetch=ways.dma_fetch, deliver=ways.dma_deliver)
WAYS = {
    Mechanism.PIO: _PIO,
    Mechanism.PIO_COMBINED: _PIO,
    Mechanism.DMA: _COHERENT._replace(prepare=ways.flush),
    Mechanism.DMA_RETRY: _COHERENT,
    Mechanism.DMA_INTERVENTION: _COHERENT,
    Mechanism.CNI: Way(ways.cni_publish, ways.cni_fetch, None, ways.cni_deliver, ways.cni_collect),
    Mechanism.EDT: Way(fetch=ways.edt_fetch, deliver=ways.edt_deliver),
}
FALLBACK = Mechanism.DMA_INTERVENTION  # serves what EDT has not registered


class Handling(NamedTuple):
    """The machine, and bytes that a call from outside brings or takes."""

    machine: AtBuses
    payload: NDArray[np.uint8]


@kernel
def write_payload(handling, n, mechanism, address, count, now):
    """``programs.host_write`` of the first ``count`` bytes of the payload."""
    return programs.host_write(
        handling.machine, n, mechanism, address, handling.payload, count, now
    )


@kernel
def read_payload(handling, n, mechanism, address, count, now):
    """``programs.host_read`` into the payload."""
    return programs.host_read(handling.machine, n, mechanism, address, handling.payload, count, now)


class Boundary:
    """Between host and interface of node ``n`` of ``machine``, under one mechanism."""

    def __init__(self, machine: AtBuses, n: int, mechanism: int) -> None:
        self._machine = machine
        self._n = n
        self._mechanism = int(mechanism)
        self._bound = Binding(machine, n)
        self._moving = Binding(machine, n, self._mechanism)
        self._way = WAYS[Mechanism(mechanism)]
        self._hold(4096)

    def _step(self, step: Step, *numbers: int) -> int:
        return int(self._moving.of(step)(*numbers))

    def _hold(self, count: int) -> None:
        """Have room for so many bytes from or for outside."""
        payload = np.zeros(count, np.uint8)
        self._payload = payload.data
        self._handling = Binding(Handling(self._machine, payload), self._n, self._mechanism)

    def with_payload(self, step: Step, raw: bytes, address: int, now: int) -> int:
        """What ``step`` (handling, node, mechanism, address, bytes, now) does with ``raw``."""
        count = len(raw)
        if len(self._payload) < count:
            self._hold(2 * count)
        self._payload[:count] = raw
        return int(self._handling.of(step)(address, count, now))

    def write(self, address: int, raw: bytes, now: int) -> int:
        """When the program has stored ``raw`` at ``address``, word by word."""
        return self.with_payload(write_payload, raw, address, now)

    def read(self, address: int, count: int, now: int) -> tuple[bytes, int]:
        """``count`` bytes at ``address`` as the program reads them, and when it has them."""
        if len(self._payload) < count:
            self._hold(2 * count)
        end = self._handling.of(read_payload)(address, count, now)
        return self._payload[:count].tobytes(), int(end)

    def doorbell(self, token: int, now: int) -> int:
        """When ``token`` is in the NIC's register."""
        return int(self._bound.of(programs.doorbell)(token, now))

    def publish(self, address: int, count: int, place: int, now: int) -> int:
        """When the CPU has done its part of sending, before the doorbell.

        PIO moves the bytes to ``place``, software DMA flushes them, CNI copies them into its
        queue.  ``REFUSED``: the queue has no room.
        """
        if self._mechanism == Mechanism.DMA:
            return self.prepare(address, count, now)
        step = self._way.publish
        return now if step is None or count == 0 else self._step(step, address, count, place, now)

    def fetch(self, address: int, count: int, place: int, now: int) -> int:
        """When the NIC has the ``count`` bytes at ``address``, at ``place_of`` them."""
        step = self._way.fetch
        if step is None or count == 0:
            return now
        end = self._step(step, address, count, place, now)
        if end == ways.UNREGISTERED:
            return self._beside_edt(ways.dma_fetch, address, count, place, now)
        return end

    def place_of(self, address: int, count: int, place: int) -> int:
        """Where in NIC memory fetched bytes are: ``place``, or EDT's buffer for them."""
        if self._mechanism != Mechanism.EDT:
            return place
        return int(self._bound.of(ways.edt_place)(address, count, place))

    def prepare(self, address: int, count: int, now: int) -> int:
        """When the CPU has done its part of posting a receive: software DMA flushes the buffer."""
        step = self._way.prepare
        return now if step is None or count == 0 else self._step(step, address, count, now)

    def deliver(self, place: int, address: int, count: int, now: int) -> int:
        """When the host may be told of ``count`` bytes that arrived at ``place`` for ``address``.

        ``REFUSED``: the receive queue is full of messages that were not collected.
        """
        step = self._way.deliver
        if step is None or count == 0:
            return now
        end = self._step(step, place, address, count, now)
        if end == ways.UNREGISTERED:
            return self._beside_edt(ways.dma_deliver, place, address, count, now)
        return end

    def _beside_edt(self, step: Step, *numbers: int) -> int:
        """What EDT has not registered is moved by DMA with intervention."""
        return int(self._bound.of(step)(int(FALLBACK), *numbers))

    def collect(self, place: int, address: int, count: int, now: int) -> int:
        """When the CPU has done its part of receiving and the bytes are at ``address``.

        PIO reads them from ``place``, CNI copies them out of its queue; others need nothing.
        """
        step = self._way.collect
        return now if step is None or count == 0 else self._step(step, place, address, count, now)

    def register(self, address: int, count: int, now: int) -> tuple[int, int]:
        """What became of registering the range for EDT (``registration``), and when."""
        found, end = self._bound.of(programs.register)(address, count, now)
        return int(found), int(end)

    def deregister(self, address: int, count: int, now: int) -> tuple[int, int]:
        """What became of the end of that registration, and when."""
        found, end = self._bound.of(programs.deregister)(address, count, now)
        return int(found), int(end)
