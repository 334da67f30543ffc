"""The CPU of a node: operations that programs request, a script's messages, arrivals, copies.

A processor serves one process at a time.  A process waits for at most one operation, so its slot is
its record in ``machine.processes``.  Of those that can go on, receives come first, then the one
that has waited longest, then the lowest.
"""

import numpy as np

from nicscope.clock import NEVER
from nicscope.drivers.simulate.agenda import put
from nicscope.drivers.simulate.bus.state import crosses_bus
from nicscope.drivers.simulate.flow import begin, end_of
from nicscope.drivers.simulate.observe import (
    HOST_READ,
    HOST_WRITE,
    count_arrival,
    keep_message,
    log_transfer,
    log_work,
)
from nicscope.drivers.simulate.ports.calls import (
    begin_at_port,
    begin_bus_access,
    begin_bus_transaction,
    can_begin_at_port,
    end_at_port,
    end_handler,
    end_miss_in_trap,
    resume_bus_access,
    run_kernel_thread,
    serve_in_trap,
)
from nicscope.drivers.simulate.ports.cpu import keeps_polling, select_process, signal_program
from nicscope.drivers.simulate.ports.reports import (
    LATE,
    awaits_report,
    has_awaited_report,
    has_wait_expired,
    will_get_no_report,
)
from nicscope.drivers.simulate.ports.state import has_ports
from nicscope.drivers.simulate.processor import (
    TWO,
    across_bus,
    end_operation,
    is_second_idle,
    keep_chain,
    next_of_chain,
    occupy_cpu,
    process_of_second,
    select_first_to_end,
    swap_processors,
)
from nicscope.drivers.simulate.records import (
    ACCESS,
    ACCESSING,
    AWAIT_SEND,
    CALLING,
    COMPUTE,
    COMPUTING,
    COPY,
    COPYING,
    CPU,
    IDLE,
    IN_MISS,
    IN_TRAP,
    INTERRUPTED,
    KINDS,
    NO_OPERATION,
    NO_PROCESS,
    POLLING,
    POST,
    POSTING,
    READING,
    RECEIVE,
    SEND,
    SLEEP,
    TIMER,
    WRITING,
)
from nicscope.kernel.decorators import copy_bytes, routine, step
from nicscope.nic.delivery import CONTROL_BYTES, place_in
from nicscope.nic.ports.calls import fire_timers

RINGS = (SEND, RECEIVE, AWAIT_SEND)  # operations that wait for these alone


@routine
def take_operations(machine, count):
    """Take the first ``count`` operations of the outbox, and the next of chains that are due.

    They are taken in order of their processes, if those of the outbox are; how many.
    """
    due = machine.tally[0].due
    machine.tally[0].due = 0
    taken, place = 0, 0
    for i in range(count + 1):
        p = machine.outbox[place].process if i < count else machine.processes.size
        while taken - i < due and machine.due[taken - i] < p:
            q = machine.due[taken - i]
            machine.begun[taken] = q
            take_operation(machine, next_of_chain(machine, q))
            taken += 1
        if i < count:
            machine.begun[taken] = p
            follow = machine.outbox[place].time
            keep_chain(machine, p, place + 1, follow)
            take_operation(machine, machine.outbox[place])
            place += 1 + follow
            taken += 1
    return taken


@step
def take_operation(machine, request):
    """Records what a process now waits for."""
    process = machine.processes[request.process]
    process.operation = request.operation
    process.time = machine.tally[0].now
    process.peer = request.peer
    process.payload = request.payload
    process.tag = request.tag
    process.address = request.address
    process.duration = request.duration
    process.packet = request.packet
    process.own = request.own
    if request.operation == SLEEP:
        set_timer(machine, process.node)
    elif awaits_report(request.operation):
        process.duration = 1 if has_awaited_report(machine, process.node, request.process) else 0
        if process.address > process.time:
            set_timer(machine, process.node)
    elif _latest(process) > process.time:
        set_timer(machine, process.node)


@step
def _latest(process):
    """When a process's wait expires (ps), or 0: never."""
    operation = process.operation
    if awaits_report(operation) or operation in (RECEIVE, AWAIT_SEND):
        return np.int64(process.address)
    return np.int64(process.duration) if operation == SEND else np.int64(0)


