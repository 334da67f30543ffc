"""Operations that programs request of their node; a processor serves one process at a time.

A process waits for at most one operation, so its slot is its record in ``machine.processes``.
Of those that can go on, receives come first, then the one that has waited longest, then the lowest.
"""

from __future__ import annotations

import numpy as np

from nicscope.clock import NEVER
from nicscope.drivers.simulate.agenda import put
from nicscope.drivers.simulate.flow import begin
from nicscope.drivers.simulate.ports.calls import begin_at_port, begin_bus_access, can_begin_at_port
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
    keep_chain,
    next_of_chain,
    occupy_cpu,
    process_of_second,
)
from nicscope.drivers.simulate.records import (
    ACCESS,
    AWAIT_SEND,
    CALLING,
    COMPUTE,
    COMPUTING,
    COPY,
    COPYING,
    KINDS,
    NO_PROCESS,
    POST,
    READING,
    RECEIVE,
    SEND,
    SLEEP,
    TIMER,
)
from nicscope.kernel.decorators import copy_bytes, routine, step
from nicscope.nic.delivery import CONTROL_BYTES, place_in

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
    """Begins the next operation that can begin on an idle CPU."""
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
        return
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


@step
def _can_begin(machine, n, p):
    operation = machine.processes[p].operation
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
