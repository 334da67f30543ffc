"""Rules of a cacheable queue: who may write the next entry, and which entries are valid.

An entry is a block: payload, then a word of payload bytes and sense, written last.  The sense of
a pass is what tells its entries from those of the pass before; without sense reverse it is always
1 and the consumer clears it.
"""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import step

WORD = 4  # bytes: of an entry's last word, and of a pointer
BYTE = 8  # bits


@step
def payload_bytes(interface):
    """Bytes of a message in an entry."""
    return interface.config[0].block - WORD


@step
def entry_place(interface, queue, count):
    """Where the entry is into which the ``count``-th block goes, from the start of the queues."""
    blocks = interface.config[0].queue_blocks
    return (queue * blocks + count % blocks) * interface.config[0].block


@step
def pointer_place(interface, queue, is_head):
    """Where the pointer is, likewise."""
    config = interface.config[0]
    return (2 * config.queue_blocks + 2 * queue + is_head) * config.block


@step
def sense_of(interface, count):
    """The sense of the ``count``-th entry: 1 in the first pass, whose blocks begin as zeros."""
    if interface.config[0].sense_reverse == 0:
        return np.int64(1)
    return 1 - ((count // interface.config[0].queue_blocks) & 1)


@step
def credit_of(interface, queue):
    """Entries that the producer may write by what it knows of the head.

    With lazy pointers at most half the queue, so that it looks twice in a pass while no more than
    half is full; without them one.
    """
    config = interface.config[0]
    state = interface.queues[queue]
    free = config.queue_blocks - (state.tail - state.shadow)
    return min(free, config.queue_blocks // 2 if config.lazy_pointers != 0 else np.int64(1))


@step
def put_word(target, place, value):
    """Store ``value`` as the four bytes of a word, the lowest first."""
    for i in range(WORD):
        target[place + i] = (value >> (BYTE * i)) & 255


@step
def get_word(source, place):
    """The word at ``place``."""
    value = np.int64(0)
    for i in range(WORD):
        value |= np.int64(source[place + i]) << (BYTE * i)
    return value
