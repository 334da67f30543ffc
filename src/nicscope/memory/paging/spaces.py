"""Address spaces: mapping, rights, fork and end, and a program's own reads and writes."""

import numpy as np

from nicscope.kernel.decorators import copy_bytes, routine, step
from nicscope.memory.coherence.bus import forget, settle
from nicscope.memory.paging import frames, layout


@step
def outside(memory, first, count):
    """Whether pages ``first..first + count - 1`` are not all in a page table."""
    return first < 0 or count < 0 or first > memory.entries.shape[2] - count


@routine
def map_pages(memory, h, space, first, count, rights):
    """How many pages were mapped: ``count``, all zeros on demand; or OUTSIDE, ALREADY_MAPPED."""
    if outside(memory, first, count):
        return np.int64(layout.OUTSIDE)
    for page in range(first, first + count):
        if memory.entries[h, space, page].state != layout.UNMAPPED:
            return np.int64(layout.ALREADY_MAPPED)
    for page in range(first, first + count):
        entry = memory.entries[h, space, page]
        entry.state = layout.DEMAND_ZERO
        entry.rights = rights
    memory.spaces[h, space].mapped += count
    return np.int64(count)


@routine
def unmap_pages(memory, h, space, first, count):
    """How many pages of the range were mapped, and are no more; or OUTSIDE.

    A frame that is pinned lives on, as its pinner's, until it is unpinned (U-Net/MM 5.1).
    """
    if outside(memory, first, count):
        return np.int64(layout.OUTSIDE)
    unmapped = np.int64(0)
    for page in range(first, first + count):
        entry = memory.entries[h, space, page]
        if entry.state == layout.UNMAPPED:
            continue
        state = np.int64(entry.state)
        entry.state = layout.UNMAPPED
        entry.rights = 0
        if state == layout.PRESENT:
            frame = np.int64(entry.frame)
            entry.frame = layout.NOBODY
            memory.frames[h, frame].references -= 1
            frames.free_if_unused(memory, h, frame)
        elif state == layout.SWAPPED:
            frames.drop_block(memory, h, np.int64(entry.block))
            entry.block = layout.NOBODY
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
        return np.int64(layout.OUTSIDE)
    for page in range(first, first + count):
        if memory.entries[h, space, page].state == layout.UNMAPPED:
            return np.int64(layout.NOT_MAPPED)
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
        return np.int64(layout.ALREADY_MAPPED)
    for page in range(memory.entries.shape[2]):
        state = np.int64(memory.entries[h, parent, page].state)
        if state == layout.UNMAPPED:
            continue
        frame = np.int64(memory.entries[h, parent, page].frame)
        if state == layout.PRESENT and memory.frames[h, frame].pins > 0:
            frame = frames.copied_frame(memory, h, frame, page)
            if frame == layout.NOBODY:
                close_space(memory, h, child)
                return np.int64(layout.NO_FRAME)
        entry = memory.entries[h, child, page]
        entry.rights = memory.entries[h, parent, page].rights
        if state == layout.PRESENT:
            frames.install(memory, h, child, page, frame)
        else:
            entry.state = state
        if state == layout.SWAPPED:
            entry.block = memory.entries[h, parent, page].block
            memory.blocks[h, entry.block].references += 1
        memory.spaces[h, child].mapped += 1
    return np.int64(memory.spaces[h, child].mapped)


@routine
def close_space(memory, h, space):
    """How many pages the space had; it has none any more, but what it pinned stays pinned."""
    return unmap_pages(memory, h, space, 0, memory.entries.shape[2])


@routine
def move_bytes(memory, h, space, address, data, count, write):
    """``count``, the bytes read from ``address`` into ``data``, or written there from ``data``.

    ``data``: uint8, at least ``count``.  Else DENIED, NOT_MAPPED, or NO_FRAME: then the pages
    before have moved.
    """
    refusal = may_access(memory, h, space, address, count, write)
    if refusal < 0:
        return refusal
    page_size = memory.config[0].page_size
    done = np.int64(0)
    while done < count:
        frame = bring_page(memory, h, space, (address + done) >> memory.config[0].page_shift, write)
        if frame < 0:
            return frame
        offset = (address + done) & (page_size - 1)
        size = min(page_size - offset, count - done)
        start = frame * page_size + offset
        if write:
            forget(memory.caches, h, start, size)
            copy_bytes(memory.bytes[h], start, data, done, size)
        else:
            settle(memory.caches, h, start, size)
            copy_bytes(data, done, memory.bytes[h], start, size)
        done += size
    return done


@step
def lock_address(memory, h, space, address, write):
    """Physical address, its frame kept until ``unlock_address``; -1 if the page is absent."""
    shift = memory.config[0].page_shift
    page = address >> shift
    if frames.need(memory, h, space, page, write) != layout.READY:
        return np.int64(-1)
    frame = np.int64(memory.entries[h, space, page].frame)
    frames.note_access(memory, h, frame, write)
    memory.hosts[h].accessed = frame
    return (frame << shift) + (address & (memory.config[0].page_size - 1))


@step
def unlock_address(memory, h):
    """Release the frame that the CPU worked on."""
    memory.hosts[h].accessed = 0


@routine
def may_access(memory, h, space, address, count, write):
    """0 if the space has the right to the whole range, else the first reason why not."""
    shift = memory.config[0].page_shift
    refusal = np.int64(0)
    if address < 0 or count < 0 or address > (memory.entries.shape[2] << shift) - count:
        refusal = np.int64(layout.NOT_MAPPED)
    elif count > 0:
        for page in range(address >> shift, ((address + count - 1) >> shift) + 1):
            refusal = min(np.int64(frames.need(memory, h, space, page, write)), np.int64(0))
            if refusal < 0:
                break
    if refusal < 0:
        memory.spaces[h, space].refusals += 1
    return refusal


@routine
def bring_page(memory, h, space, page, write):
    """The frame of ``page`` after the faults of its space's own access; or why there is none."""
    needed = frames.need(memory, h, space, page, write)
    owner = memory.spaces[h, space]
    if needed == layout.ZERO:
        owner.zero_faults += 1
    elif needed == layout.COPY:
        owner.copy_faults += 1
    elif needed == layout.DISK:
        owner.disk_faults += 1
    return frames.bring(memory, h, space, page, write, needed)
