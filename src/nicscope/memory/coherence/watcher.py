"""An agent on the bus, other than the host, that keeps copies of some of the host's blocks.

What it watches is data: ``home`` says for each block of the host where the agent keeps it.  When
the host takes such a block, the agent's copy becomes INVALID and a read of the block is due
``reaction`` after, unless that is NEVER.  What the copies are for, the bus need not know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.kernel.decorators import step
from nicscope.kernel.records import records
from nicscope.memory.coherence.layout import EMPTY, INVALID

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
        ("head", "i8"),  # pending reads taken and added so far
        ("tail", "i8"),
        ("window", "i8"),  # reads that may be under way, 1 to WINDOW
        ("reads", "i8"),
        ("mbytes_s", "i8"),  # the rate at which the agent takes data; bounded by the bus
        ("writing_mbytes_s", "i8"),  # that at which it writes its copies to memory
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
    watch["window"] = window
    watch["mbytes_s"] = mbytes_s
    watch["writing_mbytes_s"] = mbytes_s
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


@step
def lose(watcher, place, when):
    """The host takes a block of which ``place`` has a copy; the bus is done with it at ``when``."""
    watcher.copies[place].state = INVALID
    if watcher.copies[place].reaction != NEVER:
        ask_for(watcher, place, when + watcher.copies[place].reaction)


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
