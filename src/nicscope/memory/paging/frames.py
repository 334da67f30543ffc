"""Frames and swap: taken, filled, swapped out, faulted in, and pinned for a network interface."""

import numpy as np

from nicscope.kernel.decorators import copy_bytes, routine, step
from nicscope.memory.coherence.bus import forget, settle
from nicscope.memory.paging import layout


@step
def copy_page(memory, h, target, to, source, start):
    """Copy page number ``start`` of ``source`` to page number ``to`` of ``target``.

    Both are ``memory.bytes`` or ``memory.block_bytes``, of host ``h``.
    """
    page_size = memory.config[0].page_size
    copy_bytes(target[h], to * page_size, source[h], start * page_size, page_size)


@step
def settle_frame(memory, h, frame):
    """Write back what caches have modified of ``frame``, before its bytes are read."""
    page_size = memory.config[0].page_size
    settle(memory.caches, h, frame * page_size, page_size)


@step
def forget_frame(memory, h, frame):
    """Discard ``frame`` from all caches, before its bytes are overwritten."""
    page_size = memory.config[0].page_size
    forget(memory.caches, h, frame * page_size, page_size)


@step
def zero_frame(memory, h, frame):
    """Set the bytes of ``frame`` to zero; counted."""
    forget_frame(memory, h, frame)
    page_size = memory.config[0].page_size
    memory.bytes[h, frame * page_size : (frame + 1) * page_size] = 0
    memory.hosts[h].zeroed += 1


@step
def is_free(memory, h, frame):
    """Whether ``frame`` is in the chain of free frames."""
    record = memory.frames[h, frame]
    return record.references == 0 and record.pins == 0


@step
def pop_frame(memory, h, page):
    """A free frame, for virtual page ``page``, with no references yet; NOBODY if none is free."""
    host = memory.hosts[h]
    frame = np.int64(host.free_frame)
    if frame != layout.NOBODY:
        record = memory.frames[h, frame]
        host.free_frame = record.next_free
        host.free_frames -= 1
        record.page = page
        record.pinner = layout.NOBODY
        record.block = layout.NOBODY
        record.dirty = 0
        record.referenced = 1
        record.pinned_to_write = 0
    return frame


@routine
def free_if_unused(memory, h, frame):
    """Free ``frame`` if nothing refers to it or pins it any more; its generation grows."""
    if is_free(memory, h, frame):
        drop_clean_copy(memory, h, frame)
        record = memory.frames[h, frame]
        record.generation += 1
        record.page = layout.NOBODY
        record.pinner = layout.NOBODY
        host = memory.hosts[h]
        record.next_free = host.free_frame
        host.free_frame = frame
        host.free_frames += 1


@step
def pop_block(memory, h):
    """A free swap block, with no references yet; NOBODY if none is free."""
    host = memory.hosts[h]
    block = np.int64(host.free_block)
    if block != layout.NOBODY:
        host.free_block = memory.blocks[h, block].next_free
        host.free_blocks -= 1
    return block


@step
def drop_block(memory, h, block):
    """Drop one reference to ``block``; the last one frees it."""
    record = memory.blocks[h, block]
    record.references -= 1
    if record.references == 0:
        host = memory.hosts[h]
        record.next_free = host.free_block
        host.free_block = block
        host.free_blocks += 1


@step
def drop_clean_copy(memory, h, frame):
    """Drop the clean copy of ``frame`` in swap."""
    record = memory.frames[h, frame]
    if record.block != layout.NOBODY:
        drop_block(memory, h, np.int64(record.block))
        record.block = layout.NOBODY


@step
def note_access(memory, h, frame, write):
    """``frame`` is used; to be written if ``write``, so a copy in swap is no longer one."""
    record = memory.frames[h, frame]
    record.referenced = 1
    if write != 0 and record.dirty == 0:
        record.dirty = 1
        drop_clean_copy(memory, h, frame)


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
    if entry.state != layout.PRESENT:
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
    if memory.hosts[h].free_frame != layout.NOBODY:
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
        if entry.state == layout.PRESENT and entry.frame == frame:
            entry.frame = layout.NOBODY
            if record.block == layout.NOBODY:
                entry.state = layout.DEMAND_ZERO
            else:
                entry.state = layout.SWAPPED
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
    if memory.hosts[h].free_frame == layout.NOBODY and not reclaim(memory, h):
        return np.int64(layout.NOBODY)
    return pop_frame(memory, h, page)


