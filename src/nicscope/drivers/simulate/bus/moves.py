"""Moves (DMA and CPU copies) in virtual time: each step of a way, the CPU's help included."""

import numpy as np

from nicscope.clock import NEVER
from nicscope.drivers.simulate import records
from nicscope.drivers.simulate.agenda import put
from nicscope.drivers.simulate.bus import state
from nicscope.drivers.simulate.observe import log_work
from nicscope.drivers.simulate.ports.calls import begin_fetch, end_report_write, on_engine_free
from nicscope.drivers.simulate.ports.state import AWAIT_BUS
from nicscope.kernel.decorators import copy_bytes, distant, routine, step
from nicscope.memory.coherence import bus, processor
from nicscope.memory.coherence.layout import EMPTY, INVALID
from nicscope.memory.paging.layout import GARBAGE_FRAME
from nicscope.nic.coherent import BY_READING, NOWHERE, clear_tag, free_tag, set_tag, use_tag
from nicscope.nic.delivery import HOST_RCV, HOST_TX
from nicscope.nic.ways.state import (
    ASK,
    AWAIT,
    CNI,
    COLLECT,
    DMA,
    EDT,
    FETCH,
    FINISHED,
    NO_CALL,
    PAUSE,
    PUBLISH,
    SET_UP,
    begin_move,
    nic_of,
)
from nicscope.nic.ways.steps import take_step

NO_PROCESS = -1


@step
def interrupt_host(machine, n, master, now):
    """Interrupt the host for the move of ``master``, which has begun and waits."""
    machine.bus.timing[n, master].state = state.INTERRUPTING_HOST
    machine.ports.nodes[n].interrupts += 1
    state.wake(machine, n, master, now + machine.bus.rules[n].interrupt)


@routine
def enter_handler(machine, n, master, now):
    """Runs the interrupt handler, or marks it pending until the CPU can leave what it does."""
    help_ = machine.bus.helps[n]
    help_.master = master
    help_.state = state.CALLED
    working = machine.nodes[n].cpu == records.ACCESSING
    if not working or machine.bus.timing[n, bus.PROCESSOR].state in (
        state.AWAITING_BUS,
        state.AWAITING_ENGINE,
    ):
        begin_handler_part(machine, n, now)


@step
def must_enter_handler(machine, n):
    """Whether the CPU, amid an access but not waiting for the bus, must enter the handler now.

    Stores that are being combined leave their buffers first.
    """
    access = machine.bus.ways.access[n, 0]
    combines = access.kind == processor.TO_DEVICE_COMBINED and access.part != processor.NO_PART
    return machine.bus.helps[n].state == state.CALLED and not combines


@routine
def begin_handler_part(machine, n, now):
    """Saves the CPU's state and begins the part of the move that the handler carries out."""
    node = machine.nodes[n]
    ways = machine.bus.ways
    help_, kept = machine.bus.helps[n], machine.bus.kept
    help_.cpu = node.cpu
    help_.process = node.cpu_process
    help_.since = now
    help_.left = machine.agenda.times[n * records.KINDS + records.CPU] - now
    if node.cpu != records.IDLE:
        if node.cpu == records.ACCESSING:
            node.cpu_busy += now - node.cpu_since
        log_work(machine, n, node.cpu, now)
    kept.access[n, 0] = ways.access[n, 0]
    kept.move[n, 0] = ways.moves[n, bus.PROCESSOR]
    kept.timing[n, 0] = machine.bus.timing[n, bus.PROCESSOR]
    scratch = ways.nics.scratch[n]
    copy_bytes(kept.scratch[n], 0, scratch, 0, scratch.size)
    help_.state = state.IN_HANDLER
    node.cpu = records.ACCESSING
    node.cpu_since = now
    node.cpu_process = NO_PROCESS
    m = ways.moves[n, help_.master]
    collects = help_.master == bus.ENGINE_IN and m.way != DMA
    call = COLLECT if collects else PUBLISH
    begin_move(ways.moves[n, bus.PROCESSOR], m.way, call, m.address, m.place, m.count)
    processor.begin_access(
        ways.access[n, 0], processor.LOAD, m.address, 0, 0, processor.WINDOW
    )  # then the way says what first
    put(machine.agenda, n * records.KINDS + records.CPU, now)
    if m.way == CNI:  # both ends work at once
        machine.bus.timing[n, help_.master].state = state.PAUSING
        state.wake(machine, n, help_.master, now)


