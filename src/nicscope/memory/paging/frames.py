"""Frames and swap blocks: taking and giving back, filling, copying."""

from __future__ import annotations

import numpy as np

from nicscope.kernel.bytecopy import copy_bytes
from nicscope.kernel.decorators import routine, step
from nicscope.memory.coherence.frames import forget, settle
from nicscope.memory.paging.layout import NOBODY


@step
def copy_page(memory, h, target, to, source, start):
    """Copy page number ``start`` of ``source`` to page number ``to`` of ``target``.

    Both are ``memory.bytes`` or ``memory.block_bytes``, of host ``h``.
    """
    page_size = memory.config[0].page_size
    copy_bytes(target[h], to * page_size, source[h], start * page_size, page_size)


@step
def settle_frame(memory, h, frame):
    """What caches have modified of ``frame`` is in its bytes, which are to be read."""
    page_size = memory.config[0].page_size
    settle(memory.caches, h, frame * page_size, page_size)


@step
def forget_frame(memory, h, frame):
    """No cache has anything of ``frame``, whose bytes are to be overwritten."""
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
    if frame != NOBODY:
        record = memory.frames[h, frame]
        host.free_frame = record.next_free
        host.free_frames -= 1
        record.page = page
        record.pinner = NOBODY
        record.block = NOBODY
        record.dirty = 0
        record.referenced = 1
        record.pinned_to_write = 0
    return frame


@routine
def free_if_unused(memory, h, frame):
    """Give ``frame`` back if nothing refers to it or pins it any more; its generation grows."""
    if is_free(memory, h, frame):
        drop_clean_copy(memory, h, frame)
        record = memory.frames[h, frame]
        record.generation += 1
        record.page = NOBODY
        record.pinner = NOBODY
        host = memory.hosts[h]
        record.next_free = host.free_frame
        host.free_frame = frame
        host.free_frames += 1


@step
def pop_block(memory, h):
    """A free swap block, with no references yet; NOBODY if none is free."""
    host = memory.hosts[h]
    block = np.int64(host.free_block)
    if block != NOBODY:
        host.free_block = memory.blocks[h, block].next_free
        host.free_blocks -= 1
    return block


@step
def drop_block(memory, h, block):
    """One reference to ``block`` less; the last one frees it."""
    record = memory.blocks[h, block]
    record.references -= 1
    if record.references == 0:
        host = memory.hosts[h]
        record.next_free = host.free_block
        host.free_block = block
        host.free_blocks += 1


@step
def drop_clean_copy(memory, h, frame):
    """``frame`` keeps no swap block any more."""
    record = memory.frames[h, frame]
    if record.block != NOBODY:
        drop_block(memory, h, np.int64(record.block))
        record.block = NOBODY


@step
def note_access(memory, h, frame, write):
    """``frame`` is used; to be written if ``write``, so a copy in swap is no longer one."""
    record = memory.frames[h, frame]
    record.referenced = 1
    if write != 0 and record.dirty == 0:
        record.dirty = 1
        drop_clean_copy(memory, h, frame)
