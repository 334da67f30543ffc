"""Registered regions under EDT: a tag, a buffer, block states, and the pinned-down cache.

Regions are whole blocks.  What registration costs beyond the bus, in system calls and pinning, is
the kernel agent's.
"""

from __future__ import annotations

from nicscope.drivers.coherent.machine import charge
from nicscope.kernel.decorators import routine, step
from nicscope.memory.coherence.cpu import flush_block
from nicscope.memory.coherence.layout import MODIFIED
from nicscope.memory.coherence.watched import agent_write_back
from nicscope.memory.coherence.watcher import (
    await_copies,
    finish_reads,
    give_way,
    unwatch_block,
    watch_block,
)
from nicscope.nic.coherent.layout import BY_READING, FALL_BACK, NOWHERE, Component
from nicscope.nic.coherent.tags import (
    clear_tag,
    free_tag,
    idle_tag,
    room_for,
    set_tag,
    tag_over,
    tag_touching,
    use_tag,
)

# What became of a registration.
REGISTERED = 0
REUSED = 1  # the region was still there
FALLEN_BACK = 2  # no room on the NIC: DMA with intervention serves it
POSTPONED = 3  # no room on the NIC: ask again once something was deregistered
OVERLAPPING = 4  # it shares some but not all of its blocks with a region in use; not registered
NOT_REGISTERED = 5  # of a deregistration


@routine
def register_region(node, address, count, now):
    """What became of the registration of ``count`` (> 0) bytes at ``address``, and when."""
    block = node.nic.config[0].block
    start = address // block * block
    stop = (address + count + block - 1) // block * block
    registers = node.nic.registers[0]
    t = tag_over(node.nic, start, stop)
    if t != NOWHERE:
        use_tag(node.nic, t, 1)
        registers.reuses += 1
        return REUSED, now
    end, status = _make_room(node, start, stop, now)
    if status == REGISTERED:
        end = _set_up(node, start, stop, end)
        registers.registrations += 1
    elif status == FALLEN_BACK:
        registers.fallbacks += 1
    elif status == POSTPONED:
        registers.postponements += 1
    return status, charge(node, Component.REGISTER, now, end)


@step
def _make_room(node, start, stop, now):
    """When idle regions have made room for another, and whether there is room."""
    t = tag_touching(node.nic, start, stop)
    while t != NOWHERE:
        if node.nic.tags[t].users > 0:
            return now, OVERLAPPING
        now = release_region(node, t, now)
        t = tag_touching(node.nic, start, stop)
    while _is_full(node, stop - start):
        t = idle_tag(node.nic)
        if t == NOWHERE:
            return now, (FALLEN_BACK if node.nic.config[0].when_full == FALL_BACK else POSTPONED)
        now = release_region(node, t, now)
    return now, REGISTERED


@step
def _is_full(node, count):
    if node.nic.registers[0].pinned + count > node.nic.config[0].pinned_bytes_max:
        return True
    return free_tag(node.nic) == NOWHERE or room_for(node.nic, count) == NOWHERE


@step
def _set_up(node, start, stop, now):
    """When the region has its tag and buffer and every block its first state (ps)."""
    t = free_tag(node.nic)
    set_tag(node.nic, t, start, stop, room_for(node.nic, stop - start))
    use_tag(node.nic, t, 1)
    shift = node.host.config[0].l2_shift
    first = start >> shift
    home = node.nic.tags[t].nic_start >> shift
    blocks = (stop - start) >> shift
    give_way(node.host, node.agent, now)
    for b in range(blocks):
        watch_block(node.agent, first + b, home + b, node.nic.config[0].reaction)
    if node.nic.config[0].initialisation == BY_READING:
        return await_copies(node.host, node.agent, home, home + blocks, now)
    for b in range(blocks):
        now = flush_block(node.host, first + b, now)
    return now


@routine
def release_region(node, t, now):
    """When tag ``t`` and its buffer are free (ps); what only the NIC had is in memory."""
    shift = node.host.config[0].l2_shift
    first = node.nic.tags[t].nic_start >> shift
    last = node.nic.tags[t].nic_end >> shift
    finish_reads(node.host, node.agent, first, last)
    for home in range(first, last):
        if node.agent.copies[home].state == MODIFIED:
            rate = node.nic.config[0].dma_mbytes_s
            now = agent_write_back(node.host, node.agent, home, now, rate)
        unwatch_block(node.agent, home)
    clear_tag(node.nic, t)
    node.nic.registers[0].releases += 1
    return now


@routine
def deregister_region(node, address, count, now):
    """What became of the end of a registration, and when; the region stays while there is room."""
    block = node.nic.config[0].block
    start = address // block * block
    stop = (address + count + block - 1) // block * block
    t = tag_over(node.nic, start, stop)
    if t == NOWHERE or node.nic.tags[t].users == 0:
        return NOT_REGISTERED, now
    use_tag(node.nic, t, -1)
    return REGISTERED, now
