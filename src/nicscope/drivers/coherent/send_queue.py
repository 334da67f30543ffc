"""CNI's queue to send: the CPU writes entries, and the NIC reads back what has changed.

Invalidations tell it what has; ``nic.coherent.queue`` has the rules.
"""

from __future__ import annotations

import numpy as np

from nicscope.drivers.coherent.machine import charge
from nicscope.drivers.coherent.queue_words import cpu_store, cpu_word, nic_store, nic_word
from nicscope.drivers.coherent.words import load_words, store_words
from nicscope.kernel.decorators import routine, step
from nicscope.memory.coherence.lines import copy_bytes
from nicscope.nic.coherent.layout import SEND, Component
from nicscope.nic.coherent.queue import (
    WORD,
    credit_of,
    entry_place,
    payload_bytes,
    pointer_place,
    put_word,
    sense_of,
)

REFUSED = -1  # the queue is full of messages that were not fetched


@routine
def queue_write(node, address, count, now):
    """When the CPU has copied ``count`` bytes at ``address`` into the send queue (ps).

    If the queue is full the NIC takes the oldest entries out; ``REFUSED`` if it has no room.
    """
    queue = node.nic.queues[SEND]
    registers = node.nic.registers[0]
    if registers.assembled - registers.fetched + _unread(node) + count > node.nic.assembly.size:
        return np.int64(REFUSED)
    began = now
    done = 0
    while done < count:
        while queue.credit == 0:
            queue.shadow, now = cpu_word(node, pointer_place(node.nic, SEND, 1), now)
            queue.head_checks += 1
            queue.credit = credit_of(node.nic, SEND)
            if queue.credit == 0:
                now = _take_entries(node, registers.assembled + 1, _cpu_tail(node, now))
        size = min(payload_bytes(node.nic), count - done)
        now = _write_entry(node, address + done, size, now)
        done += size
    now = _cpu_tail(node, now)
    return charge(node, Component.QUEUE_WRITE, began, now)


@step
def _cpu_tail(node, now):
    """When the CPU has written the send queue's tail, if that is what the NIC looks at (ps)."""
    if node.nic.config[0].valid_bits != 0:
        return now
    tail = node.nic.queues[SEND].tail
    return cpu_store(node, pointer_place(node.nic, SEND, 0), tail, now)


@step
def _unread(node):
    """The most bytes that entries of the send queue can hold which the NIC has not taken out."""
    queue = node.nic.queues[SEND]
    return (queue.tail - queue.head) * payload_bytes(node.nic)


@step
def _write_entry(node, address, size, now):
    queue = node.nic.queues[SEND]
    offset = entry_place(node.nic, SEND, queue.tail)
    to = node.nic.config[0].queue_address + offset
    scratch = node.nic.scratch
    room = payload_bytes(node.nic)
    now = load_words(node.host, node.agent, address, scratch, np.int64(0), size, now)
    # The word goes to the entry's end, and so in one run with a payload that fills the entry.
    put_word(scratch, size, 2 * size + sense_of(node.nic, queue.tail))
    if size < room:
        now = store_words(node.host, node.agent, to, scratch, np.int64(0), size, now)
        now = store_words(node.host, node.agent, to + room, scratch, size, np.int64(WORD), now)
    else:
        now = store_words(node.host, node.agent, to, scratch, np.int64(0), room + WORD, now)
    queue.tail += 1
    queue.credit -= 1
    return now


@routine
def _take_entries(node, count, now):
    """When the NIC has taken ``count`` bytes in all out of the send queue (ps), or ``REFUSED``."""
    while node.nic.registers[0].assembled < count:
        now = _take_entry(node, now)
        if now == REFUSED:
            return now
    return now


@step
def _take_entry(node, now):
    """When the NIC has taken the next entry out of the send queue (ps); ``REFUSED`` if none."""
    queue = node.nic.queues[SEND]
    if node.nic.config[0].valid_bits == 0 and queue.seen_tail <= queue.head:
        queue.seen_tail, now = nic_word(node, pointer_place(node.nic, SEND, 0), now)
        if queue.seen_tail <= queue.head:
            return np.int64(REFUSED)
    offset = entry_place(node.nic, SEND, queue.head)
    word, now = nic_word(node, offset + payload_bytes(node.nic), now)
    if node.nic.config[0].valid_bits != 0 and (word & 1) != sense_of(node.nic, queue.head):
        return np.int64(REFUSED)
    start = node.nic.config[0].queue_start + offset
    _assemble(node, start, word >> 1)
    if node.nic.config[0].valid_bits != 0 and node.nic.config[0].sense_reverse == 0:
        now = nic_store(node, offset + payload_bytes(node.nic), np.int64(0), now)
    queue.head += 1
    return nic_store(node, pointer_place(node.nic, SEND, 1), queue.head, now)


@step
def _assemble(node, start, count):
    """Put ``count`` bytes of NIC memory behind those taken out before, in the ring."""
    ring = node.nic.assembly
    at = node.nic.registers[0].assembled % ring.size
    straight = min(count, ring.size - at)
    copy_bytes(ring, at, node.agent.memory, start, straight)
    copy_bytes(ring, 0, node.agent.memory, start + straight, count - straight)
    node.nic.registers[0].assembled += count


@step
def _hand_out(node, place, count):
    """Move the oldest ``count`` bytes of the ring to ``place`` of NIC memory."""
    ring = node.nic.assembly
    at = node.nic.registers[0].fetched % ring.size
    straight = min(count, ring.size - at)
    copy_bytes(node.agent.memory, place, ring, at, straight)
    copy_bytes(node.agent.memory, place + straight, ring, 0, count - straight)
    node.nic.registers[0].fetched += count


@routine
def queue_fetch(node, count, place, now):
    """When the next ``count`` bytes sent are in NIC memory at ``place`` (ps), or ``REFUSED``."""
    registers = node.nic.registers[0]
    end = _take_entries(node, registers.fetched + count, now)
    if end == REFUSED:
        return end
    _hand_out(node, place, count)
    return charge(node, Component.QUEUE_WAIT, now, end)
