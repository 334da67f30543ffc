"""The two cache levels as arrays: finding lines, choosing victims, moving bytes between levels.

Nothing here takes time.  Inclusion: what the first level holds, the second holds.  A line that is
MODIFIED in the first level is MODIFIED in the second, whose bytes may then be older.
"""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import copy_bytes, step
from nicscope.memory.coherence.layout import EMPTY, INVALID, MODIFIED, SHARED


@step
def find_l1(host, address):
    """The line of the first level that holds ``address``, or ``EMPTY``."""
    config = host.config[0]
    tag = address >> config.l1_shift
    first = (tag & config.l1_mask) * config.l1_ways
    for line in range(first, first + config.l1_ways):
        if host.l1[line].tag == tag:
            return line
    return np.int64(EMPTY)


@step
def find_l2(host, block):
    """The line of the second level that holds ``block``, or ``EMPTY``."""
    config = host.config[0]
    first = (block & config.l2_mask) * config.l2_ways
    for line in range(first, first + config.l2_ways):
        if host.l2[line].tag == block:
            return line
    return np.int64(EMPTY)


@step
def victim(lines, first, ways):
    """The line of the set at ``first`` to be replaced: a free one, else the least recently used."""
    found = first
    for line in range(first, first + ways):
        if lines[line].tag == EMPTY:
            return line
        if lines[line].used < lines[found].used:
            found = line
    return found


@step
def note_use(host, lines, line):
    """``line`` is now the most recently used."""
    host.registers[0].clock += 1
    lines[line].used = host.registers[0].clock


@step
def l1_to_l2(host, line, l2_line):
    """Bring the second level's bytes up to a line of the first."""
    config = host.config[0]
    width = np.int64(1) << config.l1_shift
    address = host.l1[line].tag << config.l1_shift
    within = address & ((np.int64(1) << config.l2_shift) - 1)
    copy_bytes(
        host.l2_data, (l2_line << config.l2_shift) + within, host.l1_data, line * width, width
    )


@step
def gather(host, l2_line, keep):
    """Bring the second level's bytes up to date; its lines above become SHARED, or go.

    With ``keep`` 0 the lines of the first level leave it (inclusion).
    """
    config = host.config[0]
    start = host.l2[l2_line].tag << config.l2_shift
    for address in range(
        start, start + (np.int64(1) << config.l2_shift), np.int64(1) << config.l1_shift
    ):
        line = find_l1(host, address)
        if line != EMPTY:
            if host.l1[line].state == MODIFIED:
                l1_to_l2(host, line, l2_line)
                host.l1[line].state = SHARED
            if keep == 0:
                host.l1[line].tag = EMPTY
                host.l1[line].state = INVALID


@step
def l2_to_memory(host, l2_line):
    """Bring memory's bytes up to a block of the second level."""
    shift = host.config[0].l2_shift
    copy_bytes(
        host.memory,
        host.l2[l2_line].tag << shift,
        host.l2_data,
        l2_line << shift,
        np.int64(1) << shift,
    )


@step
def clean(host, l2_line):
    """The block's bytes go to memory if they are MODIFIED; it stays, as SHARED."""
    if host.l2[l2_line].state == MODIFIED:
        gather(host, l2_line, 1)
        l2_to_memory(host, l2_line)
    host.l2[l2_line].state = SHARED


@step
def discard(host, l2_line):
    """The block leaves both levels; its bytes are lost unless they were brought up before."""
    gather(host, l2_line, 0)
    host.l2[l2_line].tag = EMPTY
    host.l2[l2_line].state = INVALID
