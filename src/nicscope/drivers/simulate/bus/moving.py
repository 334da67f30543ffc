"""Moves in virtual time: each step of a way says what it needs, and this is when it gets it."""

from __future__ import annotations

from nicscope.clock import NEVER
from nicscope.drivers.simulate.bus.assisting import come, end_hold, helps_with
from nicscope.drivers.simulate.bus.calls import end_telling
from nicscope.drivers.simulate.bus.engine import leave_engine
from nicscope.drivers.simulate.bus.requests import schedule, wake
from nicscope.drivers.simulate.bus.state import (
    ABOUT_TO_AWAIT,
    ASKING,
    AWAITING,
    ENDING,
    LINGERING,
    PAUSING,
    RESTING,
    SUMMONING,
    TURNED_AWAY,
)
from nicscope.drivers.simulate.machine import PCI_QUEUE, PCI_READS
from nicscope.kernel.bytecopy import copy_bytes
from nicscope.kernel.decorators import distant, routine, step
from nicscope.memory.coherence.asks import ENGINE_IN, ENGINE_OUT, MASTERS, REPORT
from nicscope.memory.coherence.bus import burst_left
from nicscope.memory.coherence.layout import INVALID
from nicscope.memory.coherence.nodes import host_of, watcher_of
from nicscope.memory.coherence.watcher import FAR, WINDOW, ask_for
from nicscope.nic.ways.state import (
    ASK,
    AWAIT,
    EDT,
    FETCH,
    FINISHED,
    NO_CALL,
    PAUSE,
    SET_UP,
    begin_move,
)
from nicscope.nic.ways.steps import take_step


@routine
def start_move(machine, n, master, way, call, address, place, count, when):
    """Have the engine of ``master``, which rests, move these bytes from ``when`` on."""
    begin_move(machine.bus.ways.moves[n, master], way, call, address, place, count)
    timing = machine.bus.timing[n, master]
    timing.state = PAUSING
    timing.asked = 0
    wake(machine, n, master, when)


@step
def end_at_once(machine, n, master, now):
    """The move that has begun is over: its bytes need not cross the bus."""
    m = machine.bus.ways.moves[n, master]
    m.done = m.count
    machine.bus.timing[n, master].state = ENDING
    wake(machine, n, master, now)


@distant
def go_on_moving(machine, n, master, now):
    """The move of ``master`` goes on: what it waited for is over."""
    timing = machine.bus.timing[n, master]
    wake(machine, n, master, NEVER)
    if timing.state == ENDING:
        timing.state = RESTING
        timing.ended = now
        machine.bus.ways.moves[n, master].call = NO_CALL
        end_hold(machine, n, master, now)
        if master == REPORT and machine.bus.shown.size > 0:
            end_telling(machine, n, now)
        if machine.nodes[n].pci == PCI_QUEUE:
            leave_engine(machine, n, now)
        return
    if timing.state == SUMMONING:
        come(machine, n, master, now)
        return
    timing.since = now
    timing.until = now
    if timing.state == ABOUT_TO_AWAIT:
        _begin_waiting(machine, n, master, now)
    else:
        take_steps(machine, n, master, now)
    schedule(machine, n)


@routine
def take_steps(machine, n, master, now):
    """Let the way go on, until it waits for something."""
    timing = machine.bus.timing[n, master]
    m = machine.bus.ways.moves[n, master]
    seen = timing.seen
    timing.seen = machine.bus.playing[n].crossings
    needed = take_step(machine.bus.ways, n, master)
    if needed == ASK:
        _begin_operation(machine, n, master)
        ends = machine.bus.ends[n, master]
        before = ends[(timing.transfers - m.window) % WINDOW]
        machine.bus.ways.asks[n, master].at = max(timing.since, before)
        timing.state = ASKING
    elif needed == PAUSE:
        timing.state = PAUSING
        wake(machine, n, master, timing.until + _pause(machine, n, m))
    elif needed == AWAIT and timing.until > now:
        timing.state = ABOUT_TO_AWAIT
        wake(machine, n, master, timing.until)
    elif needed == AWAIT:
        _begin_waiting(machine, n, master, now)
    elif needed == FINISHED:
        if m.way == EDT and m.call == FETCH and machine.nodes[n].pci == PCI_READS:
            _hand_over(machine, n, m)
        timing.state = ENDING
        wake(machine, n, master, timing.until)
        if helps_with(machine, n, master):
            timing.state = LINGERING
            wake(machine, n, master, NEVER)
    else:
        turn_away(machine, n, master, seen, now)


@step
def _begin_operation(machine, n, master):
    """Before its first transaction an engine waits until nobody's burst is under way."""
    timing = machine.bus.timing[n, master]
    if timing.asked == 0 and master in (ENGINE_OUT, ENGINE_IN):
        timing.asked = 1
        timing.since += burst_left(host_of(machine.bus.hosts, n), timing.operations)
        timing.operations += 1


@step
def _hand_over(machine, n, m):
    """What the link sends is what a region's buffer has when all of the packet has come."""
    packet = machine.sends[n, machine.nodes[n].fetching % machine.endpoints[n].send_ring]
    memory = machine.bus.ways.agents.memory[n]
    copy_bytes(memory, packet.buffer * machine.bus.rules[n].buffer, memory, m.place, m.count)


@step
def turn_away(machine, n, master, seen, now):
    """Have the move look again when something has crossed the bus, or now if that was meanwhile.

    What it found may be older than what has crossed since it began to look, when ``seen`` was the
    number of crossings.  It looks in vain no more than once: then its blocks are there.
    """
    timing = machine.bus.timing[n, master]
    timing.state = TURNED_AWAY
    if seen != machine.bus.playing[n].crossings:
        timing.state = PAUSING
        wake(machine, n, master, now)


@step
def _pause(machine, n, m):
    config = machine.bus.ways.nics.config[n, 0]
    return config.dma_init if m.pause == SET_UP else config.dma_interrupt


@step
def _begin_waiting(machine, n, master, now):
    """Ask for the blocks that the interface lacks and does not read yet."""
    agent = watcher_of(machine.bus.ways.agents, n)
    m = machine.bus.ways.moves[n, master]
    for home in range(m.first, m.last):
        if agent.copies[home].state == INVALID:
            ask_for(agent, home, now)
    timing = machine.bus.timing[n, master]
    timing.state = AWAITING
    timing.next = m.first
    timing.arrived = now
    note_arrivals(machine, n, master, now)


@routine
def note_arrivals(machine, n, master, now):
    """Pass over awaited blocks that have come; when none is left the move goes on."""
    agent = watcher_of(machine.bus.ways.agents, n)
    timing = machine.bus.timing[n, master]
    last = machine.bus.ways.moves[n, master].last
    while timing.next < last:
        copy = agent.copies[timing.next]
        if copy.state == INVALID:
            ask_for(agent, timing.next, now)  # if it came, and was lost again meanwhile
        if copy.due != FAR:
            return
        timing.arrived = max(timing.arrived, copy.arrived)
        timing.next += 1
    timing.state = PAUSING
    wake(machine, n, master, timing.arrived)


@step
def note_reads(machine, n, now):
    """The interface has read a block: moves that await some look."""
    for master in range(MASTERS):
        if machine.bus.timing[n, master].state == AWAITING:
            note_arrivals(machine, n, master, now)


@step
def call_again(machine, n, when):
    """Something has crossed the bus by ``when``: moves that were turned away look then."""
    for master in range(MASTERS):
        timing = machine.bus.timing[n, master]
        if timing.state == TURNED_AWAY:
            timing.state = PAUSING
            wake(machine, n, master, when)