@routine
def end_handler_part(machine, n, now):
    """Ends the handler's part: the engine continues, or its move is complete."""
    help_ = machine.bus.helps[n]
    master = help_.master
    engine = machine.bus.timing[n, master]
    m = machine.bus.ways.moves[n, master]
    if m.way == DMA:
        engine.state = state.PAUSING
        state.wake(machine, n, master, now)
    elif m.way != CNI or engine.state == state.LINGERING:
        m.done = m.count
        engine.state = state.ENDING
        state.wake(machine, n, master, now)
    if m.way == DMA and master == bus.ENGINE_IN:
        help_.state = state.AWAITING_END
        put(machine.agenda, n * records.KINDS + records.CPU, NEVER)
    else:
        resume_cpu(machine, n, now)


@step
def handler_serves(machine, n, master):
    """Whether the handler still does its part of the move of ``master``."""
    help_ = machine.bus.helps[n]
    return help_.state == state.IN_HANDLER and help_.master == master


@step
def release_cpu(machine, n, master, now):
    """Releases the CPU, which has waited in the handler for the engine to finish."""
    if master == bus.ENGINE_IN and machine.bus.helps[n].state == state.AWAITING_END:
        resume_cpu(machine, n, now)


@routine
def resume_cpu(machine, n, now):
    """Returns from the handler and restores what the CPU did."""
    node = machine.nodes[n]
    ways = machine.bus.ways
    help_, kept = machine.bus.helps[n], machine.bus.kept
    node.cpu_busy += now - help_.since
    log_work(machine, n, records.INTERRUPTED, now)
    help_.state = state.NO_HANDLER
    node.cpu = help_.cpu
    node.cpu_process = help_.process
    node.cpu_since = now
    ways.access[n, 0] = kept.access[n, 0]
    ways.moves[n, bus.PROCESSOR] = kept.move[n, 0]
    timing = machine.bus.timing[n, bus.PROCESSOR]
    timing.state = kept.timing[n, 0].state
    timing.seen = kept.timing[n, 0].seen
    if timing.state in (state.AWAITING_BUS, state.AWAITING_ENGINE):
        timing.state = state.PAUSING  # it looks again
    scratch = ways.nics.scratch[n]
    copy_bytes(scratch, 0, kept.scratch[n], 0, scratch.size)
    when = NEVER
    if node.cpu == records.ACCESSING:
        when = now
    elif node.cpu != records.IDLE:
        when = now + help_.left
    elif machine.ports.nodes[n].stolen > 0:  # another interrupt came meanwhile
        node.cpu = records.INTERRUPTED
        when = now
    put(machine.agenda, n * records.KINDS + records.CPU, when)


@step
def is_engine_free(machine, n):
    """Whether the engine moves nothing, and the firmware does not set it to something already."""
    node = machine.nodes[n]
    return node.pci == records.PCI_IDLE and node.task != HOST_TX and node.task != HOST_RCV


@step
def wait_for_engine(machine, n):
    """Has the CPU, amid a transaction, retry when the engine is free."""
    zero = np.int64(0)
    processor.begin_access(
        machine.bus.ways.access[n, 0], processor.LOAD, zero, zero, zero, processor.WINDOW
    )
    machine.bus.ways.moves[n, bus.PROCESSOR].call = NO_CALL
    machine.bus.timing[n, bus.PROCESSOR].state = state.AWAITING_ENGINE
    put(machine.agenda, n * records.KINDS + records.CPU, NEVER)


@step
def release_engine(machine, n, now):
    """Frees the engine of the queue once both of its ends are done."""
    timing = machine.bus.timing
    is_done = (
        timing[n, bus.ENGINE_OUT].state == state.RESTING
        and timing[n, bus.ENGINE_IN].state == state.RESTING
    )
    if machine.bus.cpu_transactions[n].moving == 1 or not is_done:
        return
    machine.nodes[n].pci = records.PCI_IDLE
    if machine.ports.nodes[n].stage == AWAIT_BUS:
        begin_fetch(machine, n, now)
    on_engine_free(machine, n, now)


