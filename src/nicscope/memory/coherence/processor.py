"""The CPU at work: parts of an access through the caches and past them, up to a horizon."""

from __future__ import annotations

import numpy as np

from nicscope.kernel.bytecopy import copy_bytes
from nicscope.kernel.decorators import routine, step
from nicscope.memory.coherence.access import (
    ASKED,
    COMBINING,
    DRAINING,
    FLUSHING,
    FRESH,
    LOADING,
    MISSED,
    SCRATCH,
    SERVED,
    STORING,
    next_part,
)
from nicscope.memory.coherence.cpu import fill_l1, run_of_words
from nicscope.memory.coherence.layout import EMPTY, MODIFIED, SHARED
from nicscope.memory.coherence.lines import discard, find_l1, find_l2, note_use
from nicscope.memory.coherence.uncached import (
    buffer_over,
    combine,
    oldest_buffer,
    oldest_with_bytes,
)

# What the CPU does after it has run.
GOES_ON = 0  # at the time that it named
ASKS = 1  # it waits for the bus, since that time
ENDED = 2


@routine
def run_access(host, access, window, scratch, now, horizon):
    """Run the access from ``now``; what comes next, and at which time (ps).

    Nothing that begins at ``horizon`` or later is done, but for what begins at ``now``.
    """
    while True:
        began = now
        is_done = access.gone == access.length and access.stage == FRESH
        if is_done and not next_part(host, access, scratch.size):
            return ENDED, now
        asks, now = _run_part(host, access, window, scratch, now, horizon)
        if asks:
            access.stage = ASKED
            return ASKS, now
        if now > began and now >= horizon:
            return GOES_ON, now


@step
def _run_part(host, access, window, scratch, now, horizon):
    """Whether the part needs the bus, and the CPU's time."""
    if access.part == LOADING or access.part == STORING:
        buffer = scratch if access.buffer == SCRATCH else window
        return _touch(host, access, buffer, now, horizon)
    if access.part == FLUSHING:
        return _flush(host, access, now)
    if access.part == COMBINING or access.part == DRAINING:
        return _gather_stores(host, access, scratch, now)
    if access.stage == SERVED:
        access.gone = access.length
        access.stage = FRESH
        return False, now
    return True, now


@step
def _touch(host, access, buffer, now, horizon):
    """Words of one line that hit; or a look at the second level, and at last the bus."""
    config = host.config[0]
    address = access.where + access.gone
    to_write = 1 if access.part == STORING else 0
    if access.stage == SERVED:  # its first word was there when the bus was granted
        access.stage = FRESH
        return False, now + config.l1_latency
    if access.stage == MISSED:
        line = find_l2(host, address >> config.l2_shift)
        if line == EMPTY or (to_write != 0 and host.l2[line].state == SHARED):
            return True, now
        give_line(host, line, address, to_write)
        access.stage = FRESH
        return False, now
    line = find_l1(host, address)
    if line == EMPTY or (to_write != 0 and host.l1[line].state != MODIFIED):
        host.registers[0].l1_misses += 1
        access.stage = MISSED
        return False, now + config.l2_latency
    size, words = run_of_words(host, address, access.length - access.gone, horizon - now)
    move_words(host, access, buffer, line, size, words)
    return False, now + words * config.l1_latency


@step
def give_line(host, l2_line, address, to_write):
    """The first level gets the line of ``address``, to be written if ``to_write``."""
    if to_write != 0:
        host.l2[l2_line].state = MODIFIED
    note_use(host, host.l2, l2_line)
    fill_l1(host, l2_line, address, to_write)


@step
def move_words(host, access, buffer, line, size, words):
    """Move ``size`` bytes, of ``words`` words, between the line of the first level and a buffer."""
    note_use(host, host.l1, line)
    shift = host.config[0].l1_shift
    address = access.where + access.gone
    within = (line << shift) + (address & ((np.int64(1) << shift) - 1))
    start = access.start + access.gone
    if access.part == STORING:
        host.registers[0].cpu_writes += words
        copy_bytes(host.l1_data, within, buffer, start, size)
    else:
        host.registers[0].cpu_reads += words
        copy_bytes(buffer, start, host.l1_data, within, size)
    access.gone += size


@step
def _flush(host, access, now):
    """One block leaves both levels; modified, it needs the bus."""
    config = host.config[0]
    if access.stage == FRESH:
        access.stage = MISSED
        return False, now + config.flush_instruction + config.l2_latency
    if access.stage == MISSED:
        line = find_l2(host, access.where)
        if line != EMPTY and host.l2[line].state == MODIFIED:
            return True, now
        if line != EMPTY:
            discard(host, line)
    access.gone = access.length
    access.stage = FRESH
    return False, now


@step
def _gather_stores(host, access, scratch, now):
    """A store into a combining buffer, or the end of all of them; a buffer leaves by the bus."""
    if access.stage == MISSED:  # the store has made its buffer whole
        return True, now
    if access.stage == SERVED:
        if host.buffers[access.leaving].mask != 0:
            return True, now
        host.buffers[access.leaving].start = EMPTY
        access.stage = FRESH
        return False, now
    if access.part == DRAINING:
        access.leaving = oldest_with_bytes(host)
        if host.buffers[access.leaving].mask != 0:
            return True, now
        access.gone = access.length
        return False, now
    return _combine(host, access, scratch, now)


@step
def _combine(host, access, scratch, now):
    config = host.config[0]
    chosen = buffer_over(host, access.where // config.combine_bytes * config.combine_bytes)
    if chosen == EMPTY:
        chosen = oldest_buffer(host)
        if host.buffers[chosen].mask != 0:
            access.leaving = chosen
            return True, now
    if combine(host, chosen, access.where, access.length, scratch, access.start):
        access.leaving = chosen
        access.stage = MISSED
    access.gone = access.length
    return False, now + config.l1_latency
