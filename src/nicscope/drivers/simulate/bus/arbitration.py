"""Bus arbitration: the event that orders a bus's first request and resumes its requester."""

from __future__ import annotations

from nicscope.drivers.simulate.agenda import put
from nicscope.drivers.simulate.bus.moves import recheck_arrivals, take_steps, wake_retries
from nicscope.drivers.simulate.bus.state import schedule
from nicscope.drivers.simulate.firmware import wait_for_bytes_to_send
from nicscope.drivers.simulate.records import CPU, KINDS, PCI_READS
from nicscope.kernel.decorators import distant, routine, step
from nicscope.memory.coherence.bus import (
    AGAIN,
    AGENT,
    CACHE,
    ENGINE_OUT,
    FAR,
    OTHER,
    PROCESSOR,
    READS_AT_ONCE,
    VOID,
    first_requester,
    grant_agent,
    grant_cache,
    grant_device,
    host_of,
    watcher_of,
)
from nicscope.memory.coherence.processor import grant_processor
from nicscope.nic.delivery import NO_TASK


@distant
def fire_bus(machine, n, now):
    """Orders the first request on the bus of ``n`` now."""
    asks = machine.bus.ways.asks[n]
    master = first_requester(asks)
    machine.bus.playing[n].crossings += 1
    if master == PROCESSOR:
        end = _serve_processor(machine, n, now)
    elif master in (AGENT, CACHE):
        end = _serve_agent_or_cache(machine, n, master, now)
    else:
        end = _serve_device(machine, n, master, now)
    wake_retries(machine, n, end)
    schedule(machine, n)


@step
def _serve_processor(machine, n, now):
    ways = machine.bus.ways
    ask = ways.asks[n, PROCESSOR]
    host, agent = host_of(machine.bus.hosts, n), watcher_of(ways.agents, n)
    window = machine.bus.windows[max(machine.nodes[n].cpu_process, 0)]
    how, when = grant_processor(
        host, agent, ways.access[n, 0], window, ways.nics.scratch[n], ask.at, now
    )
    if how == AGAIN:
        ask.at = when
        return max(when, now)
    ask.at = FAR
    put(machine.agenda, n * KINDS + CPU, when)
    return when


@step
def _serve_agent_or_cache(machine, n, master, now):
    ways = machine.bus.ways
    host, agent = host_of(machine.bus.hosts, n), watcher_of(ways.agents, n)
    if master == CACHE:
        _, end = grant_cache(host, ways.asks[n], now)
        ways.asks[n, CACHE].at = FAR
        return end
    _, end = grant_agent(host, agent, now)
    recheck_arrivals(machine, n, now)
    return end


@routine
def _serve_device(machine, n, master, now):
    ways = machine.bus.ways
    ask = ways.asks[n, master]
    host, agent = host_of(machine.bus.hosts, n), watcher_of(ways.agents, n)
    memory = machine.bus.others[n] if master == OTHER else agent.memory
    how, end = grant_device(host, agent, memory, ways.asks[n], master, now)
    if how == AGAIN:
        ask.at = end
        return end
    ask.at = FAR
    if master == OTHER:
        play(machine, n, now)
        return end
    timing = machine.bus.timing[n, master]
    ways.moves[n, master].void = 1 if how == VOID else 0
    if how == VOID:
        timing.since = now
    else:
        machine.bus.ends[n, master, timing.transfers % READS_AT_ONCE] = end
        timing.transfers += 1
    timing.until = max(timing.until, end)
    take_steps(machine, n, master, now)
    node = machine.nodes[n]
    if master == ENGINE_OUT and node.pci == PCI_READS and node.task == NO_TASK:
        wait_for_bytes_to_send(machine, n)  # this transaction may bring what the link waits for
    return end


@step
def play(machine, n, now):
    """Requests the next transaction of the other device's script, at its time or now."""
    playing = machine.bus.playing[n]
    if playing.row == playing.rows:
        return
    row = machine.bus.script[n, playing.row]
    ask = machine.bus.ways.asks[n, OTHER]
    ask.at = max(row.at, now)
    ask.kind = row.kind
    ask.address = row.address
    ask.count = row.count
    ask.place = row.place
    ask.rate = row.rate
    ask.answer = row.answer
    playing.row += 1