@step
def _is_late(machine, p):
    """Whether the wait of a process for a ring of a NIC without ports has expired."""
    latest = _latest(machine.processes[p])
    return 0 < latest <= machine.tally[0].now


@step
def set_timer(machine, n):
    """Schedules the node's timer for the first process that wakes or whose wait expires."""
    node = machine.nodes[n]
    when = NEVER
    for p in range(node.first_process, node.last_process):
        process = machine.processes[p]
        if process.operation == SLEEP:
            when = min(when, process.time + process.duration)
        elif _latest(process) > machine.tally[0].now:
            when = min(when, _latest(process))
    if has_ports(machine.ports):
        serving = machine.ports.nodes[n]
        when = min(when, min(serving.thread_at, min(serving.deadline, serving.handler_at)))
    put(machine.agenda, n * KINDS + TIMER, when)


@step
def look_for_operation(machine, n, now):
    """Begins the next operation that can begin on an idle CPU; whether there is one."""
    node = machine.nodes[n]
    chosen = NO_PROCESS
    at_other = process_of_second(node)
    for p in range(node.first_process, node.last_process):
        if p == at_other or not _can_begin(machine, n, p):
            continue
        if chosen == NO_PROCESS or _is_before(machine, p, chosen):
            chosen = p
    if keeps_polling(machine) and node.processors != TWO:
        chosen = select_process(machine, n, chosen, now)
    if chosen == NO_PROCESS:
        return False
    node.cpu_process = chosen
    node.cpu_since = now
    process = machine.processes[chosen]
    if process.operation in RINGS and not _is_ring_ready(machine, n, chosen):
        process.own = LATE
        occupy_cpu(machine, n, now, COMPUTING, 0)
    elif process.operation == RECEIVE:
        occupy_cpu(machine, n, now, READING, across_bus(node, now, machine.costs[n].pio_read))
    elif process.operation == SEND:
        _begin_send(machine, n, chosen, now)
    elif process.operation == AWAIT_SEND:
        occupy_cpu(machine, n, now, COMPUTING, 0)
    elif process.operation == ACCESS:
        begin_bus_access(machine, n, chosen, now)
    elif process.operation >= POST:
        begin_at_port(machine, n, chosen, now)
    elif process.operation == COMPUTE:
        occupy_cpu(machine, n, now, COMPUTING, process.duration)
        if has_ports(machine.ports):
            signal_program(machine, n, now)
    else:
        node.cpu = COPYING
        begin(machine.copy_flows[n], now, 0, process.payload, 0)
    return True


@step
def _can_begin(machine, n, p):
    operation = machine.processes[p].operation
    if operation == NO_OPERATION:
        return False
    if operation in RINGS:
        return _is_ring_ready(machine, n, p) or _is_late(machine, p)
    if awaits_report(operation):
        return (
            has_awaited_report(machine, n, p)
            or will_get_no_report(machine, n, p)
            or has_wait_expired(machine, n, p)
        )
    if operation >= POST and operation != ACCESS:
        return can_begin_at_port(machine, n, p)
    return operation in (COMPUTE, COPY, ACCESS)


@step
def _is_ring_ready(machine, n, p):
    """Whether the ring on which a process waits has an entry for it."""
    operation = machine.processes[p].operation
    endpoint = machine.endpoints[n]
    if operation == RECEIVE:
        return endpoint.shown > endpoint.read
    if operation == SEND:
        return endpoint.written - endpoint.finished < endpoint.send_ring
    return endpoint.finished > machine.processes[p].packet


@step
def _is_before(machine, p, q):
    mine, other = machine.processes[p], machine.processes[q]
    if (mine.operation == RECEIVE) != (other.operation == RECEIVE):
        return mine.operation == RECEIVE
    return mine.time < other.time


