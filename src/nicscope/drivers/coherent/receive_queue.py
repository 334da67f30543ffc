"""CNI's queue of what was received: the NIC fills entries, and the CPU copies them out.

``nic.coherent.queue`` has the rules.
"""

from __future__ import annotations

import numpy as np

from nicscope.drivers.coherent.machine import charge
from nicscope.drivers.coherent.queue_words import cpu_store, cpu_word, nic_store, nic_word
from nicscope.drivers.coherent.words import copy_words
from nicscope.kernel.decorators import routine, step
from nicscope.memory.coherence.lines import copy_bytes
from nicscope.memory.coherence.watched import agent_write
from nicscope.memory.coherence.watcher import give_way
from nicscope.nic.coherent.layout import RECEIVE, Component
from nicscope.nic.coherent.queue import (
    credit_of,
    entry_place,
    payload_bytes,
    pointer_place,
    put_word,
    sense_of,
)

REFUSED = -1  # the queue is full of messages that were not collected


@routine
def queue_deliver(node, place, address, count, now):
    """When the NIC has put ``count`` bytes at ``place`` into the receive queue (ps).

    If they do not fit, the host copies the first of them out to ``address``; ``REFUSED`` if an
    earlier message is in the way.
    """
    queue = node.nic.queues[RECEIVE]
    registers = node.nic.registers[0]
    entries = (count + payload_bytes(node.nic) - 1) // payload_bytes(node.nic)
    free = node.nic.config[0].queue_blocks - (queue.tail - queue.head)
    if entries > free and queue.tail != queue.head:
        return np.int64(REFUSED)
    began = now
    done = 0
    while done < count:
        while queue.credit == 0:
            queue.shadow, now = nic_word(node, pointer_place(node.nic, RECEIVE, 1), now)
            queue.head_checks += 1
            queue.credit = credit_of(node.nic, RECEIVE)
            if queue.credit == 0:
                now = _copy_entries(node, address, registers.taken + 1, _nic_tail(node, now))
        size = min(payload_bytes(node.nic), count - done)
        now = _fill_entry(node, place + done, size, now)
        done += size
    now = _nic_tail(node, now)
    return charge(node, Component.QUEUE_DELIVER, began, now)


@step
def _nic_tail(node, now):
    """When the NIC has written the receive queue's tail, if the CPU looks at that (ps)."""
    if node.nic.config[0].valid_bits != 0:
        return now
    tail = node.nic.queues[RECEIVE].tail
    return nic_store(node, pointer_place(node.nic, RECEIVE, 0), tail, now)


@step
def _fill_entry(node, place, size, now):
    queue = node.nic.queues[RECEIVE]
    config = node.nic.config[0]
    copy_bytes(node.nic.scratch, 0, node.agent.memory, place, size)
    word = 2 * size + sense_of(node.nic, queue.tail)
    put_word(node.nic.scratch, payload_bytes(node.nic), word)
    to = config.queue_start + entry_place(node.nic, RECEIVE, queue.tail)
    give_way(node.host, node.agent, now)
    now = agent_write(node.host, node.agent, to, config.block, node.nic.scratch, 0, now)
    queue.tail += 1
    queue.credit -= 1
    return now


@routine
def _copy_entries(node, address, count, now):
    """When the CPU has copied ``count`` bytes of the message out to ``address`` (ps), or more.

    ``REFUSED`` if the receive queue has not that many.
    """
    while node.nic.registers[0].taken < count:
        now = _copy_entry(node, address, now)
        if now == REFUSED:
            return now
    return now


@step
def _copy_entry(node, address, now):
    """When the CPU has copied the next entry out of the receive queue (ps); ``REFUSED`` if none.

    Its bytes go behind those already taken of the message at ``address``.
    """
    queue = node.nic.queues[RECEIVE]
    registers = node.nic.registers[0]
    config = node.nic.config[0]
    if config.valid_bits == 0 and queue.seen_tail <= queue.head:
        queue.seen_tail, now = cpu_word(node, pointer_place(node.nic, RECEIVE, 0), now)
        if queue.seen_tail <= queue.head:
            return np.int64(REFUSED)
    offset = entry_place(node.nic, RECEIVE, queue.head)
    word, now = cpu_word(node, offset + payload_bytes(node.nic), now)
    if config.valid_bits != 0 and (word & 1) != sense_of(node.nic, queue.head):
        return np.int64(REFUSED)
    now = copy_words(node, address + registers.taken, config.queue_address + offset, word >> 1, now)
    registers.taken += word >> 1
    if config.valid_bits != 0 and config.sense_reverse == 0:
        now = cpu_store(node, offset + payload_bytes(node.nic), np.int64(0), now)
    queue.head += 1
    return cpu_store(node, pointer_place(node.nic, RECEIVE, 1), queue.head, now)


@routine
def queue_collect(node, address, count, now):
    """When the CPU has copied the oldest message, of ``count`` bytes, to ``address`` (ps)."""
    end = _copy_entries(node, address, count, now)
    if end == REFUSED:
        return end
    node.nic.registers[0].taken = 0
    return charge(node, Component.QUEUE_READ, now, end)
