"""Words of the cacheable queues and their pointers, as the CPU and the NIC read and store them."""

from __future__ import annotations

import numpy as np

from nicscope.drivers.coherent.words import load_words, store_words
from nicscope.kernel.decorators import step
from nicscope.memory.coherence.layout import INVALID
from nicscope.memory.coherence.watched import agent_write
from nicscope.memory.coherence.watcher import FAR, await_copies, give_way
from nicscope.nic.coherent.queue import (
    WORD,
    get_word,
    put_word,
)


@step
def cpu_word(node, offset, now):
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
def cpu_store(node, offset, value, now):
    """When the CPU has stored a word at ``offset`` of the queues (ps)."""
    scratch = node.nic.scratch
    put_word(scratch, 0, value)
    address = node.nic.config[0].queue_address + offset
    return store_words(node.host, node.agent, address, scratch, np.int64(0), np.int64(WORD), now)


@step
def nic_word(node, offset, now):
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
def nic_store(node, offset, value, now):
    """When the NIC has stored a word at ``offset`` of the queues (ps)."""
    put_word(node.nic.scratch, 0, value)
    place = node.nic.config[0].queue_start + offset
    give_way(node.host, node.agent, now)
    return agent_write(node.host, node.agent, place, WORD, node.nic.scratch, 0, now)
