"""What layers above call, for every mechanism: one call per step of a message.

All take the machine, the node's number, the mechanism as an int and the present in ps, and return
when the step is done, in ps; what lies between is booked in ``machine.nics.times`` by component.
Addresses are of the host's memory, places of the NIC's.  A send: ``host_write``, ``publish``,
``doorbell``, ``fetch``; a receive: ``prepare`` when it is posted, ``deliver``, ``collect``,
``host_read``.  Each mechanism has kernels of its own (``ways``), and those that a run does not use
are not compiled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.drivers.coherent import ways
from nicscope.drivers.coherent.machine import charge, node_of
from nicscope.drivers.coherent.registration import deregister_region, register_region
from nicscope.drivers.coherent.words import load_words, store_words
from nicscope.jit import kernel
from nicscope.memory.coherence.uncached import WIDEST, drain, uncached_write
from nicscope.nic.coherent.layout import Component
from nicscope.nic.coherent.mechanism import Mechanism

if TYPE_CHECKING:
    from collections.abc import Callable

    from nicscope.drivers.coherent.machine import Machine

    Step = Callable[..., Any]


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


@kernel
def host_write(machine, n, mechanism, address, payload, count, now):  # noqa: ARG001
    """When the program has stored the first ``count`` bytes of ``payload`` at ``address``."""
    node = node_of(machine, n)
    end = store_words(node.host, node.agent, address, payload, np.int64(0), count, now)
    return charge(node, Component.USER_WRITE, now, end)


@kernel
def host_read(machine, n, mechanism, address, payload, count, now):  # noqa: ARG001
    """When the program has the ``count`` bytes at ``address`` in ``payload``."""
    node = node_of(machine, n)
    end = load_words(node.host, node.agent, address, payload, np.int64(0), count, now)
    return charge(node, Component.USER_READ, now, end)


@kernel
def doorbell(machine, n, token, now):
    """When ``token`` is in the NIC's doorbell register; combining buffers leave before it."""
    node = node_of(machine, n)
    scratch = node.nic.scratch
    end = drain(node.host, node.agent.memory, now)
    for i in range(WIDEST):
        scratch[i] = (token >> (8 * i)) & 255
    # The register is no part of NIC memory: what the uncached write carries is put into it here.
    end = uncached_write(
        node.host, scratch, 0, min(WIDEST, node.nic.config[0].doorbell_bytes), scratch, 0, end
    )
    node.nic.registers[0].token = token
    node.nic.registers[0].doorbells += 1
    return charge(node, Component.DOORBELL, now, end)


def publish(
    machine: Machine, n: int, mechanism: int, address: int, count: int, place: int, now: int
) -> int:
    """When the CPU has done its part of sending, before the doorbell.

    PIO moves the bytes to ``place``, software DMA flushes them, CNI copies them into its queue.
    ``REFUSED`` (-1): the queue has no room.
    """
    if mechanism == Mechanism.DMA:
        return prepare(machine, n, mechanism, address, count, now)
    step = WAYS[Mechanism(mechanism)].publish
    if step is None or count == 0:
        return now
    return int(step(machine, n, mechanism, address, count, place, now))


def fetch(
    machine: Machine, n: int, mechanism: int, address: int, count: int, place: int, now: int
) -> int:
    """When the NIC has the ``count`` bytes at ``address``, at ``place_of`` them (ps)."""
    step = WAYS[Mechanism(mechanism)].fetch
    if step is None or count == 0:
        return now
    end = int(step(machine, n, mechanism, address, count, place, now))
    if end == ways.UNREGISTERED:
        return fetch(machine, n, FALLBACK, address, count, place, now)
    return end


def place_of(machine: Machine, n: int, mechanism: int, address: int, count: int, place: int) -> int:
    """Where in NIC memory fetched bytes are: ``place``, or under EDT their registered buffer."""
    if mechanism != Mechanism.EDT:
        return place
    return int(ways.edt_place(machine, n, address, count, place))


def prepare(machine: Machine, n: int, mechanism: int, address: int, count: int, now: int) -> int:
    """When the CPU has done its part of posting a receive: software DMA flushes the buffer."""
    step = WAYS[Mechanism(mechanism)].prepare
    if step is None or count == 0:
        return now
    return int(step(machine, n, mechanism, address, count, now))


def deliver(
    machine: Machine, n: int, mechanism: int, place: int, address: int, count: int, now: int
) -> int:
    """When the host may be told of ``count`` bytes that arrived at ``place`` for ``address``.

    ``REFUSED`` (-1): the receive queue is full of messages that were not collected.
    """
    step = WAYS[Mechanism(mechanism)].deliver
    if step is None or count == 0:
        return now
    end = int(step(machine, n, mechanism, place, address, count, now))
    if end == ways.UNREGISTERED:
        return deliver(machine, n, FALLBACK, place, address, count, now)
    return end


def collect(
    machine: Machine, n: int, mechanism: int, place: int, address: int, count: int, now: int
) -> int:
    """When the CPU has done its part of receiving and the bytes are at ``address``.

    PIO reads them from ``place``, CNI copies them out of its queue; others have nothing to do.
    """
    step = WAYS[Mechanism(mechanism)].collect
    if step is None or count == 0:
        return now
    return int(step(machine, n, mechanism, place, address, count, now))


@kernel
def register(machine, n, address, count, now):
    """What became of registering the range for EDT (``registration``), and when."""
    return register_region(node_of(machine, n), address, count, now)


@kernel
def deregister(machine, n, address, count, now):
    """What became of the end of that registration, and when."""
    return deregister_region(node_of(machine, n), address, count, now)
