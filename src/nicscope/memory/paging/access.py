"""A program's own reads and writes, byte by byte, with their faults done at once and counted.

Rights of the whole range are checked first, so an access that is refused changes nothing.
"""

from __future__ import annotations

import numpy as np

from nicscope.kernel.bytecopy import copy_bytes
from nicscope.kernel.decorators import routine, step
from nicscope.memory.coherence.frames import forget, settle
from nicscope.memory.paging.faults import bring, need
from nicscope.memory.paging.frames import note_access
from nicscope.memory.paging.layout import COPY, DISK, NOT_MAPPED, READY, ZERO


@routine
def read_bytes(memory, h, space, address, out, count):
    """``count``, the bytes read from ``address`` into ``out``; or DENIED, NOT_MAPPED, NO_FRAME.

    ``out``: uint8, at least ``count``.  With NO_FRAME the pages before are in ``out``.
    """
    refusal = _refusal(memory, h, space, address, count, 0)
    if refusal < 0:
        return refusal
    page_size = memory.config[0].page_size
    done = np.int64(0)
    while done < count:
        frame = _fault(memory, h, space, (address + done) >> memory.config[0].page_shift, 0)
        if frame < 0:
            return frame
        offset = (address + done) & (page_size - 1)
        size = min(page_size - offset, count - done)
        start = frame * page_size + offset
        settle(memory.caches, h, start, size)
        copy_bytes(out, done, memory.bytes[h], start, size)
        done += size
    return done


@routine
def write_bytes(memory, h, space, address, data, count):
    """``count``, the bytes of ``data`` written to ``address``; or DENIED, NOT_MAPPED, NO_FRAME.

    ``data``: uint8, at least ``count``.  With NO_FRAME the pages before are written.
    """
    refusal = _refusal(memory, h, space, address, count, 1)
    if refusal < 0:
        return refusal
    page_size = memory.config[0].page_size
    done = np.int64(0)
    while done < count:
        frame = _fault(memory, h, space, (address + done) >> memory.config[0].page_shift, 1)
        if frame < 0:
            return frame
        offset = (address + done) & (page_size - 1)
        size = min(page_size - offset, count - done)
        start = frame * page_size + offset
        forget(memory.caches, h, start, size)
        copy_bytes(memory.bytes[h], start, data, done, size)
        done += size
    return done


@routine
def may_access(memory, h, space, address, count, write):
    """0 if the space has the right to the whole range, else the first reason why not."""
    return _refusal(memory, h, space, address, count, write)


@routine
def bring_page(memory, h, space, page, write):
    """The frame of ``page`` after the faults of its space's own access; or why there is none."""
    return _fault(memory, h, space, page, write)


@step
def begin_at(memory, h, space, address, write):
    """The physical address, whose frame stays until ``end_at``; -1 if the page is not there."""
    shift = memory.config[0].page_shift
    page = address >> shift
    if need(memory, h, space, page, write) != READY:
        return np.int64(-1)
    frame = np.int64(memory.entries[h, space, page].frame)
    note_access(memory, h, frame, write)
    memory.hosts[h].accessed = frame
    return (frame << shift) + (address & (memory.config[0].page_size - 1))


@step
def end_at(memory, h):
    """The CPU is done with the frame that it worked on."""
    memory.hosts[h].accessed = 0


@step
def _refusal(memory, h, space, address, count, write):
    """The first reason in the range not to allow the access, or 0."""
    shift = memory.config[0].page_shift
    refusal = np.int64(0)
    if address < 0 or count < 0 or address > (memory.entries.shape[2] << shift) - count:
        refusal = np.int64(NOT_MAPPED)
    elif count > 0:
        for page in range(address >> shift, ((address + count - 1) >> shift) + 1):
            refusal = min(np.int64(need(memory, h, space, page, write)), np.int64(0))
            if refusal < 0:
                break
    if refusal < 0:
        memory.spaces[h, space].refusals += 1
    return refusal


@routine
def _fault(memory, h, space, page, write):
    needed = need(memory, h, space, page, write)
    owner = memory.spaces[h, space]
    if needed == ZERO:
        owner.zero_faults += 1
    elif needed == COPY:
        owner.copy_faults += 1
    elif needed == DISK:
        owner.disk_faults += 1
    return bring(memory, h, space, page, write, needed)
