"""What an access of the CPU moves between its caches and the bus: runs of words, lines, blocks."""

from __future__ import annotations

import numpy as np

from nicscope.kernel.bytecopy import copy_bytes
from nicscope.kernel.decorators import step
from nicscope.memory.coherence.bus import data_phase
from nicscope.memory.coherence.layout import (
    CPU,
    EMPTY,
    EXCLUSIVE,
    INTERVENTION,
    MODIFIED,
    SHARED,
)
from nicscope.memory.coherence.lines import find_l1, find_l2, gather, l1_to_l2, l2_to_memory, victim
from nicscope.memory.coherence.watcher import lose


@step
def run_of_words(host, address, count, ahead):
    """Bytes, and words, of the accesses that hit in the line and begin within ``ahead`` ps.

    The first word always does: it is what the line was fetched for.
    """
    config = host.config[0]
    word = config.word
    first = word - (address & (word - 1))
    left = (np.int64(1) << config.l1_shift) - (address & ((np.int64(1) << config.l1_shift) - 1))
    size = min(count, left)
    if size <= first:
        return size, np.int64(1)
    words = 1 + (size - first + word - 1) // word
    if ahead < words * config.l1_latency:
        words = max(np.int64(1), (ahead + config.l1_latency - 1) // config.l1_latency)
        size = min(size, first + (words - 1) * word)
    return size, words


@step
def fill_l1(host, l2_line, address, to_write):
    """The first level gets the line of ``address`` out of ``l2_line``, or the right to write it."""
    config = host.config[0]
    line = find_l1(host, address)
    if line == EMPTY:
        tag = address >> config.l1_shift
        line = victim(host.l1, (tag & config.l1_mask) * config.l1_ways, config.l1_ways)
        if host.l1[line].state == MODIFIED:
            evicted = host.l1[line].tag << config.l1_shift >> config.l2_shift
            l1_to_l2(host, line, find_l2(host, evicted))
        width = np.int64(1) << config.l1_shift
        within = (tag << config.l1_shift) & ((np.int64(1) << config.l2_shift) - 1)
        start = (l2_line << config.l2_shift) + within
        copy_bytes(host.l1_data, line * width, host.l2_data, start, width)
        host.l1[line].tag = tag
    host.l1[line].state = MODIFIED if to_write != 0 else SHARED


@step
def write_out(host, line, ordered):
    """When the block, whose write-back is ordered at ``ordered``, is in memory (ps)."""
    gather(host, line, 1)
    l2_to_memory(host, line)
    return data_phase(host, ordered, np.int64(1) << host.config[0].l2_shift, 0)


@step
def fill_l2(host, watcher, line, block, exclusive, ordered):
    """When the block, whose read is ordered at ``ordered``, is in ``line`` (ps); sets its state.

    A block that the agent watches comes SHARED, so that the write that follows shows on the bus.
    """
    config = host.config[0]
    ready = ordered + config.memory_latency
    place = np.int64(watcher.home[block])
    width = np.int64(1) << config.l2_shift
    if place != EMPTY and watcher.copies[place].state == MODIFIED:
        host.counts[CPU, INTERVENTION] += 1
        ready = ordered + config.device_latency
        copy_bytes(host.memory, block * width, watcher.memory, place * width, width)
        watcher.copies[place].state = SHARED
    copy_bytes(host.l2_data, line * width, host.memory, block * width, width)
    end = data_phase(host, ready, width, 0)
    host.l2[line].tag = block
    host.l2[line].state = EXCLUSIVE if place == EMPTY else SHARED
    if exclusive:
        host.l2[line].state = EXCLUSIVE
        if place != EMPTY:
            lose(watcher, place, end)
    return end
