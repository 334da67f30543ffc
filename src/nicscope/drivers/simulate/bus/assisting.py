"""What a NIC cannot move by itself: it interrupts its host, whose CPU does its part of the way.

Under plain DMA the CPU flushes the blocks; of what arrives it keeps itself until the engine is
done, so nobody brings a block into the caches meanwhile.  Whatever the CPU did goes on afterwards.
"""

from __future__ import annotations

from nicscope.clock import NEVER
from nicscope.drivers.simulate.agenda import put
from nicscope.drivers.simulate.bus.requests import wake
from nicscope.drivers.simulate.bus.state import (
    AWAITING_ENGINE,
    CALLED,
    ENDING,
    HELPING,
    HOLDING,
    LINGERING,
    NO_HELP,
    PAUSING,
    SUMMONING,
    TURNED_AWAY,
)
from nicscope.drivers.simulate.machine import ACCESSING, CPU, IDLE, INTERRUPTED, KINDS
from nicscope.drivers.simulate.observe import log_work
from nicscope.kernel.bytecopy import copy_bytes
from nicscope.kernel.decorators import routine, step
from nicscope.memory.coherence.access import (
    LOAD,
    NO_PART,
    TO_DEVICE_COMBINED,
    WINDOW,
    begin_access,
)
from nicscope.memory.coherence.asks import ENGINE_IN, PROCESSOR
from nicscope.nic.ways.state import CNI, COLLECT, DMA, PUBLISH, begin_move

NO_PROCESS = -1


@step
def summon(machine, n, master, now):
    """Interrupt the host for the move of ``master``, which has begun and waits."""
    machine.bus.timing[n, master].state = SUMMONING
    machine.ports.nodes[n].interrupts += 1
    wake(machine, n, master, now + machine.bus.rules[n].interrupt)


@routine
def come(machine, n, master, now):
    """The interrupt is there: its handler runs, or as soon as the CPU can leave what it does."""
    help_ = machine.bus.helps[n]
    help_.master = master
    help_.state = CALLED
    working = machine.nodes[n].cpu == ACCESSING
    if not working or machine.bus.timing[n, PROCESSOR].state in (TURNED_AWAY, AWAITING_ENGINE):
        begin_help(machine, n, now)


@step
def is_called_away(machine, n):
    """Whether the CPU, amid an access but not waiting for the bus, is to run the handler now.

    Stores that are being combined leave their buffers first.
    """
    access = machine.bus.ways.access[n, 0]
    combines = access.kind == TO_DEVICE_COMBINED and access.part != NO_PART
    return machine.bus.helps[n].state == CALLED and not combines


@routine
def begin_help(machine, n, now):
    """Put away what the CPU does, and have it do its part of the way."""
    node = machine.nodes[n]
    ways = machine.bus.ways
    help_, kept = machine.bus.helps[n], machine.bus.kept
    help_.cpu = node.cpu
    help_.process = node.cpu_process
    help_.since = now
    help_.left = machine.agenda.times[n * KINDS + CPU] - now
    if node.cpu != IDLE:
        if node.cpu == ACCESSING:
            node.cpu_busy += now - node.cpu_since
        log_work(machine, n, node.cpu, now)
    kept.access[n, 0] = ways.access[n, 0]
    kept.move[n, 0] = ways.moves[n, PROCESSOR]
    kept.timing[n, 0] = machine.bus.timing[n, PROCESSOR]
    scratch = ways.nics.scratch[n]
    copy_bytes(kept.scratch[n], 0, scratch, 0, scratch.size)
    help_.state = HELPING
    node.cpu = ACCESSING
    node.cpu_since = now
    node.cpu_process = NO_PROCESS
    m = ways.moves[n, help_.master]
    collects = help_.master == ENGINE_IN and m.way != DMA
    call = COLLECT if collects else PUBLISH
    begin_move(ways.moves[n, PROCESSOR], m.way, call, m.address, m.place, m.count)
    begin_access(ways.access[n, 0], LOAD, m.address, 0, 0, WINDOW)  # then the way says what first
    put(machine.agenda, n * KINDS + CPU, now)
    if m.way == CNI:  # both ends work at once
        machine.bus.timing[n, help_.master].state = PAUSING
        wake(machine, n, help_.master, now)


@routine
def end_part(machine, n, now):
    """The CPU has done its part; the engine goes on, or has nothing left to do."""
    help_ = machine.bus.helps[n]
    master = help_.master
    engine = machine.bus.timing[n, master]
    m = machine.bus.ways.moves[n, master]
    if m.way == DMA:
        engine.state = PAUSING
        wake(machine, n, master, now)
    elif m.way != CNI or engine.state == LINGERING:
        m.done = m.count
        engine.state = ENDING
        wake(machine, n, master, now)
    if m.way == DMA and master == ENGINE_IN:
        help_.state = HOLDING
        put(machine.agenda, n * KINDS + CPU, NEVER)
    else:
        go_back(machine, n, now)


@step
def helps_with(machine, n, master):
    """Whether the CPU still does its part of what ``master`` moves."""
    help_ = machine.bus.helps[n]
    return help_.state == HELPING and help_.master == master


@step
def end_hold(machine, n, master, now):
    """The engine is done: the CPU need not wait for it any more."""
    if master == ENGINE_IN and machine.bus.helps[n].state == HOLDING:
        go_back(machine, n, now)


@routine
def go_back(machine, n, now):
    """The handler returns: the CPU goes on with what it did."""
    node = machine.nodes[n]
    ways = machine.bus.ways
    help_, kept = machine.bus.helps[n], machine.bus.kept
    node.cpu_busy += now - help_.since
    log_work(machine, n, INTERRUPTED, now)
    help_.state = NO_HELP
    node.cpu = help_.cpu
    node.cpu_process = help_.process
    node.cpu_since = now
    ways.access[n, 0] = kept.access[n, 0]
    ways.moves[n, PROCESSOR] = kept.move[n, 0]
    timing = machine.bus.timing[n, PROCESSOR]
    timing.state = kept.timing[n, 0].state
    timing.seen = kept.timing[n, 0].seen
    if timing.state in (TURNED_AWAY, AWAITING_ENGINE):
        timing.state = PAUSING  # it looks again
    scratch = ways.nics.scratch[n]
    copy_bytes(scratch, 0, kept.scratch[n], 0, scratch.size)
    when = NEVER
    if node.cpu == ACCESSING:
        when = now
    elif node.cpu != IDLE:
        when = now + help_.left
    elif machine.ports.nodes[n].stolen > 0:  # another interrupt came meanwhile
        node.cpu = INTERRUPTED
        when = now
    put(machine.agenda, n * KINDS + CPU, when)
