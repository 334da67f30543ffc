"""The CPU of a node: it sends its script's messages, reads arrivals, or copies memory."""

from __future__ import annotations

from nicscope.clock import NEVER
from nicscope.drivers.simulate.agenda import put
from nicscope.drivers.simulate.bus.state import crosses_bus
from nicscope.drivers.simulate.flow import end_of
from nicscope.drivers.simulate.observe import (
    HOST_READ,
    HOST_WRITE,
    count_arrival,
    keep_message,
    log_transfer,
    log_work,
)
from nicscope.drivers.simulate.operations import (
    end_receive,
    end_send,
    look_for_operation,
    set_timer,
)
from nicscope.drivers.simulate.ports.calls import (
    begin_bus_transaction,
    end_at_port,
    end_handler,
    end_miss_in_trap,
    resume_bus_access,
    run_kernel_thread,
    serve_in_trap,
)
from nicscope.drivers.simulate.ports.cpu import signal_program
from nicscope.drivers.simulate.ports.state import has_ports
from nicscope.drivers.simulate.processor import (
    across_bus,
    end_operation,
    is_second_idle,
    occupy_cpu,
    select_first_to_end,
    swap_processors,
)
from nicscope.drivers.simulate.records import (
    ACCESSING,
    CALLING,
    COMPUTING,
    COPYING,
    CPU,
    IDLE,
    IN_MISS,
    IN_TRAP,
    INTERRUPTED,
    KINDS,
    POLLING,
    POSTING,
    READING,
    SLEEP,
    TIMER,
    WRITING,
)
from nicscope.kernel.decorators import routine, step
from nicscope.nic.delivery import CONTROL_BYTES, place_in
from nicscope.nic.ports.calls import fire_timers

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
        _schedule_processor(machine, n, now)
        if is_second_idle(node) and node.cpu != IDLE:
            swap_processors(machine, n)
    select_first_to_end(machine, n)


@step
def _schedule_processor(machine, n, now):
    """Begins what an idle CPU may do: read first, then send (docs/virtual-time.md, Hosts)."""
    node = machine.nodes[n]
    endpoint = machine.endpoints[n]
    if node.cpu != IDLE:
        if node.cpu == COMPUTING and has_ports(machine.ports):
            signal_program(machine, n, now)
        return
    if node.first_process < node.last_process:
        look_for_operation(machine, n, now)
        return
    if endpoint.shown > endpoint.read:
        node.cpu_since = now
        occupy_cpu(machine, n, now, READING, across_bus(node, now, machine.costs[n].pio_read))
        return
    if node.run == node.last_run or endpoint.written - endpoint.finished == endpoint.send_ring:
        put(machine.agenda, n * KINDS + CPU, NEVER)
        return
    if now < node.not_before:
        put(machine.agenda, n * KINDS + CPU, node.not_before)
        return
    _begin_message(machine, n, now)


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
