"""The interface stores into blocks that it keeps: each must be its alone before."""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import step
from nicscope.memory.coherence.device import INTERVENED
from nicscope.memory.coherence.layout import MODIFIED, UPGRADE
from nicscope.nic.ways.state import FINISHED, ask_for_bus, await_rest


@step
def own_block(ways, n, m, master, place, count):
    """What is needed before ``count`` bytes at ``place`` may be stored; FINISHED if nothing."""
    block = ways.nics.config[n, 0].block
    home = place // block
    copy = ways.agents.copies[n, home]
    if copy.state == MODIFIED:
        return FINISHED
    if count < block:
        needed = await_rest(ways, n, m, home)
        if needed != FINISHED:
            return needed
    zero = np.int64(0)
    return ask_for_bus(ways, n, master, UPGRADE, copy.block * block, count, zero, INTERVENED)
