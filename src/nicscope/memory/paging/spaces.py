"""Address spaces: mapping, unmapping, rights, fork and the end.

Calls check their range first: they do all or nothing, but for what ``fork_space`` says.
"""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import routine, step
from nicscope.memory.paging.faults import copied_frame, install
from nicscope.memory.paging.frames import drop_block, free_if_unused
from nicscope.memory.paging.layout import (
    ALREADY_MAPPED,
    DEMAND_ZERO,
    NO_FRAME,
    NOBODY,
    NOT_MAPPED,
    OUTSIDE,
    PRESENT,
    SWAPPED,
    UNMAPPED,
)


@step
def outside(memory, first, count):
    """Whether pages ``first..first + count - 1`` are not all in a page table."""
    return first < 0 or count < 0 or first > memory.entries.shape[2] - count


@routine
def map_pages(memory, h, space, first, count, rights):
    """How many pages were mapped: ``count``, all zeros on demand; or OUTSIDE, ALREADY_MAPPED."""
    if outside(memory, first, count):
        return np.int64(OUTSIDE)
    for page in range(first, first + count):
        if memory.entries[h, space, page].state != UNMAPPED:
            return np.int64(ALREADY_MAPPED)
    for page in range(first, first + count):
        entry = memory.entries[h, space, page]
        entry.state = DEMAND_ZERO
        entry.rights = rights
    memory.spaces[h, space].mapped += count
    return np.int64(count)


@routine
def unmap_pages(memory, h, space, first, count):
    """How many pages of the range were mapped, and are no more; or OUTSIDE.

    A frame that is pinned lives on, as its pinner's, until it is unpinned (U-Net/MM 5.1).
    """
    if outside(memory, first, count):
        return np.int64(OUTSIDE)
    unmapped = np.int64(0)
    for page in range(first, first + count):
        entry = memory.entries[h, space, page]
        if entry.state == UNMAPPED:
            continue
        state = np.int64(entry.state)
        entry.state = UNMAPPED
        entry.rights = 0
        if state == PRESENT:
            frame = np.int64(entry.frame)
            entry.frame = NOBODY
            memory.frames[h, frame].references -= 1
            free_if_unused(memory, h, frame)
        elif state == SWAPPED:
            drop_block(memory, h, np.int64(entry.block))
            entry.block = NOBODY
        unmapped += 1
    memory.spaces[h, space].mapped -= unmapped
    return unmapped


@routine
def protect_pages(memory, h, space, first, count, rights):
    """How many pages have new rights: ``count``; or OUTSIDE, NOT_MAPPED.

    For the next access: a pin that was granted before stands (the interface takes no part in
    shoot-downs, U-Net/MM 4.2).
    """
    if outside(memory, first, count):
        return np.int64(OUTSIDE)
    for page in range(first, first + count):
        if memory.entries[h, space, page].state == UNMAPPED:
            return np.int64(NOT_MAPPED)
    for page in range(first, first + count):
        memory.entries[h, space, page].rights = rights
    return np.int64(count)


@routine
def fork_space(memory, h, parent, child):
    """How many pages ``child`` got from ``parent``; or ALREADY_MAPPED if it had any, NO_FRAME.

    Frames and swap blocks are shared until written; pinned frames are copied now, for an
    interface could write into them any time.  After NO_FRAME the child has no page.
    """
    if memory.spaces[h, child].mapped > 0:
        return np.int64(ALREADY_MAPPED)
    for page in range(memory.entries.shape[2]):
        state = np.int64(memory.entries[h, parent, page].state)
        if state == UNMAPPED:
            continue
        frame = np.int64(memory.entries[h, parent, page].frame)
        if state == PRESENT and memory.frames[h, frame].pins > 0:
            frame = copied_frame(memory, h, frame, page)
            if frame == NOBODY:
                close_space(memory, h, child)
                return np.int64(NO_FRAME)
        entry = memory.entries[h, child, page]
        entry.rights = memory.entries[h, parent, page].rights
        if state == PRESENT:
            install(memory, h, child, page, frame)
        else:
            entry.state = state
        if state == SWAPPED:
            entry.block = memory.entries[h, parent, page].block
            memory.blocks[h, entry.block].references += 1
        memory.spaces[h, child].mapped += 1
    return np.int64(memory.spaces[h, child].mapped)


@routine
def close_space(memory, h, space):
    """How many pages the space had; it has none any more, but what it pinned stays pinned."""
    return unmap_pages(memory, h, space, 0, memory.entries.shape[2])
