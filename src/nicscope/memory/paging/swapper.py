"""The swapper: frames are taken from pages by a clock, and dirty bytes go to swap first.

A frame that several spaces share goes for all of them at once; they then share the block.
"""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import routine, step
from nicscope.memory.paging.frames import (
    copy_page,
    drop_clean_copy,
    free_if_unused,
    pop_block,
    pop_frame,
    settle_frame,
)
from nicscope.memory.paging.layout import DEMAND_ZERO, NOBODY, PRESENT, SWAPPED


@routine
def reclaim(memory, h):
    """Whether a frame was taken from its pages: unpinned, and not used for a turn of the clock.

    False if every frame is free, pinned, or dirty with no swap block left to write it to.
    """
    host = memory.hosts[h]
    frames = memory.frames.shape[1]
    for _ in range(2 * frames):
        frame = np.int64(host.hand)
        host.hand = frame + 1 if frame + 1 < frames else 1
        record = memory.frames[h, frame]
        if record.references == 0 or record.pins > 0 or frame == host.accessed:
            continue
        if record.referenced != 0:
            record.referenced = 0
        elif record.dirty == 0 or host.free_blocks > 0:
            _evict(memory, h, frame)
            return True
    return False


@routine
def evict_page(memory, h, space, page):
    """Whether ``page``, which was in memory, is out now: not if in use, or if no block is free."""
    entry = memory.entries[h, space, page]
    if entry.state != PRESENT:
        return False
    record = memory.frames[h, entry.frame]
    if entry.frame == memory.hosts[h].accessed:
        return False
    if record.pins > 0 or (record.dirty != 0 and memory.hosts[h].free_blocks == 0):
        return False
    _evict(memory, h, np.int64(entry.frame))
    return True


@routine
def could_take_frame(memory, h):
    """Whether ``take_frame`` would find one now."""
    if memory.hosts[h].free_frame != NOBODY:
        return True
    for frame in range(1, memory.frames.shape[1]):
        record = memory.frames[h, frame]
        if frame == memory.hosts[h].accessed:
            continue
        if record.pins == 0 and (record.dirty == 0 or memory.hosts[h].free_blocks > 0):
            return True
    return False


@step
def _evict(memory, h, frame):
    record = memory.frames[h, frame]
    host = memory.hosts[h]
    if record.dirty != 0:
        block = pop_block(memory, h)
        settle_frame(memory, h, frame)
        copy_page(memory, h, memory.block_bytes, block, memory.bytes, frame)
        host.page_outs += 1
        record.block = block
        memory.blocks[h, block].references = 1  # the frame's own
    page = np.int64(record.page)
    for space in range(memory.entries.shape[1]):
        entry = memory.entries[h, space, page]
        if entry.state == PRESENT and entry.frame == frame:
            entry.frame = NOBODY
            if record.block == NOBODY:
                entry.state = DEMAND_ZERO
            else:
                entry.state = SWAPPED
                entry.block = record.block
                memory.blocks[h, record.block].references += 1
    record.references = 0
    drop_clean_copy(memory, h, frame)
    host.reclaimed += 1
    free_if_unused(memory, h, frame)


@routine
def keep_free(memory, h, low_water):
    """How many frames were reclaimed until ``low_water`` were free, or nothing could go."""
    reclaimed = np.int64(0)
    while memory.hosts[h].free_frames < low_water and reclaim(memory, h):
        reclaimed += 1
    return reclaimed


@routine
def take_frame(memory, h, page):
    """A frame for virtual page ``page``, reclaimed if none is free; NOBODY if none can be."""
    if memory.hosts[h].free_frame == NOBODY and not reclaim(memory, h):
        return np.int64(NOBODY)
    return pop_frame(memory, h, page)
