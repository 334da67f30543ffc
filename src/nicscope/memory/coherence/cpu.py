"""What the CPU does through its caches: reads and writes word by word, and flushes.

One access at a time, in order; the CPU waits for each.  Before an access at t the agent's reads
that are in order by t are done, and before the CPU asks for the bus at t those that asked by t.
"""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import routine, step
from nicscope.memory.coherence.bus import address_phase, data_phase
from nicscope.memory.coherence.layout import (
    CPU,
    EMPTY,
    EXCLUSIVE,
    INTERVENTION,
    MODIFIED,
    READ,
    READ_EXCLUSIVE,
    SHARED,
    UPGRADE,
    WRITE_BACK,
)
from nicscope.memory.coherence.lines import (
    copy_bytes,
    discard,
    find_l1,
    find_l2,
    gather,
    l1_to_l2,
    l2_to_memory,
    note_use,
    victim,
)
from nicscope.memory.coherence.watcher import catch_up, give_way, lose


@step
def cpu_read(host, watcher, address, count, target, place, now):
    """Bytes read into ``target[place:]``, and when the CPU has them (ps).

    Of ``count`` bytes at ``address`` those up to the end of the line, word by word, and no further
    than to the agent's next read.
    """
    catch_up(host, watcher, now)
    line = find_l1(host, address)
    if line == EMPTY:
        now = obtain(host, watcher, address, 0, now)
        line = find_l1(host, address)
    note_use(host, host.l1, line)
    ahead = watcher.watch[0].next_order - now
    size, words = run_of_words(host, address, count, ahead)
    host.registers[0].cpu_reads += words
    width = np.int64(1) << host.config[0].l1_shift
    copy_bytes(target, place, host.l1_data, line * width + (address & (width - 1)), size)
    return size, now + words * host.config[0].l1_latency


@step
def cpu_write(host, watcher, address, count, source, place, now):
    """Bytes of ``source[place:]`` stored, and when the CPU has stored them (ps); likewise."""
    catch_up(host, watcher, now)
    line = find_l1(host, address)
    if line == EMPTY or host.l1[line].state != MODIFIED:
        now = obtain(host, watcher, address, 1, now)
        line = find_l1(host, address)
    note_use(host, host.l1, line)
    ahead = watcher.watch[0].next_order - now
    size, words = run_of_words(host, address, count, ahead)
    host.registers[0].cpu_writes += words
    width = np.int64(1) << host.config[0].l1_shift
    copy_bytes(host.l1_data, line * width + (address & (width - 1)), source, place, size)
    return size, now + words * host.config[0].l1_latency


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
def obtain(host, watcher, address, to_write, now):
    """When the first level has the line of ``address``, MODIFIED if it is to be written (ps)."""
    host.registers[0].l1_misses += 1
    now += host.config[0].l2_latency
    catch_up(host, watcher, now)
    block = address >> host.config[0].l2_shift
    line = find_l2(host, block)
    if line == EMPTY or (to_write != 0 and host.l2[line].state == SHARED):
        give_way(host, watcher, now)
    if line == EMPTY:
        host.registers[0].l2_misses += 1
        line = _room(host, block, now)
        now = _load(host, watcher, line, block, to_write, now)
    if to_write != 0:
        if host.l2[line].state == SHARED:
            give_way(host, watcher, now)
            now = _upgrade(host, watcher, block, now)
        host.l2[line].state = MODIFIED
    note_use(host, host.l2, line)
    fill_l1(host, line, address, to_write)
    return now


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
def _room(host, block, now):
    """A free line of the second level for ``block``; what was there is written back if it must."""
    config = host.config[0]
    line = victim(host.l2, (block & config.l2_mask) * config.l2_ways, config.l2_ways)
    if host.l2[line].tag == EMPTY:
        return line
    host.registers[0].evictions += 1
    if host.l2[line].state == MODIFIED:
        _write_back(host, line, now)
    discard(host, line)
    return line


@step
def _write_back(host, line, now):
    """When the block's bytes, which are modified, are in memory (ps)."""
    return write_out(host, line, address_phase(host, CPU, WRITE_BACK, now))


@step
def write_out(host, line, ordered):
    """When the block, whose write-back is ordered at ``ordered``, is in memory (ps)."""
    gather(host, line, 1)
    l2_to_memory(host, line)
    return data_phase(host, ordered, np.int64(1) << host.config[0].l2_shift, 0)


@step
def _load(host, watcher, line, block, to_write, now):
    """When the block is in ``line`` of the second level (ps)."""
    exclusive = to_write != 0 and host.config[0].fill_then_invalidate == 0
    ordered = address_phase(host, CPU, READ_EXCLUSIVE if exclusive else READ, now)
    return fill_l2(host, watcher, line, block, exclusive, ordered)


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


@step
def _upgrade(host, watcher, block, now):
    """When no other copy of the block is left (ps)."""
    ordered = address_phase(host, CPU, UPGRADE, now)
    place = np.int64(watcher.home[block])
    if place != EMPTY:
        lose(watcher, place, ordered)
    return ordered


@routine
def flush_block(host, block, now):
    """When the CPU's flush instruction for ``block`` is done (ps): it has left both levels.

    The CPU waits until modified bytes are in memory.
    """
    config = host.config[0]
    now += config.flush_instruction + config.l2_latency
    line = find_l2(host, block)
    if line == EMPTY:
        return now
    if host.l2[line].state == MODIFIED:
        now = _write_back(host, line, now)
    discard(host, line)
    return now
