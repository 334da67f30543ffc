"""What an agent does to its own copies: writes, and write-backs.  Its reads that asked go first."""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import routine, step
from nicscope.memory.coherence.device import INTERVENED, device_upgrade, device_write
from nicscope.memory.coherence.layout import (
    MODIFIED,
    SHARED,
    WRITE_BACK,
)
from nicscope.memory.coherence.lines import copy_bytes
from nicscope.memory.coherence.watcher import await_copies, give_way


@step
def agent_write(host, watcher, place, count, source, start, asks):
    """When the agent has written ``count`` bytes within one of its blocks, now MODIFIED (ps).

    ``place`` is a byte of the agent's memory.  A copy of the host's goes.  If the agent has no
    valid copy and does not write the whole block, it reads the block first.
    """
    if watcher.copies[place >> host.config[0].l2_shift].state != MODIFIED:
        asks = _own(host, watcher, place, count, asks)
    copy_bytes(watcher.memory, place, source, start, count)
    return asks


@routine
def _own(host, watcher, place, count, asks):
    """When the block of ``place`` is the agent's alone, with all bytes that it will not write."""
    shift = host.config[0].l2_shift
    home = place >> shift
    copy = watcher.copies[home]
    if count < np.int64(1) << shift:
        asks = await_copies(host, watcher, home, home + 1, asks)
    give_way(host, watcher, asks)
    asks = device_upgrade(host, copy.block, asks)
    copy.state = MODIFIED
    copy.arrived = asks
    return asks


@routine
def agent_write_back(host, watcher, home, asks, mbytes_s):
    """When the agent's whole block ``home`` is in the host's memory (ps); it stays, SHARED."""
    width = np.int64(1) << host.config[0].l2_shift
    block = watcher.copies[home].block
    give_way(host, watcher, asks)
    end = device_write(
        host,
        block * width,
        width,
        watcher.memory,
        home * width,
        asks,
        mbytes_s,
        INTERVENED,
        WRITE_BACK,
    )
    watcher.copies[home].state = SHARED
    return end
