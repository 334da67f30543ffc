"""Frames that a NIC keeps copies of, where its way is EDT: while they are pinned.

A frame has a buffer of its size on the NIC, which reads its blocks then and whenever the host
writes them.  A frame that finds no room is moved by the engine, past this.
"""

from __future__ import annotations

import numpy as np

from nicscope.drivers.simulate.bus.requests import schedule
from nicscope.kernel.decorators import distant, step
from nicscope.memory.coherence.layout import EMPTY
from nicscope.memory.coherence.nodes import watcher_of
from nicscope.memory.coherence.watcher import ask_for, unwatch_block, watch_block
from nicscope.memory.paging.layout import GARBAGE_FRAME
from nicscope.nic.coherent.layout import BY_READING, NOWHERE
from nicscope.nic.coherent.tags import clear_tag, free_tag, set_tag, use_tag
from nicscope.nic.ways.state import nic_of


@distant
def register_frame(machine, n, frame):
    """The NIC of ``n`` keeps a copy of ``frame``, which is pinned, if it has room for it."""
    ways = machine.bus.ways
    nic, agent = nic_of(ways.nics, n), watcher_of(ways.agents, n)
    count = machine.ports.memory.config[0].page_size
    block = nic.config[0].block
    first = frame * count // block
    if frame == GARBAGE_FRAME or agent.home[first] != EMPTY:
        return
    t, place = _find_room(nic, count)
    if t == NOWHERE:
        nic.registers[0].fallbacks += 1
        return
    set_tag(nic, t, frame * count, frame * count + count, place)
    use_tag(nic, t, 1)
    nic.registers[0].registrations += 1
    for b in range(count // block):
        watch_block(agent, first + b, place // block + b, nic.config[0].reaction)
        if nic.config[0].initialisation == BY_READING:
            ask_for(agent, place // block + b, machine.tally[0].now)
    schedule(machine, n)


@step
def _find_room(nic, count):
    """A tag that is not in use, whose buffer there is; ``NOWHERE`` if there is none."""
    config = nic.config[0]
    t = free_tag(nic)
    place = config.buffer_start + t * count
    is_there = t != NOWHERE and place + count <= config.memory_bytes
    if not is_there or nic.registers[0].pinned + count > config.pinned_bytes_max:
        return np.int64(NOWHERE), place
    return t, place


@distant
def deregister_frame(machine, n, frame):
    """The NIC of ``n`` keeps no copy of ``frame`` any more; nothing is pinned there."""
    ways = machine.bus.ways
    nic, agent = nic_of(ways.nics, n), watcher_of(ways.agents, n)
    count = machine.ports.memory.config[0].page_size
    home = np.int64(agent.home[frame * count // nic.config[0].block])
    if home == EMPTY:
        return
    place = home * nic.config[0].block
    for b in range(count // nic.config[0].block):
        unwatch_block(agent, home + b)
    clear_tag(nic, (place - nic.config[0].buffer_start) // count)
    nic.registers[0].releases += 1
