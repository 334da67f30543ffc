"""Tags of what an interface keeps for its host, and the buffers behind them."""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import step
from nicscope.nic.coherent.layout import NOWHERE


@step
def tag_over(interface, start, end):
    """The tag whose region holds all of ``start`` up to ``end``, or ``NOWHERE``."""
    found = np.int64(NOWHERE)
    for t in range(interface.tags.size):
        tag = interface.tags[t]
        if tag.valid != 0 and tag.host_start <= start and end <= tag.host_end:
            found = np.int64(t)
    return found


@step
def free_tag(interface):
    """A tag that is not in use, or ``NOWHERE``."""
    for t in range(interface.tags.size):
        if interface.tags[t].valid == 0:
            return np.int64(t)
    return np.int64(NOWHERE)


@step
def room_for(interface, count):
    """The lowest place in NIC memory for a buffer of ``count`` bytes, or ``NOWHERE``."""
    start = interface.config[0].buffer_start
    while start + count <= interface.config[0].memory_bytes:
        behind = start
        for t in range(interface.tags.size):
            tag = interface.tags[t]
            if tag.valid != 0 and tag.nic_start < start + count and start < tag.nic_end:
                behind = max(behind, tag.nic_end)
        if behind == start:
            return start
        start = behind
    return np.int64(NOWHERE)


@step
def use_tag(interface, t, change):
    """Add ``change`` users to tag ``t``."""
    interface.registers[0].clock += 1
    interface.tags[t].users += change
    interface.tags[t].used = interface.registers[0].clock


@step
def set_tag(interface, t, start, end, place):
    """Make ``t`` the tag of the region ``start`` up to ``end``, its buffer at ``place``."""
    tag = interface.tags[t]
    tag.valid = 1
    tag.host_start = start
    tag.host_end = end
    tag.nic_start = place
    tag.nic_end = place + (end - start)
    tag.users = 0
    interface.registers[0].pinned += end - start


@step
def clear_tag(interface, t):
    """Tag ``t`` is not in use any more."""
    tag = interface.tags[t]
    interface.registers[0].pinned -= tag.host_end - tag.host_start
    tag.valid = 0
