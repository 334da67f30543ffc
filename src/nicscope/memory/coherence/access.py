"""What the CPU is to do with memory, in parts that each run until they need the bus.

An access is of one kind and of many bytes: a load, a copy, a message moved word by word.  It is
taken part by part; a part runs hits up to a horizon, the first time at which anything else may
happen, and stops at what needs the bus.  So no store is seen before its time, and a store between
two blocks of a DMA is seen by the later one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.kernel.decorators import step
from nicscope.kernel.records import records
from nicscope.memory.coherence.uncached import WIDEST

if TYPE_CHECKING:
    from numpy.typing import NDArray

# What the CPU is to do.
LOAD = 0  # bytes at ``address`` into a buffer
STORE = 1  # bytes of a buffer to ``address``
FLUSH = 2  # every block of a range leaves both caches
COPY = 3  # from ``address`` to ``place`` of the same memory
TO_DEVICE = 4  # from ``address`` to ``place`` of the device, in uncached stores
TO_DEVICE_COMBINED = 5  # the same through combining buffers, which are empty at its end
FROM_DEVICE = 6  # from ``place`` of the device to ``address``, by uncached loads
DOORBELL = 7  # combining buffers leave, then ``count`` bytes to a register of the device
KINDS = 8

# In which buffer a load or a store has its other end.
WINDOW = 0  # what the program holds in registers
SCRATCH = 1  # a block's bytes, of the interface's library

# Parts.
NO_PART = 0
LOADING = 1
STORING = 2
FLUSHING = 3
FETCHING = 4  # an uncached load
SENDING = 5  # an uncached store
COMBINING = 6
DRAINING = 7
RINGING = 8

# Where a part is.
FRESH = 0  # the first level is looked at
MISSED = 1  # the second level is looked at
ASKED = 2  # it waits for the bus
SERVED = 3  # what it asked for has ended

ACCESS = np.dtype(
    [
        ("kind", "i8"),
        ("address", "i8"),  # of the host's memory
        ("place", "i8"),  # the other end: in a buffer, in the device's memory, or for COPY
        ("count", "i8"),  # bytes
        ("done", "i8"),  # of these
        ("phase", "i8"),  # of a kind whose parts take turns
        ("buffer", "i8"),  # WINDOW or SCRATCH
        # The part under way.
        ("part", "i8"),
        ("stage", "i8"),
        ("where", "i8"),  # byte of the host's memory, block (FLUSHING), or byte of the device's
        ("start", "i8"),  # in the buffer
        ("length", "i8"),
        ("gone", "i8"),
        ("leaving", "i8"),  # the combining buffer that leaves
    ],
    align=True,
)


def new_accesses(nodes: int) -> NDArray[Any]:
    """ACCESS of ``nodes`` CPUs that have nothing to do."""
    return records((nodes, 1), ACCESS)


@step
def begin_access(access, kind, address, place, count, buffer):
    """The CPU is to do this next."""
    access.kind = kind
    access.address = address
    access.place = place
    access.count = count
    access.done = 0
    access.phase = 0
    # Kinds of several parts hold their bytes in scratch between two of them.
    access.buffer = buffer if kind in (LOAD, STORE) else SCRATCH
    access.part = NO_PART
    access.stage = FRESH
    access.length = 0
    access.gone = 0


@step
def _take_part(access, part, where, start, length):
    access.part = part
    access.where = where
    access.start = start
    access.length = length
    access.gone = 0
    access.stage = FRESH
    return True


@step
def next_part(host, access, room):
    """Begin the next part; whether there is one.  ``room``: bytes of the scratch buffer."""
    if access.kind == LOAD or access.kind == STORE:
        return _whole(access)
    if access.kind == FLUSH:
        return _next_block(host, access)
    if access.kind == COPY:
        return _next_copied(access, room)
    if access.kind == DOORBELL:
        return _next_of_doorbell(access)
    return _next_moved(access)


@step
def _whole(access):
    if access.done == access.count:
        return False
    access.done = access.count
    part = LOADING if access.kind == LOAD else STORING
    return _take_part(access, part, access.address, access.place, access.count)


@step
def _next_block(host, access):
    """One block after the other; ``phase`` counts them."""
    shift = host.config[0].l2_shift
    block = (access.address >> shift) + access.phase
    if access.count == 0 or block > (access.address + access.count - 1) >> shift:
        return False
    access.phase += 1
    return _take_part(access, FLUSHING, block, np.int64(0), np.int64(1))


@step
def _next_copied(access, room):
    """As an unrolled loop does: up to a block's bytes into registers, then out of them."""
    size = min(room, access.count - access.done)
    if size == 0:
        return False
    access.phase = 1 - access.phase
    if access.phase == 1:
        return _take_part(access, LOADING, access.address + access.done, np.int64(0), size)
    access.done += size
    return _take_part(access, STORING, access.place + access.done - size, np.int64(0), size)


@step
def _next_of_doorbell(access):
    access.phase += 1
    if access.phase == 1:
        return _take_part(access, DRAINING, np.int64(0), np.int64(0), np.int64(1))
    if access.phase == 2:
        return _take_part(access, RINGING, np.int64(0), np.int64(0), min(WIDEST, access.count))
    return False


@step
def _next_moved(access):
    """Up to eight bytes between host and device: in by one part, out by the other."""
    place = access.place + access.done
    size = min(WIDEST - (place & (WIDEST - 1)), access.count - access.done)
    zero = np.int64(0)
    if size == 0:
        if access.kind == TO_DEVICE_COMBINED and access.phase == 0 and access.part != DRAINING:
            return _take_part(access, DRAINING, zero, zero, np.int64(1))
        return False
    address = access.address + access.done
    access.phase = 1 - access.phase
    if access.phase == 1:
        if access.kind == FROM_DEVICE:
            return _take_part(access, FETCHING, place, zero, size)
        return _take_part(access, LOADING, address, zero, size)
    access.done += size
    if access.kind == FROM_DEVICE:
        return _take_part(access, STORING, address, zero, size)
    part = COMBINING if access.kind == TO_DEVICE_COMBINED else SENDING
    return _take_part(access, part, place, zero, size)