@routine
def start_move(machine, n, master, way, call, address, place, count, when):
    """Has the idle engine of ``master`` move these bytes from ``when`` on."""
    begin_move(machine.bus.ways.moves[n, master], way, call, address, place, count)
    timing = machine.bus.timing[n, master]
    timing.state = state.PAUSING
    timing.asked = 0
    state.wake(machine, n, master, when)


@step
def end_at_once(machine, n, master, now):
    """Completes the move that has begun: its bytes need not cross the bus."""
    m = machine.bus.ways.moves[n, master]
    m.done = m.count
    machine.bus.timing[n, master].state = state.ENDING
    state.wake(machine, n, master, now)


@distant
def resume_move(machine, n, master, now):
    """Resumes the move of ``master`` when what it waited for is over."""
    timing = machine.bus.timing[n, master]
    state.wake(machine, n, master, NEVER)
    if timing.state == state.ENDING:
        timing.state = state.RESTING
        timing.ended = now
        machine.bus.ways.moves[n, master].call = NO_CALL
        release_cpu(machine, n, master, now)
        if master == bus.REPORT and machine.bus.shown.size > 0:
            end_report_write(machine, n, now)
        if machine.nodes[n].pci == records.PCI_QUEUE:
            release_engine(machine, n, now)
        return
    if timing.state == state.INTERRUPTING_HOST:
        enter_handler(machine, n, master, now)
        return
    timing.since = now
    timing.until = now
    if timing.state == state.ABOUT_TO_AWAIT:
        _begin_waiting(machine, n, master, now)
    else:
        take_steps(machine, n, master, now)
    state.schedule(machine, n)


@routine
def take_steps(machine, n, master, now):
    """Carries out the way's steps until one has to wait."""
    timing = machine.bus.timing[n, master]
    m = machine.bus.ways.moves[n, master]
    seen = timing.seen
    timing.seen = machine.bus.playing[n].crossings
    needed = take_step(machine.bus.ways, n, master)
    if needed == ASK:
        _begin_operation(machine, n, master)
        ends = machine.bus.ends[n, master]
        before = ends[(timing.transfers - m.window) % bus.READS_AT_ONCE]
        machine.bus.ways.asks[n, master].at = max(timing.since, before)
        timing.state = state.ASKING
    elif needed == PAUSE:
        timing.state = state.PAUSING
        state.wake(machine, n, master, timing.until + _pause(machine, n, m))
    elif needed == AWAIT and timing.until > now:
        timing.state = state.ABOUT_TO_AWAIT
        state.wake(machine, n, master, timing.until)
    elif needed == AWAIT:
        _begin_waiting(machine, n, master, now)
    elif needed == FINISHED:
        if m.way == EDT and m.call == FETCH and machine.nodes[n].pci == records.PCI_READS:
            _copy_packet_to_region(machine, n, m)
        timing.state = state.ENDING
        state.wake(machine, n, master, timing.until)
        if handler_serves(machine, n, master):
            timing.state = state.LINGERING
            state.wake(machine, n, master, NEVER)
    else:
        retry_after_crossing(machine, n, master, seen, now)


@step
def _begin_operation(machine, n, master):
    """Delays an engine's first transaction until no burst is under way."""
    timing = machine.bus.timing[n, master]
    if timing.asked == 0 and master in (bus.ENGINE_OUT, bus.ENGINE_IN):
        timing.asked = 1
        timing.since += bus.burst_left(bus.host_of(machine.bus.hosts, n), timing.operations)
        timing.operations += 1


@step
def _copy_packet_to_region(machine, n, m):
    """Copies a complete packet from a region's buffer to where the link sends from."""
    packet = machine.sends[n, machine.nodes[n].fetching % machine.endpoints[n].send_ring]
    memory = machine.bus.ways.agents.memory[n]
    copy_bytes(memory, packet.buffer * machine.bus.rules[n].buffer, memory, m.place, m.count)


