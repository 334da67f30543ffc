"""Pins: a frame that a network interface may use stays where it is until it is given up.

Pins are counted by frame; limits count frames, by space and by host.  A frame's pins are all one
space's: a page that another space has pinned is copied before it is pinned too.
"""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import routine, step
from nicscope.memory.paging.faults import bring, need, pinned_by_another
from nicscope.memory.paging.frames import free_if_unused
from nicscope.memory.paging.layout import COPY, DENIED, GARBAGE_FRAME, LIMIT, NOBODY, READY


@step
def need_to_pin(memory, h, space, page, write):
    """What ``need`` says, but for a pin: COPY also if another space has pinned the frame; LIMIT."""
    needed = need(memory, h, space, page, write)
    if needed < 0:
        return needed
    if needed in (READY, COPY):  # the page is present
        frame = np.int64(memory.entries[h, space, page].frame)
        if pinned_by_another(memory, h, space, frame):
            needed = COPY
        elif memory.frames[h, frame].pins > 0:
            return needed
    owner = memory.spaces[h, space]
    host = memory.hosts[h]
    if owner.pinned >= owner.pin_limit or host.pinned >= host.pin_limit:
        return LIMIT
    return needed


@routine
def pin_page(memory, h, space, page, write):
    """The frame of ``page``, ready for this access, with one pin more.

    Or DENIED, NOT_MAPPED, NO_FRAME, LIMIT, with nothing pinned.  The frame's generation, read
    now, tells ``may_transfer`` later whether this pin still stands.
    """
    needed = need_to_pin(memory, h, space, page, write)
    frame = bring(memory, h, space, page, write, needed)
    if frame < 0:
        return frame
    record = memory.frames[h, frame]
    if record.pins == 0:
        # A translation from before the last unpin must not become valid again: the frame may have
        # become another space's meanwhile, or, through a fork, a new page of the same space.
        record.generation += 1
        record.pinner = space
        record.pinned_to_write = 0
        memory.spaces[h, space].pinned += 1
        memory.hosts[h].pinned += 1
    record.pins += 1
    if write != 0:
        record.pinned_to_write = 1
    return frame


@routine
def unpin_frame(memory, h, space, frame):
    """Pins left on ``frame``, which is freed if that is none and no page table refers to it.

    DENIED, and nothing changes, if ``space`` has no pin on it.  ``frame`` may be any number.
    """
    if frame <= GARBAGE_FRAME or frame >= memory.frames.shape[1]:
        return np.int64(DENIED)
    record = memory.frames[h, frame]
    if record.pins == 0 or record.pinner != space:
        return np.int64(DENIED)
    record.pins -= 1
    left = np.int64(record.pins)
    if left == 0:
        record.pinner = NOBODY
        record.pinned_to_write = 0
        memory.spaces[h, space].pinned -= 1
        memory.hosts[h].pinned -= 1
        free_if_unused(memory, h, frame)
    return left


@step
def may_transfer(memory, h, frame, generation):
    """Whether a translation to ``frame``, made when it had ``generation``, still stands.

    So does one to the garbage page.  ``frame`` is a frame of the host.
    """
    record = memory.frames[h, frame]
    return frame == GARBAGE_FRAME or (record.pins > 0 and record.generation == generation)


@step
def may_transfer_into(memory, h, frame, generation):
    """Likewise, and whether the frame was pinned to be written."""
    record = memory.frames[h, frame]
    return frame == GARBAGE_FRAME or (
        record.pins > 0 and record.generation == generation and record.pinned_to_write != 0
    )
