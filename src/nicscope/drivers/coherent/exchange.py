"""Many messages in one crossing: a ping-pong between two nodes, over a network without delay."""

from __future__ import annotations

from nicscope.drivers.coherent.boundary import (
    collect,
    deliver,
    doorbell,
    fetch,
    host_read,
    host_write,
    place_of,
    prepare,
    publish,
)
from nicscope.jit import kernel, step

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


@kernel
def ping_pong(machine, mechanism, layout, payload, count, messages, now):
    """When ``messages`` messages of ``count`` bytes have gone back and forth, and wrong bytes.

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
        now = prepare(machine, b, mechanism, target, count, now)
        now = host_write(machine, a, mechanism, source, payload, count, now)
        now = publish(machine, a, mechanism, source, count, place, now)
        now = doorbell(machine, a, source, now)
        now = fetch(machine, a, mechanism, source, count, place, now)
        carry(machine, a, place_of(machine, a, mechanism, source, count, place), b, place, count)
        now = deliver(machine, b, mechanism, place, target, count, now)
        now = collect(machine, b, mechanism, place, target, count, now)
        now = host_read(machine, b, mechanism, target, payload, count, now)
        wrong += wrong_bytes(payload, count, number)
    return now, wrong
