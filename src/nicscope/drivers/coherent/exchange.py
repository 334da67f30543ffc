"""Many messages in one crossing: a ping-pong between two nodes, over a network without delay."""

from __future__ import annotations

from nicscope.drivers.coherent.boundary import FALLBACK
from nicscope.drivers.coherent.programs import doorbell, host_read, host_write
from nicscope.drivers.coherent.ways import (
    UNREGISTERED,
    cni_collect,
    cni_deliver,
    cni_fetch,
    cni_publish,
    dma_deliver,
    dma_fetch,
    edt_deliver,
    edt_fetch,
    edt_place,
    flush,
    pio_collect,
    pio_publish,
)
from nicscope.kernel.decorators import kernel, step
from nicscope.nic.coherent.mechanism import Mechanism

DMA_FALLBACK = int(FALLBACK)
FACTOR = 167  # bytes of a pattern differ from message to message and from place to place


@step
def write_pattern(payload, count, number):
    """Fill ``payload`` with the bytes of message ``number``."""
    for i in range(count):
        payload[i] = (FACTOR * (number + i) + (i >> 8) + (number >> 8)) & 255


@step
def wrong_bytes(payload, count, number):
    """Bytes of ``payload`` that are not those of message ``number``."""
    wrong = 0
    for i in range(count):
        wrong += payload[i] != (FACTOR * (number + i) + (i >> 8) + (number >> 8)) & 255
    return wrong


@step
def carry(machine, a, start, b, place, count):
    """The network: bytes of one NIC's memory appear in another's."""
    for i in range(count):
        machine.agents.memory[b, place + i] = machine.agents.memory[a, start + i]


@step
def is_programmed(mechanism):
    """Whether the CPU moves the bytes by itself."""
    return mechanism == Mechanism.PIO or mechanism == Mechanism.PIO_COMBINED


@step
def to_nic(machine, n, mechanism, address, count, place, now):
    """When the bytes are in NIC memory: published, announced and fetched, and where they are."""
    if is_programmed(mechanism):
        now = pio_publish(machine, n, mechanism, address, count, place, now)
    elif mechanism == Mechanism.CNI:
        now = cni_publish(machine, n, mechanism, address, count, place, now)
    elif mechanism == Mechanism.DMA:
        now = flush(machine, n, mechanism, address, count, now)
    now = doorbell(machine, n, address, now)
    if is_programmed(mechanism):
        return now, place
    if mechanism == Mechanism.CNI:
        return cni_fetch(machine, n, mechanism, address, count, place, now), place
    if mechanism == Mechanism.EDT:
        end = edt_fetch(machine, n, mechanism, address, count, place, now)
        if end != UNREGISTERED:
            return end, edt_place(machine, n, address, count, place)
        mechanism = DMA_FALLBACK
    return dma_fetch(machine, n, mechanism, address, count, place, now), place


@step
def to_host(machine, n, mechanism, place, address, count, now):
    """When the bytes that arrived at ``place`` are at ``address``: delivered and collected."""
    if is_programmed(mechanism):
        return pio_collect(machine, n, mechanism, place, address, count, now)
    if mechanism == Mechanism.CNI:
        now = cni_deliver(machine, n, mechanism, place, address, count, now)
        return cni_collect(machine, n, mechanism, place, address, count, now)
    if mechanism == Mechanism.EDT:
        end = edt_deliver(machine, n, mechanism, place, address, count, now)
        if end != UNREGISTERED:
            return end
        mechanism = DMA_FALLBACK
    return dma_deliver(machine, n, mechanism, place, address, count, now)


@kernel
def ping_pong(machine, mechanism, layout, payload, count, messages, now):
    """When ``messages`` messages of ``count`` bytes have gone to and fro, and wrong bytes.

    Each is written word by word, moved, read word by word and compared.  ``payload`` (uint8) is
    what the programs hold in registers; ``layout`` is the address of the send buffer and of the
    receive buffer, and a place in NIC memory for messages without a registered buffer.
    """
    source, target, place = layout
    wrong = 0
    for number in range(messages):
        a = number & 1
        b = 1 - a
        write_pattern(payload, count, number)
        if mechanism == Mechanism.DMA:
            now = flush(machine, b, mechanism, target, count, now)
        now = host_write(machine, a, mechanism, source, payload, count, now)
        now, start = to_nic(machine, a, mechanism, source, count, place, now)
        carry(machine, a, start, b, place, count)
        now = to_host(machine, b, mechanism, place, target, count, now)
        now = host_read(machine, b, mechanism, target, payload, count, now)
        wrong += wrong_bytes(payload, count, number)
    return now, wrong
