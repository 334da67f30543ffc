"""When the next request of a bus will be ordered, and when a move goes on: places on the agenda."""

from __future__ import annotations

from nicscope.clock import NEVER
from nicscope.drivers.simulate.agenda import earliest, put
from nicscope.drivers.simulate.machine import BUS, BUS_KINDS, CPU, ENGINE, KINDS, PCI, REPORTING
from nicscope.kernel.decorators import routine, step
from nicscope.memory.coherence.asks import AGENT, ENGINE_IN, ENGINE_OUT, FAR, PROCESSOR, first_asker
from nicscope.memory.coherence.bus import ordered_at
from nicscope.memory.coherence.device_grants import agent_asks_at
from nicscope.memory.coherence.nodes import host_of, watcher_of


@routine
def schedule(machine, n):
    """Have the bus of ``n`` fire when its first request is ordered."""
    ways = machine.bus.ways
    asks = ways.asks[n]
    asks[AGENT].at = agent_asks_at(watcher_of(ways.agents, n))
    at = asks[first_asker(asks)].at
    when = NEVER if at == FAR else ordered_at(host_of(machine.bus.hosts, n), at)
    put(machine.bus.agenda, n * BUS_KINDS + BUS, when)


@step
def wake(machine, n, master, when):
    """Have the move of ``master`` go on at ``when``, or at no time if that is ``NEVER``."""
    if master == ENGINE_OUT:
        put(machine.agenda, n * KINDS + PCI, when)
    elif master == PROCESSOR:
        put(machine.agenda, n * KINDS + CPU, when)
    else:
        kind = ENGINE if master == ENGINE_IN else REPORTING
        put(machine.bus.agenda, n * BUS_KINDS + kind, when)


@step
def next_time(machine):
    """The time of the earliest event of all."""
    agenda = machine.bus.agenda
    return min(machine.agenda.times[earliest(machine.agenda)], agenda.times[earliest(agenda)])
