"""What the events of a bus do: they order its first request, and resume who has made it.

A CPU goes on by itself, hit by hit, up to the next event; then it requests the bus, too.
"""

from nicscope.drivers.simulate.agenda import put
from nicscope.drivers.simulate.bus import moves, state
from nicscope.drivers.simulate.bus.transactions import next_transaction_part
from nicscope.drivers.simulate.firmware import wait_for_bytes_to_send
from nicscope.drivers.simulate.observe import log_work
from nicscope.drivers.simulate.ports.calls import end_at_port
from nicscope.drivers.simulate.processor import end_operation
from nicscope.drivers.simulate.records import ACCESS as OF_MEMORY
from nicscope.drivers.simulate.records import ACCESSING, CPU, IDLE, KINDS, PCI_READS
from nicscope.kernel.decorators import distant, routine, step
from nicscope.memory.coherence import bus, processor
from nicscope.memory.coherence.processor import KINDS as ACCESS_KINDS
from nicscope.memory.paging.spaces import lock_address, unlock_address
from nicscope.nic.delivery import NO_TASK
from nicscope.nic.ways.state import (
    ACCESS,
    COLLECT,
    FINISHED,
    NO_CALL,
    PUBLISH,
    begin_move,
)
from nicscope.nic.ways.steps import take_step


@distant
def fire_bus(machine, n, now):
    """Orders the first request on the bus of ``n`` now."""
    asks = machine.bus.ways.asks[n]
    master = bus.first_requester(asks)
    machine.bus.playing[n].crossings += 1
    if master == bus.PROCESSOR:
        end = _serve_processor(machine, n, now)
    elif master in (bus.AGENT, bus.CACHE):
        end = _serve_agent_or_cache(machine, n, master, now)
    else:
        end = _serve_device(machine, n, master, now)
    moves.wake_retries(machine, n, end)
    state.schedule(machine, n)


@step
def _serve_processor(machine, n, now):
    ways = machine.bus.ways
    ask = ways.asks[n, bus.PROCESSOR]
    host, agent = bus.host_of(machine.bus.hosts, n), bus.watcher_of(ways.agents, n)
    window = machine.bus.windows[max(machine.nodes[n].cpu_process, 0)]
    how, when = processor.grant_processor(
        host, agent, ways.access[n, 0], window, ways.nics.scratch[n], ask.at, now
    )
    if how == bus.AGAIN:
        ask.at = when
        return max(when, now)
    ask.at = bus.FAR
    put(machine.agenda, n * KINDS + CPU, when)
    return when


@step
def _serve_agent_or_cache(machine, n, master, now):
    ways = machine.bus.ways
    host, agent = bus.host_of(machine.bus.hosts, n), bus.watcher_of(ways.agents, n)
    if master == bus.CACHE:
        _, end = bus.grant_cache(host, ways.asks[n], now)
        ways.asks[n, bus.CACHE].at = bus.FAR
        return end
    _, end = bus.grant_agent(host, agent, now)
    moves.recheck_arrivals(machine, n, now)
    return end


@routine
def _serve_device(machine, n, master, now):
    ways = machine.bus.ways
    ask = ways.asks[n, master]
    host, agent = bus.host_of(machine.bus.hosts, n), bus.watcher_of(ways.agents, n)
    memory = machine.bus.others[n] if master == bus.OTHER else agent.memory
    how, end = bus.grant_device(host, agent, memory, ways.asks[n], master, now)
    if how == bus.AGAIN:
        ask.at = end
        return end
    ask.at = bus.FAR
    if master == bus.OTHER:
        play(machine, n, now)
        return end
    timing = machine.bus.timing[n, master]
    ways.moves[n, master].void = 1 if how == bus.VOID else 0
    if how == bus.VOID:
        timing.since = now
    else:
        machine.bus.ends[n, master, timing.transfers % bus.READS_AT_ONCE] = end
        timing.transfers += 1
    timing.until = max(timing.until, end)
    moves.take_steps(machine, n, master, now)
    node = machine.nodes[n]
    if master == bus.ENGINE_OUT and node.pci == PCI_READS and node.task == NO_TASK:
        wait_for_bytes_to_send(machine, n)  # this transaction may bring what the link waits for
    return end


@step
def play(machine, n, now):
    """Requests the next transaction of the other device's script, at its time or now."""
    playing = machine.bus.playing[n]
    if playing.row == playing.rows:
        return
    row = machine.bus.script[n, playing.row]
    ask = machine.bus.ways.asks[n, bus.OTHER]
    ask.at = max(row.at, now)
    ask.kind = row.kind
    ask.address = row.address
    ask.count = row.count
    ask.place = row.place
    ask.rate = row.rate
    ask.answer = row.answer
    playing.row += 1


