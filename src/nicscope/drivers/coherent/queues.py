"""CNI: cacheable queues, one to send and one to receive, over coherent blocks.

The CPU writes the send queue, and the NIC reads back what it is told, by invalidations, has
changed; the receive queue runs the other way.  ``nic.coherent.queue`` has the rules.
"""

from __future__ import annotations

import numpy as np

from nicscope.drivers.coherent.machine import charge
from nicscope.drivers.coherent.words import copy_words, load_words, store_words
from nicscope.jit import routine, step
from nicscope.memory.coherence.layout import INVALID
from nicscope.memory.coherence.lines import copy_bytes
from nicscope.memory.coherence.watched import agent_write
from nicscope.memory.coherence.watcher import FAR, await_copies, give_way
from nicscope.nic.coherent.layout import RECEIVE, SEND, Component
from nicscope.nic.coherent.queue import (
    WORD,
    credit_of,
    entry_place,
    get_word,
    payload_bytes,
    pointer_place,
    put_word,
    sense_of,
)

REFUSED = -1  # a queue is full of messages that were not fetched, or collected


@step
def _cpu_word(node, offset, now):
    """The word at ``offset`` of the queues as the CPU reads it, and when."""
    scratch = node.nic.scratch
    now = load_words(
        node.host,
        node.agent,
        node.nic.config[0].queue_address + offset,
        scratch,
        np.int64(0),
        np.int64(WORD),
        now,
    )
    return get_word(scratch, 0), now


@step
def _cpu_store(node, offset, value, now):
    """When the CPU has stored a word at ``offset`` of the queues (ps)."""
    scratch = node.nic.scratch
    put_word(scratch, 0, value)
    address = node.nic.config[0].queue_address + offset
    return store_words(node.host, node.agent, address, scratch, np.int64(0), np.int64(WORD), now)


@step
def _nic_word(node, offset, now):
    """The word at ``offset`` of the queues as the NIC reads it, and when."""
    place = node.nic.config[0].queue_start + offset
    home = place >> node.host.config[0].l2_shift
    copy = node.agent.copies[home]
    if copy.state == INVALID or copy.due != FAR:
        now = await_copies(node.host, node.agent, home, home + 1, now)
    else:
        now = max(now, copy.arrived)
    return get_word(node.agent.memory, place), now


@step
def _nic_store(node, offset, value, now):
    """When the NIC has stored a word at ``offset`` of the queues (ps)."""
    put_word(node.nic.scratch, 0, value)
    place = node.nic.config[0].queue_start + offset
    give_way(node.host, node.agent, now)
    return agent_write(node.host, node.agent, place, WORD, node.nic.scratch, 0, now)


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
            queue.shadow, now = _cpu_word(node, pointer_place(node.nic, SEND, 1), now)
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
    return _cpu_store(node, pointer_place(node.nic, SEND, 0), tail, now)


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
        queue.seen_tail, now = _nic_word(node, pointer_place(node.nic, SEND, 0), now)
        if queue.seen_tail <= queue.head:
            return np.int64(REFUSED)
    offset = entry_place(node.nic, SEND, queue.head)
    word, now = _nic_word(node, offset + payload_bytes(node.nic), now)
    if node.nic.config[0].valid_bits != 0 and (word & 1) != sense_of(node.nic, queue.head):
        return np.int64(REFUSED)
    start = node.nic.config[0].queue_start + offset
    _assemble(node, start, word >> 1)
    if node.nic.config[0].valid_bits != 0 and node.nic.config[0].sense_reverse == 0:
        now = _nic_store(node, offset + payload_bytes(node.nic), np.int64(0), now)
    queue.head += 1
    return _nic_store(node, pointer_place(node.nic, SEND, 1), queue.head, now)


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
            queue.shadow, now = _nic_word(node, pointer_place(node.nic, RECEIVE, 1), now)
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
    return _nic_store(node, pointer_place(node.nic, RECEIVE, 0), tail, now)


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
        queue.seen_tail, now = _cpu_word(node, pointer_place(node.nic, RECEIVE, 0), now)
        if queue.seen_tail <= queue.head:
            return np.int64(REFUSED)
    offset = entry_place(node.nic, RECEIVE, queue.head)
    word, now = _cpu_word(node, offset + payload_bytes(node.nic), now)
    if config.valid_bits != 0 and (word & 1) != sense_of(node.nic, queue.head):
        return np.int64(REFUSED)
    now = copy_words(node, address + registers.taken, config.queue_address + offset, word >> 1, now)
    registers.taken += word >> 1
    if config.valid_bits != 0 and config.sense_reverse == 0:
        now = _cpu_store(node, offset + payload_bytes(node.nic), np.int64(0), now)
    queue.head += 1
    return _cpu_store(node, pointer_place(node.nic, RECEIVE, 1), queue.head, now)


@routine
def queue_collect(node, address, count, now):
    """When the CPU has copied the oldest message, of ``count`` bytes, to ``address`` (ps)."""
    end = _copy_entries(node, address, count, now)
    if end == REFUSED:
        return end
    node.nic.registers[0].taken = 0
    return charge(node, Component.QUEUE_READ, now, end)
