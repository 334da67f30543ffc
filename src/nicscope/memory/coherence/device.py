"""What a device's transaction moves: bytes of one block, with three answers to dirty ones."""

from __future__ import annotations

import numpy as np

from nicscope.kernel.bytecopy import copy_bytes
from nicscope.kernel.decorators import step
from nicscope.memory.coherence.bus import data_phase
from nicscope.memory.coherence.layout import (
    DEVICE,
    EMPTY,
    INTERVENTION,
    MODIFIED,
)
from nicscope.memory.coherence.lines import clean, discard, find_l2

# What happens when a device wants a block that the host's cache has modified.
UNSNOOPED = 0  # nothing: the device deals with memory alone
RETRIED = 1  # the device tries again until the cache has written the block back
INTERVENED = 2  # the cache supplies, or merges, the bytes on the bus


@step
def is_dirty(host, block):
    """Whether the host's cache has modified the block."""
    line = find_l2(host, block)
    return line != EMPTY and host.l2[line].state == MODIFIED


@step
def supply(host, address, count, target, place, ordered, mbytes_s, answer):
    """When the bytes of a device's read that is ordered at ``ordered`` have crossed (ps).

    States and bytes change now; of a block that was RETRIED, nothing is modified any more.
    """
    config = host.config[0]
    block = address >> config.l2_shift
    ready = ordered + config.memory_latency
    if answer != UNSNOOPED:
        line = find_l2(host, block)
        if line != EMPTY:
            if host.l2[line].state == MODIFIED:
                host.counts[DEVICE, INTERVENTION] += 1
                ready = ordered + config.cache_supply
            clean(host, line)
    copy_bytes(target, place, host.memory, address, count)
    return data_phase(host, ready, count, mbytes_s)


@step
def absorb(host, address, count, source, place, ordered, mbytes_s, answer):
    """When the bytes of a device's write that is ordered at ``ordered`` are in memory (ps)."""
    config = host.config[0]
    block = address >> config.l2_shift
    whole = count == np.int64(1) << config.l2_shift
    ready = ordered
    if answer != UNSNOOPED:
        line = find_l2(host, block)
        if line != EMPTY:
            if host.l2[line].state == MODIFIED and not whole:
                host.counts[DEVICE, INTERVENTION] += 1
                ready = data_phase(
                    host, ordered + config.cache_supply, np.int64(1) << config.l2_shift, 0
                )
                clean(host, line)
            discard(host, line)
    copy_bytes(host.memory, address, source, place, count)
    return data_phase(host, ready, count, mbytes_s)
