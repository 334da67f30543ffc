"""What layers above call, for every mechanism: one kernel per step of a message.

All take the machine, the node's number, the mechanism as an int and the present in ps, and return
when the step is done, in ps; what lies between is booked in ``machine.nics.times`` by component.
Addresses are of the host's memory, places of the NIC's.  A send: ``host_write``, ``publish``,
``doorbell``, ``fetch``; a receive: ``prepare`` when it is posted, ``deliver``, ``collect``,
``host_read``.
"""

from __future__ import annotations

from nicscope.drivers.coherent.eager import eager_deliver, eager_fetch, home_of, is_registered
from nicscope.drivers.coherent.engine import dma_from_host, dma_to_host, flush_range
from nicscope.drivers.coherent.machine import charge, node_of
from nicscope.drivers.coherent.programmed import pio_to_host, pio_to_nic
from nicscope.drivers.coherent.queues import (
    queue_collect,
    queue_deliver,
    queue_fetch,
    queue_write,
)
from nicscope.drivers.coherent.registration import deregister_region, register_region
from nicscope.drivers.coherent.words import user_read, user_write
from nicscope.jit import kernel, step
from nicscope.memory.coherence.device import INTERVENED, RETRIED, UNSNOOPED
from nicscope.memory.coherence.uncached import WIDEST, drain, uncached_write
from nicscope.nic.coherent.layout import Component
from nicscope.nic.coherent.mechanism import Mechanism

FALLBACK = int(Mechanism.DMA_INTERVENTION)


@step
def serving(node, mechanism, address, count):
    """The mechanism that serves the range: EDT falls back to DMA where nothing is registered."""
    if mechanism == Mechanism.EDT and not is_registered(node, address, count):
        return FALLBACK
    return mechanism


@step
def answer_of(mechanism):
    """How the host's cache meets the DMA engine."""
    if mechanism == Mechanism.DMA:
        return UNSNOOPED
    return RETRIED if mechanism == Mechanism.DMA_RETRY else INTERVENED


@kernel
def host_write(machine, n, mechanism, address, payload, count, now):  # noqa: ARG001
    """When the program has stored the first ``count`` bytes of ``payload`` at ``address``."""
    return user_write(node_of(machine, n), address, payload, count, now)


@kernel
def host_read(machine, n, mechanism, address, payload, count, now):  # noqa: ARG001
    """When the program has the ``count`` bytes at ``address`` in ``payload``."""
    return user_read(node_of(machine, n), address, payload, count, now)


@kernel
def publish(machine, n, mechanism, address, count, place, now):
    """When the CPU has done its part of sending, before the doorbell.

    PIO moves the bytes to ``place``, software DMA flushes them, CNI copies them into its queue.
    ``REFUSED`` (-1): the queue has no room.
    """
    node = node_of(machine, n)
    if count == 0:
        return now
    if mechanism == Mechanism.PIO or mechanism == Mechanism.PIO_COMBINED:
        combined = mechanism == Mechanism.PIO_COMBINED
        return pio_to_nic(node, combined, address, count, place, now)
    if mechanism == Mechanism.DMA:
        return flush_range(node, address, count, now)
    if mechanism == Mechanism.CNI:
        return queue_write(node, address, count, now)
    return now


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


@kernel
def fetch(machine, n, mechanism, address, count, place, now):
    """When the NIC has the ``count`` bytes at ``address``, at ``place_of`` them (ps)."""
    node = node_of(machine, n)
    served = serving(node, mechanism, address, count)
    if count == 0 or served == Mechanism.PIO or served == Mechanism.PIO_COMBINED:
        return now
    if served == Mechanism.CNI:
        return queue_fetch(node, count, place, now)
    if served == Mechanism.EDT:
        return eager_fetch(node, address, count, now)
    return dma_from_host(node, answer_of(served), address, count, place, now)


@kernel
def place_of(machine, n, mechanism, address, count, place):
    """Where in NIC memory fetched bytes are: ``place``, or under EDT their registered buffer."""
    node = node_of(machine, n)
    if serving(node, mechanism, address, count) == Mechanism.EDT:
        return home_of(node, address)
    return place


@kernel
def prepare(machine, n, mechanism, address, count, now):
    """When the CPU has done its part of posting a receive: software DMA flushes the buffer."""
    if mechanism == Mechanism.DMA and count > 0:
        return flush_range(node_of(machine, n), address, count, now)
    return now


@kernel
def deliver(machine, n, mechanism, place, address, count, now):
    """When the host may be told of ``count`` bytes that arrived at ``place`` for ``address``.

    ``REFUSED`` (-1): the receive queue is full of messages that were not collected.
    """
    node = node_of(machine, n)
    served = serving(node, mechanism, address, count)
    if count == 0 or served == Mechanism.PIO or served == Mechanism.PIO_COMBINED:
        return now
    if served == Mechanism.CNI:
        return queue_deliver(node, place, address, count, now)
    if served == Mechanism.EDT:
        return eager_deliver(node, place, address, count, now)
    return dma_to_host(node, answer_of(served), address, count, place, now)


@kernel
def collect(machine, n, mechanism, place, address, count, now):
    """When the CPU has done its part of receiving and the bytes are at ``address``.

    PIO reads them from ``place``, CNI copies them out of its queue; others have nothing to do.
    """
    node = node_of(machine, n)
    if count == 0:
        return now
    if mechanism == Mechanism.PIO or mechanism == Mechanism.PIO_COMBINED:
        return pio_to_host(node, place, address, count, now)
    if mechanism == Mechanism.CNI:
        return queue_collect(node, address, count, now)
    return now


@kernel
def register(machine, n, address, count, now):
    """What became of registering the range for EDT (``registration``), and when."""
    return register_region(node_of(machine, n), address, count, now)


@kernel
def deregister(machine, n, address, count, now):
    """What became of the end of that registration, and when."""
    return deregister_region(node_of(machine, n), address, count, now)