@step
def _begin_send(machine, n, p, now):
    endpoint = machine.endpoints[n]
    process = machine.processes[p]
    place = place_in(endpoint.written, endpoint.send_ring)
    packet = machine.sends[n, place]
    packet.sender = n
    packet.number = endpoint.next_number
    packet.destination = process.peer
    packet.payload = process.payload
    packet.tag = process.tag
    packet.address = process.address
    packet.broken = 0
    packet.posted_at = process.time
    endpoint.next_number += 1
    copy_bytes(machine.store.send_ring[n, place], 0, machine.store.control[p], 0, CONTROL_BYTES)
    occupy_cpu(machine, n, now, CALLING, machine.costs[n].send_call)


@step
def end_send(machine, n, packet, now):
    """The process has handed its message over."""
    p = machine.nodes[n].cpu_process
    machine.processes[p].packet = packet.number
    end_operation(machine, p, now)


@step
def end_receive(machine, n, packet, now):
    """The process has the message: its control bytes, and where its payload is."""
    p = machine.nodes[n].cpu_process
    endpoint = machine.endpoints[n]
    process = machine.processes[p]
    slot = place_in(endpoint.read, endpoint.receive_ring)
    copy_bytes(machine.store.control[p], 0, machine.store.receive_ring[n, slot], 0, CONTROL_BYTES)
    process.packet = packet.number
    process.payload = packet.payload
    process.tag = packet.tag
    process.address = packet.address
    process.own = packet.own
    process.peer = packet.sender
    end_operation(machine, p, now)


BY_MESSAGE = (IDLE, CALLING, WRITING, READING)  # logged as what they carry, or nothing


@step
def contends(node):
    """Whether the CPU uses the bus or the memory, so that DMA runs at its contended rate."""
    return node.cpu == WRITING or node.cpu == READING or node.cpu == COPYING


@step
def schedule_host_work(machine, n, now):
    """Begins what the idle CPUs of ``n`` may do, of two one after the other."""
    node = machine.nodes[n]
    for _ in range(node.processors):
        if not _schedule_processor(machine, n, now):
            break  # nor would the other
        if is_second_idle(node) and node.cpu != IDLE:
            swap_processors(machine, n)
    select_first_to_end(machine, n)


@step
def _schedule_processor(machine, n, now):
    """Begins what an idle CPU may do: read first, then send (docs/virtual-time.md, Hosts).

    False if it is idle and has found nothing.
    """
    node = machine.nodes[n]
    endpoint = machine.endpoints[n]
    if node.cpu != IDLE:
        if node.cpu == COMPUTING and has_ports(machine.ports):
            signal_program(machine, n, now)
        return True
    if node.first_process < node.last_process:
        return look_for_operation(machine, n, now)
    if endpoint.shown > endpoint.read:
        node.cpu_since = now
        occupy_cpu(machine, n, now, READING, across_bus(node, now, machine.costs[n].pio_read))
        return True
    if node.run == node.last_run or endpoint.written - endpoint.finished == endpoint.send_ring:
        put(machine.agenda, n * KINDS + CPU, NEVER)
        return False
    if now < node.not_before:
        put(machine.agenda, n * KINDS + CPU, node.not_before)
        return False
    _begin_message(machine, n, now)
    return True


@step
def _begin_message(machine, n, now):
    node = machine.nodes[n]
    endpoint = machine.endpoints[n]
    run = machine.runs[node.run]
    packet = machine.sends[n, place_in(endpoint.written, endpoint.send_ring)]
    packet.sender = n
    packet.number = endpoint.next_number
    packet.destination = run.destination
    packet.payload = run.payload
    packet.broken = 0
    packet.posted_at = now
    endpoint.next_number += 1
    node.not_before = now + run.gap
    node.run_left -= 1
    if node.run_left == 0:
        node.run += 1
        node.not_before = 0
        if node.run < node.last_run:
            node.run_left = machine.runs[node.run].count
    node.cpu_since = now
    occupy_cpu(machine, n, now, CALLING, machine.costs[n].send_call)


