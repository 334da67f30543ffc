"""When the next request of a bus will be ordered, and when a move goes on: places on the agenda."""

from __future__ import annotations

from nicscope.drivers.simulate.agenda import NEVER, put
from nicscope.drivers.simulate.machine import BUS, CPU, ENGINE, KINDS, PCI, REPORTING
from nicscope.kernel.decorators import routine, step
from nicscope.memory.coherence.asks import AGENT, ENGINE_IN, ENGINE_OUT, FAR, REPORT, first_asker
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
    put(machine.agenda, n * KINDS + BUS, when)


@step
def slot_of(n, master):
    """Where the end of what the move of ``master`` waits for stands."""
    if master == ENGINE_OUT:
        return n * KINDS + PCI
    if master == ENGINE_IN:
        return n * KINDS + ENGINE
    if master == REPORT:
        return n * KINDS + REPORTING
    return n * KINDS + CPU