@step
def retry_after_crossing(machine, n, master, seen, now):
    """Has the move retry after the next bus transaction, or now if one has crossed meanwhile.

    What it found may be older than what has crossed since it began to look, when ``seen`` was the
    number of crossings.  It looks in vain no more than once: then its blocks are there.
    """
    timing = machine.bus.timing[n, master]
    timing.state = state.AWAITING_BUS
    if seen != machine.bus.playing[n].crossings:
        timing.state = state.PAUSING
        state.wake(machine, n, master, now)


@step
def _pause(machine, n, m):
    config = machine.bus.ways.nics.config[n, 0]
    return config.dma_init if m.pause == SET_UP else config.dma_interrupt


@step
def _begin_waiting(machine, n, master, now):
    """Requests the blocks that the interface lacks and has not requested yet."""
    agent = bus.watcher_of(machine.bus.ways.agents, n)
    m = machine.bus.ways.moves[n, master]
    for home in range(m.first, m.last):
        if agent.copies[home].state == INVALID:
            bus.request_read(agent, home, now)
    timing = machine.bus.timing[n, master]
    timing.state = state.AWAITING
    timing.next = m.first
    timing.arrived = now
    note_arrivals(machine, n, master, now)


@routine
def note_arrivals(machine, n, master, now):
    """Skips awaited blocks that have arrived; the move continues once none is left."""
    agent = bus.watcher_of(machine.bus.ways.agents, n)
    timing = machine.bus.timing[n, master]
    last = machine.bus.ways.moves[n, master].last
    while timing.next < last:
        copy = agent.copies[timing.next]
        if copy.state == INVALID:
            bus.request_read(agent, timing.next, now)  # if it came, and was lost again meanwhile
        if copy.due != bus.AT_NO_TIME:
            return
        timing.arrived = max(timing.arrived, copy.arrived)
        timing.next += 1
    timing.state = state.PAUSING
    state.wake(machine, n, master, timing.arrived)


@step
def recheck_arrivals(machine, n, now):
    """Has moves that wait for blocks check again, as the interface has read one."""
    for master in range(bus.MASTERS):
        if machine.bus.timing[n, master].state == state.AWAITING:
            note_arrivals(machine, n, master, now)


@step
def wake_retries(machine, n, when):
    """Wakes moves that wait for a bus transaction, as one has crossed the bus by ``when``."""
    for master in range(bus.MASTERS):
        timing = machine.bus.timing[n, master]
        if timing.state == state.AWAITING_BUS:
            timing.state = state.PAUSING
            state.wake(machine, n, master, when)


@distant
def register_frame(machine, n, frame):
    """The NIC of ``n`` keeps a copy of ``frame``, which is pinned, if it has room for it."""
    ways = machine.bus.ways
    nic, agent = nic_of(ways.nics, n), bus.watcher_of(ways.agents, n)
    count = machine.ports.memory.config[0].page_size
    block = nic.config[0].block
    first = frame * count // block
    if frame == GARBAGE_FRAME or agent.home[first] != EMPTY:
        return
    t, place = _find_tag(nic, count)
    if t == NOWHERE:
        nic.registers[0].fallbacks += 1
        return
    set_tag(nic, t, frame * count, frame * count + count, place)
    use_tag(nic, t, 1)
    nic.registers[0].registrations += 1
    for b in range(count // block):
        bus.watch_block(agent, first + b, place // block + b, nic.config[0].reaction)
        if nic.config[0].initialisation == BY_READING:
            bus.request_read(agent, place // block + b, machine.tally[0].now)
    state.schedule(machine, n)


@step
def _find_tag(nic, count):
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
    nic, agent = nic_of(ways.nics, n), bus.watcher_of(ways.agents, n)
    count = machine.ports.memory.config[0].page_size
    home = np.int64(agent.home[frame * count // nic.config[0].block])
    if home == EMPTY:
        return
    place = home * nic.config[0].block
    for b in range(count // nic.config[0].block):
        bus.unwatch_block(agent, home + b)
    clear_tag(nic, (place - nic.config[0].buffer_start) // count)
    nic.registers[0].releases += 1