@step
def end_host_work(machine, n, now):
    """Ends the present operation of the CPU of ``n``; returns whether another follows at once."""
    node = machine.nodes[n]
    put(machine.agenda, n * KINDS + CPU, NEVER)
    if has_ports(machine.ports) and machine.ports.nodes[n].stolen > 0:
        _resume_after_interrupts(machine, n, now)
        return
    if node.cpu == ACCESSING:
        resume_bus_access(machine, n, now)
        return
    _log_work(machine, n, now)
    node.interrupted = 0
    if node.cpu == IN_TRAP:
        node.cpu = IDLE
        serve_in_trap(machine, n, now)
        return
    if node.cpu == IN_MISS:
        node.cpu = IDLE
        end_miss_in_trap(machine, n, now)
        return
    if node.cpu == CALLING:
        occupy_cpu(machine, n, now, WRITING, across_bus(node, now, machine.costs[n].pio_write))
        return
    if node.cpu == WRITING:
        _end_writing(machine, n, now)
    elif node.cpu == READING:
        _end_reading(machine, n, now)
    elif node.cpu == COPYING:
        node.cpu_busy += now - node.cpu_since
    elif node.cpu in (POSTING, POLLING):
        if crosses_bus(machine, n) and begin_bus_transaction(machine, n, node.cpu_process, now):
            return
        end_at_port(machine, n, node.cpu_process, now)
    if (node.cpu == COPYING or node.cpu == COMPUTING) and node.cpu_process >= 0:
        end_operation(machine, node.cpu_process, now)
    node.cpu = IDLE


@step
def _resume_after_interrupts(machine, n, now):
    """Extends the CPU's operation by the time that interrupts have taken from it."""
    node = machine.nodes[n]
    stolen = machine.ports.nodes[n].stolen
    machine.ports.nodes[n].stolen = 0
    put(machine.agenda, n * KINDS + CPU, now + stolen)
    if node.cpu == ACCESSING:
        return  # all of its time is counted when it ends
    node.cpu_busy += stolen
    _log_work(machine, n, now)
    if node.cpu == COPYING:
        node.cpu_busy += now - node.cpu_since
        node.cpu = COMPUTING  # its bytes are moved; it has not gone on yet
    if node.cpu not in BY_MESSAGE:
        node.cpu_since = now
        node.interrupted = 1


@step
def _end_writing(machine, n, now):
    """Completes the write of a control message to the send ring."""
    node, endpoint = machine.nodes[n], machine.endpoints[n]
    packet = machine.sends[n, place_in(endpoint.written, endpoint.send_ring)]
    log_transfer(machine, HOST_WRITE, n, n, packet.number, 1, node.cpu_since, now, CONTROL_BYTES)
    endpoint.written += 1
    node.written_bytes += packet.payload
    if node.cpu_process >= 0:
        end_send(machine, n, packet, now)


@step
def _end_reading(machine, n, now):
    """Completes the read of a control message from the receive ring."""
    node, endpoint = machine.nodes[n], machine.endpoints[n]
    packet = machine.inboxes[n, place_in(endpoint.read, endpoint.receive_ring)]
    since, sender, number = node.cpu_since, packet.sender, packet.number
    log_transfer(machine, HOST_READ, n, sender, number, 1, since, now, CONTROL_BYTES)
    keep_message(machine, packet, now)
    count_arrival(node, packet)
    if node.cpu_process >= 0:
        end_receive(machine, n, packet, now)
    endpoint.read += 1


@step
def _log_work(machine, n, now):
    node = machine.nodes[n]
    if node.cpu not in BY_MESSAGE:
        log_work(machine, n, INTERRUPTED if node.interrupted == 1 else node.cpu, now)


@routine
def end_timer(machine, n, now):
    """Wake the processes of ``n`` that have slept until now."""
    node = machine.nodes[n]
    put(machine.agenda, n * KINDS + TIMER, NEVER)
    for p in range(node.first_process, node.last_process):
        process = machine.processes[p]
        if process.operation == SLEEP and process.time + process.duration == now:
            end_operation(machine, p, now)
    if has_ports(machine.ports):
        run_kernel_thread(machine, n, now)
        fire_timers(machine, n, now)
        end_handler(machine, n, now)
    set_timer(machine, n)


@step
def schedule_copy(machine, n):
    """Schedules the end of the copy at its present rate."""
    put(machine.agenda, n * KINDS + CPU, end_of(machine.copy_flows[n]))
