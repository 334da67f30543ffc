"""Tags of registered regions, the buffers behind them, and the pinned-down cache over both.

A tag whose last user is gone stays until registered memory exceeds its maximum or its room is
needed; then the one not used for longest goes (EDT, 5).
"""

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
def tag_touching(interface, start, end):
    """A tag whose region shares a byte with ``start`` up to ``end``, or ``NOWHERE``."""
    found = np.int64(NOWHERE)
    for t in range(interface.tags.size):
        tag = interface.tags[t]
        if tag.valid != 0 and tag.host_start < end and start < tag.host_end:
            found = np.int64(t)
    return found


@step
def nic_address(interface, address):
    """Where the host's byte ``address`` is in NIC memory, SNA + (address - SHA), or ``NOWHERE``."""
    t = tag_over(interface, address, address + 1)
    if t == NOWHERE:
        return t
    return interface.tags[t].nic_start + (address - interface.tags[t].host_start)


@step
def free_tag(interface):
    """A tag that is not in use, or ``NOWHERE``."""
    for t in range(interface.tags.size):
        if interface.tags[t].valid == 0:
            return np.int64(t)
    return np.int64(NOWHERE)


@step
def idle_tag(interface):
    """The tag without a user that was not used for longest, or ``NOWHERE``."""
    found = np.int64(NOWHERE)
    for t in range(interface.tags.size):
        tag = interface.tags[t]
        older = found == NOWHERE or tag.used < interface.tags[found].used
        if tag.valid != 0 and tag.users == 0 and older:
            found = np.int64(t)
    return found


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