@step
def need(memory, h, space, page, write):
    """READY, ZERO, COPY or DISK before this access; or DENIED, NOT_MAPPED.  Changes nothing.

    ``page`` may be any number.
    """
    if page < 0 or page >= memory.entries.shape[2]:
        return layout.NOT_MAPPED
    entry = memory.entries[h, space, page]
    if entry.state == layout.UNMAPPED:
        return layout.NOT_MAPPED
    if entry.rights & (layout.WRITE if write != 0 else layout.READ) == 0:
        return layout.DENIED
    if entry.state == layout.DEMAND_ZERO:
        return layout.ZERO
    if entry.state == layout.SWAPPED:
        return layout.DISK
    if write != 0:
        record = memory.frames[h, entry.frame]
        if record.references > 1 or pinned_by_another(memory, h, space, np.int64(entry.frame)):
            return layout.COPY
    return layout.READY


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
    if needed == layout.ZERO:
        frame = _fill_zero(memory, h, space, page)
    elif needed == layout.DISK:
        frame = _page_in(memory, h, space, page)
    elif needed == layout.COPY:
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
    if needed != layout.DISK:
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
    entry.state = layout.PRESENT
    entry.frame = frame
    entry.block = layout.NOBODY
    memory.frames[h, frame].references += 1


@routine
def _fill_zero(memory, h, space, page):
    frame = take_frame(memory, h, page)
    if frame == layout.NOBODY:
        return np.int64(layout.NO_FRAME)
    zero_frame(memory, h, frame)
    install(memory, h, space, page, frame)
    return frame


@routine
def _page_in(memory, h, space, page):
    """The page's block is read into a frame of this space's own; the frame keeps the block."""
    frame = take_frame(memory, h, page)
    if frame == layout.NOBODY:
        return np.int64(layout.NO_FRAME)
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
    if copy == layout.NOBODY:
        return np.int64(layout.NO_FRAME)
    if memory.frames[h, shared].pins == 0 or pinned_by_another(memory, h, space, shared):
        memory.frames[h, shared].references -= 1
        install(memory, h, space, page, copy)
        free_if_unused(memory, h, shared)
        return copy
    for other in range(memory.entries.shape[1]):
        entry = memory.entries[h, other, page]
        if other != space and entry.state == layout.PRESENT and entry.frame == shared:
            memory.frames[h, shared].references -= 1
            install(memory, h, other, page, copy)
    return shared


@routine
def copied_frame(memory, h, source, page):
    """A frame with the bytes of ``source``, with no references yet; NOBODY if there is none."""
    memory.frames[h, source].pins += 1  # so that it is not the one reclaimed
    copy = take_frame(memory, h, page)
    memory.frames[h, source].pins -= 1
    if copy != layout.NOBODY:
        settle_frame(memory, h, source)
        forget_frame(memory, h, copy)
        copy_page(memory, h, memory.bytes, copy, memory.bytes, source)
        memory.frames[h, copy].dirty = 1
        memory.hosts[h].copied += 1
    return copy


@step
def need_to_pin(memory, h, space, page, write):
    """What ``need`` says, but for a pin: COPY also if another space has pinned the frame; LIMIT."""
    needed = need(memory, h, space, page, write)
    if needed < 0:
        return needed
    if needed in (layout.READY, layout.COPY):  # the page is present
        frame = np.int64(memory.entries[h, space, page].frame)
        if pinned_by_another(memory, h, space, frame):
            needed = layout.COPY
        elif memory.frames[h, frame].pins > 0:
            return needed
    owner = memory.spaces[h, space]
    host = memory.hosts[h]
    if owner.pinned >= owner.pin_limit or host.pinned >= host.pin_limit:
        return layout.LIMIT
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
    if frame <= layout.GARBAGE_FRAME or frame >= memory.frames.shape[1]:
        return np.int64(layout.DENIED)
    record = memory.frames[h, frame]
    if record.pins == 0 or record.pinner != space:
        return np.int64(layout.DENIED)
    record.pins -= 1
    left = np.int64(record.pins)
    if left == 0:
        record.pinner = layout.NOBODY
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
    return frame == layout.GARBAGE_FRAME or (record.pins > 0 and record.generation == generation)


@step
def may_transfer_into(memory, h, frame, generation):
    """Likewise, and whether the frame was pinned to be written."""
    record = memory.frames[h, frame]
    return frame == layout.GARBAGE_FRAME or (
        record.pins > 0 and record.generation == generation and record.pinned_to_write != 0
    )
