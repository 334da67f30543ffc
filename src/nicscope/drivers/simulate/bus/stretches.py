"""The CPU's part of a way for a stretch of a page: what it flushes or moves, and where that is."""

from __future__ import annotations

import numpy as np

from nicscope.drivers.simulate.agenda import put
from nicscope.drivers.simulate.bus.moving import start_move
from nicscope.drivers.simulate.machine import COPYING, CPU, KINDS, PCI_QUEUE
from nicscope.drivers.simulate.observe import log_work
from nicscope.kernel.decorators import step
from nicscope.memory.coherence.access import LOAD, WINDOW, begin_access
from nicscope.memory.coherence.asks import ENGINE_IN, ENGINE_OUT, PROCESSOR
from nicscope.memory.paging.layout import PRESENT
from nicscope.nic.ways.state import CNI, DELIVER, FETCH, PUBLISH, begin_move

OUT = -1  # in place of a physical address
NO_WORK = -1


@step
def turn_to(machine, n, work, now):
    """The CPU goes on with another kind of work of its errand: the observer hears of the last."""
    errand = machine.bus.errands[n]
    if errand.work not in (NO_WORK, work):
        machine.nodes[n].cpu_busy += now - machine.nodes[n].cpu_since
        log_work(machine, n, errand.work, now)
        machine.nodes[n].cpu_since = now
    errand.work = work


@step
def begin_stretch(machine, n, call, address, place, count, now):
    """Have the CPU do its part of ``call`` for ``count`` bytes, from ``now`` on."""
    turn_to(machine, n, COPYING, now)
    ways = machine.bus.ways
    way = machine.bus.rules[n].way
    begin_move(ways.moves[n, PROCESSOR], way, call, address, place, count)
    # Of nothing: then the way says what first.
    begin_access(ways.access[n, 0], LOAD, address, 0, 0, WINDOW)
    put(machine.agenda, n * KINDS + CPU, now)
    if way == CNI:
        machine.nodes[n].pci = PCI_QUEUE
        machine.bus.errands[n].moving = 1
        if call == PUBLISH:
            start_move(machine, n, ENGINE_OUT, way, FETCH, address, place, count, now)
        else:
            start_move(machine, n, ENGINE_IN, way, DELIVER, address, place, count, now)


@step
def physical_of(machine, n, space, address):
    """Where in memory that address of a space is, or ``OUT``."""
    memory = machine.ports.memory
    shift = memory.config[0].page_shift
    if address < 0 or address >> shift >= memory.entries.shape[2]:
        return np.int64(OUT)
    entry = memory.entries[n, space, address >> shift]
    if entry.state != PRESENT:
        return np.int64(OUT)
    return (np.int64(entry.frame) << shift) + (address & (memory.config[0].page_size - 1))
