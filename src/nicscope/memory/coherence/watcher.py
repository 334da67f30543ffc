"""An agent on the bus, other than the host, that keeps copies of some of the host's blocks.

What it watches is data: ``home`` says for each block of the host where the agent keeps it.  When
the host takes such a block, the agent's copy becomes INVALID and a read of the block is due
``reaction`` after, unless that is NEVER; ``catch_up`` does the reads that are due.  What the
copies are for, the bus need not know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.kernel.decorators import routine, step
from nicscope.kernel.records import records
from nicscope.memory.coherence.bus import ordered_at
from nicscope.memory.coherence.device import INTERVENED, device_read
from nicscope.memory.coherence.layout import EMPTY, INVALID, SHARED

if TYPE_CHECKING:
    from numpy.typing import NDArray

FAR = 1 << 62
NEVER = -1
WINDOW = 8  # the most reads that an agent may have under way

COPY = np.dtype(
    [
        ("state", "i8"),  # INVALID, SHARED or MODIFIED
        ("block", "i8"),  # of the host, or EMPTY
        ("due", "i8"),  # ps: when its pending read asks for the bus; FAR if none is pending
        ("arrived", "i8"),  # ps: when its bytes had all come
        ("reaction", "i8"),  # ps from losing it to asking for the bus; NEVER: until it is wanted
    ],
    align=True,
)

WATCH = np.dtype(
    [
        ("next_due", "i8"),  # ps: when the oldest pending read asks for the bus, or FAR
        ("next_order", "i8"),  # ps: not before this is that read ordered
        ("head", "i8"),  # pending reads taken and added so far
        ("tail", "i8"),
        ("window", "i8"),  # reads that may be under way, 1 to WINDOW
        ("reads", "i8"),
        ("mbytes_s", "i8"),  # the rate at which the agent takes data; bounded by the bus
    ],
    align=True,
)


class Watcher(NamedTuple):
    """One agent; of several hosts each array has one more axis in front."""

    watch: NDArray[Any]  # WATCH, shape (1,)
    home: NDArray[np.int32]  # shape (blocks of the host,): the agent's block, or EMPTY
    copies: NDArray[Any]  # COPY, shape (blocks of the agent,)
    pending: NDArray[np.int32]  # shape (blocks of the agent,): a ring of its blocks
    ends: NDArray[np.int64]  # shape (WINDOW,): when the last reads ended, ps
    memory: NDArray[np.uint8]  # shape (blocks of the agent * block,)


def new_watchers(
    nodes: int,
    host_blocks: int,
    blocks: int,
    block_bytes: int,
    window: int,
    mbytes_s: int,
) -> Watcher:
    """``nodes`` agents with memories of zeros that watch nothing."""
    watch = records((nodes, 1), WATCH)
    watch["next_due"] = FAR
    watch["next_order"] = FAR
    watch["window"] = window
    watch["mbytes_s"] = mbytes_s
    copies = records((nodes, blocks), COPY)
    copies["block"] = EMPTY
    copies["due"] = FAR
    return Watcher(
        watch=watch,
        home=np.full((nodes, host_blocks), EMPTY, np.int32),
        copies=copies,
        pending=np.zeros((nodes, blocks), np.int32),
        ends=np.zeros((nodes, WINDOW), np.int64),
        memory=np.zeros((nodes, blocks * block_bytes), np.uint8),
    )


@step
def ask_for(watcher, place, when):
    """Put a read of the agent's block ``place`` in the queue, to ask for the bus at ``when``."""
    copy = watcher.copies[place]
    if copy.due != FAR:
        return
    watch = watcher.watch[0]
    copy.due = when
    watcher.pending[watch.tail % watcher.pending.size] = place
    watch.tail += 1
    watch.next_due = min(watch.next_due, when)
    watch.next_order = min(watch.next_order, when)


@step
def lose(watcher, place, when):
    """The host takes a block of which ``place`` has a copy; the bus is done with it at ``when``."""
    watcher.copies[place].state = INVALID
    if watcher.copies[place].reaction != NEVER:
        ask_for(watcher, place, when + watcher.copies[place].reaction)


@step
def catch_up(host, watcher, now):
    """Do the pending reads that the bus has put in order by ``now``."""
    if watcher.watch[0].next_order <= now:
        _do_reads(host, watcher, now, True)


@step
def give_way(host, watcher, now):
    """Do the pending reads that have asked for the bus by ``now``: first come, first served."""
    if watcher.watch[0].next_due <= now:
        _do_reads(host, watcher, now, False)


@routine
def _do_reads(host, watcher, now, ordered):
    """Do the pending reads that by ``now`` ask for the bus or, with ``ordered``, are in order."""
    watch = watcher.watch[0]
    while watch.head < watch.tail:
        place = np.int64(watcher.pending[watch.head % watcher.pending.size])
        asks = max(watcher.copies[place].due, watcher.ends[(watch.reads - watch.window) % WINDOW])
        order = ordered_at(host, asks)
        if now < (order if ordered else asks):
            watch.next_due = asks
            watch.next_order = order
            return
        _read(host, watcher, place, asks, order)
    watch.next_due = FAR
    watch.next_order = FAR


@step
def _read(host, watcher, place, asks, order):
    watch = watcher.watch[0]
    copy = watcher.copies[place]
    watch.head += 1
    copy.due = FAR
    if copy.block == EMPTY or copy.state != INVALID:
        if watch.head < watch.tail:  # what stood behind it could not ask before its turn
            behind = watcher.copies[np.int64(watcher.pending[watch.head % watcher.pending.size])]
            behind.due = max(behind.due, order)
        return
    width = np.int64(1) << host.config[0].l2_shift
    end = device_read(
        host,
        copy.block * width,
        width,
        watcher.memory,
        place * width,
        asks,
        watch.mbytes_s,
        INTERVENED,
    )
    copy.state = SHARED
    copy.arrived = end
    watcher.ends[watch.reads % WINDOW] = end
    watch.reads += 1


@routine
def await_copies(host, watcher, first, last, now):
    """When the agent's blocks ``first`` up to ``last`` have their bytes, seen from ``now`` (ps).

    Asks for those that it has not and for which no read is pending.
    """
    for place in range(first, last):
        if watcher.copies[place].state == INVALID:
            ask_for(watcher, place, now)
    finish_reads(host, watcher, first, last)
    arrived = now
    for place in range(first, last):
        arrived = max(arrived, watcher.copies[place].arrived)
    return arrived


@step
def finish_reads(host, watcher, first, last):
    """Do all reads that are pending for the agent's blocks ``first`` up to ``last``."""
    for place in range(first, last):
        while watcher.copies[place].due != FAR:
            _do_reads(host, watcher, watcher.watch[0].next_due, False)


@step
def watch_block(watcher, block, place, reaction):
    """From now on the agent keeps ``block`` of the host at its block ``place``; it is INVALID."""
    copy = watcher.copies[place]
    copy.block = block
    copy.state = INVALID
    copy.arrived = 0
    copy.reaction = reaction
    watcher.home[block] = place


@step
def unwatch_block(watcher, place):
    """The agent keeps nothing in its block ``place`` any more; no read of it may be pending."""
    copy = watcher.copies[place]
    watcher.home[copy.block] = EMPTY
    copy.block = EMPTY
    copy.state = INVALID
