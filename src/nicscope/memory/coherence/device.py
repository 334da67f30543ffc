"""Bus transactions of a device: reads and writes of memory, with three answers to dirty blocks.

Each concerns bytes within one block.
"""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import step
from nicscope.memory.coherence.bus import address_phase, data_phase
from nicscope.memory.coherence.layout import (
    CPU,
    DEVICE,
    EMPTY,
    INTERVENTION,
    MODIFIED,
    READ,
    RETRY,
    UPGRADE,
    WRITE_BACK,
)
from nicscope.memory.coherence.lines import clean, copy_bytes, discard, find_l2

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
def _written_back(host, block, asks):
    """The device is told to retry while the cache writes the block back; when it asks again."""
    config = host.config[0]
    told = address_phase(host, DEVICE, RETRY, asks)
    ordered = address_phase(host, CPU, WRITE_BACK, told)
    end = data_phase(host, ordered, np.int64(1) << config.l2_shift, 0)
    clean(host, find_l2(host, block))
    pause = config.retry_delay * config.bus_cycle
    asks = told + pause
    while asks < end:
        asks = address_phase(host, DEVICE, RETRY, asks) + pause
    return asks


@step
def device_read(host, address, count, target, place, asks, mbytes_s, answer):
    """When ``count`` bytes at ``address`` are in ``target[place:]`` (ps)."""
    block = address >> host.config[0].l2_shift
    if answer == RETRIED and is_dirty(host, block):
        asks = _written_back(host, block, asks)
    ordered = address_phase(host, DEVICE, READ, asks)
    return supply(host, address, count, target, place, ordered, mbytes_s, answer)


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
def device_write(host, address, count, source, place, asks, mbytes_s, answer, kind):
    """When ``count`` bytes of ``source[place:]`` are in memory at ``address`` (ps).

    Copies in the host's caches go.  If one was modified, its other bytes reach memory first: by a
    write-back that makes the device retry, or merged on the bus (INTERVENED).
    """
    block = address >> host.config[0].l2_shift
    whole = count == np.int64(1) << host.config[0].l2_shift
    if answer == RETRIED and not whole and is_dirty(host, block):
        asks = _written_back(host, block, asks)
    ordered = address_phase(host, DEVICE, kind, asks)
    return absorb(host, address, count, source, place, ordered, mbytes_s, answer)


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


@step
def device_upgrade(host, block, asks):
    """When no cache of the host holds ``block`` any more; its modified bytes are lost (ps)."""
    ordered = address_phase(host, DEVICE, UPGRADE, asks)
    line = find_l2(host, block)
    if line != EMPTY:
        discard(host, line)
    return ordered