# What a process asks for beside the kinds of an access: the CPU's part of a way.
TO_PUBLISH = ACCESS_KINDS
TO_COLLECT = ACCESS_KINDS + 1


@distant
def begin_bus_access(machine, n, p, now):
    """Begins the memory access of process ``p`` on the idle CPU of ``n``.

    With ``own`` of an address space, counted from 1, its address is one of that space; then it
    lies within a page.  If that is not there any more the operation ends with ``own`` of -1.
    """
    process = machine.processes[p]
    address = process.address
    if process.own > 0:
        write = 1 if process.tag == processor.STORE else 0
        address = lock_address(machine.ports.memory, n, process.own - 1, process.address, write)
        if address < 0:
            process.own = -1
            end_operation(machine, p, now)
            return
    ways = machine.bus.ways
    node = machine.nodes[n]
    node.cpu = ACCESSING
    m, kind = ways.moves[n, bus.PROCESSOR], process.tag
    m.call = NO_CALL
    count, place = process.payload, process.packet
    if kind in (TO_PUBLISH, TO_COLLECT):
        call = PUBLISH if kind == TO_PUBLISH else COLLECT
        begin_move(m, process.peer, call, address, place, count)
        kind, count = processor.LOAD, 0  # of nothing: then the way says what first
    elif kind in (processor.LOAD, processor.STORE):
        place = 0
    processor.begin_access(ways.access[n, 0], kind, address, place, count, processor.WINDOW)
    put(machine.agenda, n * KINDS + CPU, now)


@distant
def resume_bus_access(machine, n, now):
    """Continues the memory access of the CPU of ``n``, which may end."""
    if moves.must_enter_handler(machine, n):
        moves.begin_handler_part(machine, n, now)
        return
    ways = machine.bus.ways
    access = ways.access[n, 0]
    host = bus.host_of(machine.bus.hosts, n)
    window = machine.bus.windows[max(machine.nodes[n].cpu_process, 0)]
    timing = machine.bus.timing[n, bus.PROCESSOR]
    timing.state = state.IN_ACCESS
    while True:
        horizon = state.next_time(machine)
        outcome, when = processor.run_access(
            host, access, window, ways.nics.scratch[n], now, horizon
        )
        if outcome == processor.ASKS:
            ways.asks[n, bus.PROCESSOR].at = when
            state.schedule(machine, n)
            return
        if outcome != processor.ENDED or when > now:
            put(machine.agenda, n * KINDS + CPU, when)
            return
        if ways.moves[n, bus.PROCESSOR].call == NO_CALL:
            break
        seen = timing.seen
        timing.seen = machine.bus.playing[n].crossings
        needed = take_step(ways, n, bus.PROCESSOR)
        if needed == FINISHED:
            break
        if needed != ACCESS:
            moves.retry_after_crossing(machine, n, bus.PROCESSOR, seen, now)
            return
    _end_access(machine, n, now)


@step
def _end_access(machine, n, now):
    """Ends the access: continues the transaction it was part of, or completes the operation."""
    node = machine.nodes[n]
    p = node.cpu_process
    if machine.bus.helps[n].state == state.IN_HANDLER:
        moves.end_handler_part(machine, n, now)
        return
    is_errand = machine.processes[p].operation != OF_MEMORY
    if machine.bus.cpu_transactions[n].moving == 1:
        machine.bus.cpu_transactions[n].moving = 0
        moves.release_engine(machine, n, now)
    registers = machine.bus.ways.nics.registers[n, 0]
    if machine.bus.ways.access[n, 0].kind == processor.DOORBELL:
        registers.token = machine.processes[p].peer if is_errand else machine.processes[p].address
        registers.doorbells += 1
    if is_errand and next_transaction_part(machine, n, p, now):
        return
    if not is_errand and machine.processes[p].own > 0:
        unlock_address(machine.ports.memory, n)
    machine.bus.timing[n, bus.PROCESSOR].state = state.RESTING
    machine.bus.ways.moves[n, bus.PROCESSOR].call = NO_CALL
    node.cpu_busy += now - node.cpu_since
    if is_errand:
        log_work(machine, n, machine.bus.cpu_transactions[n].work, now)
        end_at_port(machine, n, p, now)
    else:
        log_work(machine, n, ACCESSING, now, machine.processes[p].payload)
    node.cpu = IDLE
    if not is_errand:
        end_operation(machine, p, now)
    if machine.bus.helps[n].state == state.CALLED:
        moves.begin_handler_part(machine, n, now)
