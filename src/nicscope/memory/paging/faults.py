"""What an access to a page needs, and doing it: zeroing, copy-on-write, page-in.

An access of a network interface is one of the process that it serves (U-Net/MM 4.2), so it asks
here as well.  Nothing here takes time: a driver asks ``need``, spends what that costs, and has
``provide`` do it.
"""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import routine, step
from nicscope.memory.paging.frames import (
    copy_page,
    drop_block,
    forget_frame,
    free_if_unused,
    note_access,
    settle_frame,
    zero_frame,
)
from nicscope.memory.paging.layout import (
    COPY,
    DEMAND_ZERO,
    DENIED,
    DISK,
    NO_FRAME,
    NOBODY,
    NOT_MAPPED,
    PRESENT,
    READ,
    READY,
    SWAPPED,
    UNMAPPED,
    WRITE,
    ZERO,
)
from nicscope.memory.paging.swapper import take_frame


@step
def need(memory, h, space, page, write):
    """READY, ZERO, COPY or DISK before this access; or DENIED, NOT_MAPPED.  Changes nothing.

    ``page`` may be any number.
    """
    if page < 0 or page >= memory.entries.shape[2]:
        return NOT_MAPPED
    entry = memory.entries[h, space, page]
    if entry.state == UNMAPPED:
        return NOT_MAPPED
    if entry.rights & (WRITE if write != 0 else READ) == 0:
        return DENIED
    if entry.state == DEMAND_ZERO:
        return ZERO
    if entry.state == SWAPPED:
        return DISK
    if write != 0:
        record = memory.frames[h, entry.frame]
        if record.references > 1 or pinned_by_another(memory, h, space, np.int64(entry.frame)):
            return COPY
    return READY


@step
def pinned_by_another(memory, h, space, frame):
    """Whether a space other than ``space`` has pins on ``frame``."""
    record = memory.frames[h, frame]
    return record.pins > 0 and record.pinner != space


@routine
def provide(memory, h, space, page, write):
    """The frame of ``page``, ready for this access; or DENIED, NOT_MAPPED, NO_FRAME."""
    return bring(memory, h, space, page, write, need(memory, h, space, page, write))


@routine
def bring(memory, h, space, page, write, needed):
    """The frame of ``page`` after what is ``needed`` was done; or that, or NO_FRAME."""
    if needed < 0:
        return np.int64(needed)
    if needed == ZERO:
        frame = _fill_zero(memory, h, space, page)
    elif needed == DISK:
        frame = _page_in(memory, h, space, page)
    elif needed == COPY:
        frame = _copy_on_write(memory, h, space, page)
    else:
        frame = np.int64(memory.entries[h, space, page].frame)
    if frame >= 0:
        note_access(memory, h, frame, write)
    return frame


@routine
def provide_zeroed(memory, h, space, page):
    """The frame of ``page``, to be written: of zeros if the page was absent, else as it is.

    What an absent page held in swap is lost (U-Net/MM 5.1.1: a receive buffer that is a page).
    Otherwise like ``provide``.
    """
    needed = need(memory, h, space, page, 1)
    if needed != DISK:
        return bring(memory, h, space, page, 1, needed)
    block = np.int64(memory.entries[h, space, page].block)
    frame = _fill_zero(memory, h, space, page)
    if frame >= 0:
        drop_block(memory, h, block)
        note_access(memory, h, frame, 1)
    return frame


@step
def install(memory, h, space, page, frame):
    """The entry of ``page`` names ``frame``, which has one reference more."""
    entry = memory.entries[h, space, page]
    entry.state = PRESENT
    entry.frame = frame
    entry.block = NOBODY
    memory.frames[h, frame].references += 1


@routine
def _fill_zero(memory, h, space, page):
    frame = take_frame(memory, h, page)
    if frame == NOBODY:
        return np.int64(NO_FRAME)
    zero_frame(memory, h, frame)
    install(memory, h, space, page, frame)
    return frame


@routine
def _page_in(memory, h, space, page):
    """The page's block is read into a frame of this space's own; the frame keeps the block."""
    frame = take_frame(memory, h, page)
    if frame == NOBODY:
        return np.int64(NO_FRAME)
    # The entry's reference to the block becomes the frame's.
    block = np.int64(memory.entries[h, space, page].block)
    forget_frame(memory, h, frame)
    copy_page(memory, h, memory.bytes, frame, memory.block_bytes, block)
    memory.hosts[h].page_ins += 1
    install(memory, h, space, page, frame)
    memory.frames[h, frame].block = block
    return frame


@routine
def _copy_on_write(memory, h, space, page):
    """A frame of the space's own; a pinned one stays the pinner's, and the others get the copy.

    So what an interface knows of a page that it has pinned to read stays true when the process
    writes to the page.
    """
    shared = np.int64(memory.entries[h, space, page].frame)
    copy = copied_frame(memory, h, shared, page)
    if copy == NOBODY:
        return np.int64(NO_FRAME)
    if memory.frames[h, shared].pins == 0 or pinned_by_another(memory, h, space, shared):
        memory.frames[h, shared].references -= 1
        install(memory, h, space, page, copy)
        free_if_unused(memory, h, shared)
        return copy
    for other in range(memory.entries.shape[1]):
        entry = memory.entries[h, other, page]
        if other != space and entry.state == PRESENT and entry.frame == shared:
            memory.frames[h, shared].references -= 1
            install(memory, h, other, page, copy)
    return shared


@routine
def copied_frame(memory, h, source, page):
    """A frame with the bytes of ``source``, with no references yet; NOBODY if there is none."""
    memory.frames[h, source].pins += 1  # so that it is not the one reclaimed
    copy = take_frame(memory, h, page)
    memory.frames[h, source].pins -= 1
    if copy != NOBODY:
        settle_frame(memory, h, source)
        forget_frame(memory, h, copy)
        copy_page(memory, h, memory.bytes, copy, memory.bytes, source)
        memory.frames[h, copy].dirty = 1
        memory.hosts[h].copied += 1
    return copy
