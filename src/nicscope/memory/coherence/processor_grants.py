"""The CPU's request is granted: which transaction it is, and whose line goes, is settled now."""

from __future__ import annotations

import numpy as np

from nicscope.kernel.bytecopy import copy_bytes
from nicscope.kernel.decorators import routine, step
from nicscope.memory.coherence.access import (
    FETCHING,
    FLUSHING,
    LOADING,
    RINGING,
    SENDING,
    SERVED,
    STORING,
)
from nicscope.memory.coherence.asks import AGAIN, MADE, VOID
from nicscope.memory.coherence.bus import data_phase, order
from nicscope.memory.coherence.cpu import fill_l2, run_of_words, write_out
from nicscope.memory.coherence.layout import (
    CPU,
    EMPTY,
    MODIFIED,
    READ,
    READ_EXCLUSIVE,
    SHARED,
    UNCACHED_READ,
    UNCACHED_WRITE,
    UPGRADE,
    WRITE_BACK,
)
from nicscope.memory.coherence.lines import discard, find_l1, find_l2, victim
from nicscope.memory.coherence.processor import give_line, move_words
from nicscope.memory.coherence.uncached import kind_of_piece, next_piece, send_piece
from nicscope.memory.coherence.watcher import lose


@routine
def grant_processor(host, agent, access, window, scratch, at, now):
    """What the CPU waited for is ordered now, asked for at ``at``; likewise how it went, and when.

    The first word of a miss is moved now: it is what the line was fetched for, and nobody takes
    the line before.
    """
    if access.part == LOADING or access.part == STORING:
        buffer = window if access.buffer == 0 else scratch
        return _grant_line(host, agent, access, buffer, at, now)
    access.stage = SERVED
    if access.part == FLUSHING:
        return _grant_flush(host, access.where, now)
    if access.part == FETCHING:
        order(host, CPU, UNCACHED_READ, now)
        copy_bytes(scratch, access.start, agent.memory, access.where, access.length)
        return MADE, data_phase(host, now + host.config[0].device_latency, access.length, 0)
    if access.part == SENDING or access.part == RINGING:
        order(host, CPU, UNCACHED_WRITE, now)
        if access.part == SENDING:  # a register is no part of the device's memory
            copy_bytes(agent.memory, access.where, scratch, access.start, access.length)
        return MADE, data_phase(host, now, access.length, 0)
    first, count = next_piece(host, access.leaving)
    order(host, CPU, kind_of_piece(host, count), now)
    return MADE, send_piece(host, agent.memory, access.leaving, first, count, now)


@step
def _grant_flush(host, block, now):
    line = find_l2(host, block)
    if line == EMPTY:
        return VOID, now
    made, end = VOID, now
    if host.l2[line].state == MODIFIED:
        order(host, CPU, WRITE_BACK, now)
        made, end = MADE, write_out(host, line, now)
    discard(host, line)
    return made, end


@step
def _grant_line(host, agent, access, buffer, at, now):
    """A line for the CPU: read, read to write, or the right to write what it has."""
    address = access.where + access.gone
    block = address >> host.config[0].l2_shift
    to_write = 1 if access.part == STORING else 0
    line = find_l2(host, block)
    end = now
    if line == EMPTY:
        line = _free_line(host, block, now)
        if line == EMPTY:
            return AGAIN, at  # a victim went first; the read stands as before
        end = _read_line(host, agent, line, block, to_write, now)
        if to_write != 0 and host.l2[line].state == SHARED:
            return AGAIN, end
    elif to_write != 0 and host.l2[line].state == SHARED:
        order(host, CPU, UPGRADE, now)
        home = np.int64(agent.home[block])
        if home != EMPTY:
            lose(agent, home, now)
    give_line(host, line, address, to_write)
    size, words = run_of_words(host, address, access.length - access.gone, np.int64(0))
    move_words(host, access, buffer, find_l1(host, address), size, words)
    access.stage = SERVED
    return MADE, end


@step
def _free_line(host, block, now):
    """A free line of the second level for ``block``, or ``EMPTY`` if one is written back now."""
    config = host.config[0]
    line = victim(host.l2, (block & config.l2_mask) * config.l2_ways, config.l2_ways)
    if host.l2[line].tag == EMPTY:
        return line
    host.registers[0].evictions += 1
    modified = host.l2[line].state == MODIFIED
    if modified:
        order(host, CPU, WRITE_BACK, now)
        write_out(host, line, now)
    discard(host, line)
    return np.int64(EMPTY) if modified else line


@step
def _read_line(host, agent, line, block, to_write, now):
    """When the block is in ``line`` (ps)."""
    exclusive = to_write != 0 and host.config[0].fill_then_invalidate == 0
    host.registers[0].l2_misses += 1
    order(host, CPU, READ_EXCLUSIVE if exclusive else READ, now)
    return fill_l2(host, agent, line, block, exclusive, now)
