"""The NIC's processor: polls for work, spends time on one task, then the task takes effect."""

from __future__ import annotations

import numpy as np

from nicscope.clock import NEVER
from nicscope.drivers.simulate.agenda import put
from nicscope.drivers.simulate.bus.state import crosses_bus
from nicscope.drivers.simulate.flow import time_of
from nicscope.drivers.simulate.link import (
    accepted_bytes,
    accepted_last,
    begin_link,
    carry_bytes,
    count_corrupted,
    header_bytes,
    sending,
)
from nicscope.drivers.simulate.observe import log_action
from nicscope.drivers.simulate.pci import (
    begin_pci,
    fetch_payload,
    fetched_bytes,
    host_rcv_active,
    when_fetched,
)
from nicscope.drivers.simulate.ports.calls import (
    begin_handler,
    end_miss,
    end_packet_send,
    fetched_at,
    on_engine_free,
    serve_miss,
)
from nicscope.drivers.simulate.ports.costs import completion_time, placing_time, service_time
from nicscope.drivers.simulate.ports.network import choose_work
from nicscope.drivers.simulate.ports.state import has_ports
from nicscope.drivers.simulate.ports.thread import schedule_scan, schedule_timer
from nicscope.drivers.simulate.records import (
    FLOWING,
    KINDS,
    LINK_IDLE,
    PCI_IDLE,
    PCI_READS,
    PCI_WRITES,
    PROCESSOR,
    RECEIVE_READY,
    SEND_READY,
)
from nicscope.drivers.simulate.store import copy_control, give_back, has_bytes, take_attached
from nicscope.fabric.paths import NOBODY
from nicscope.kernel.decorators import step
from nicscope.nic.delivery import (
    COMPLETE,
    CONTROL,
    FINISH,
    HOST_RCV,
    HOST_TX,
    MISSING,
    NET_TX,
    NO_TASK,
    PAYLOAD,
    POST_CONTROL,
    POST_PAYLOAD,
    SERVE,
    Engines,
    enough,
    next_task,
    place_in,
    pulse_of,
    settle,
)
from nicscope.nic.ports.arrivals import acknowledges_on_nic
from nicscope.nic.ports.calls import (
    acknowledge_on_nic,
    complete_arrival,
    place_arrival,
    select_segment,
    serve,
    update_store_and_forward,
)
from nicscope.nic.ports.layout import NOTHING_LEFT
from nicscope.nic.transfers import (
    complete_packet,
    drain_bytes,
    finish_message,
    send_bytes,
    take_message,
    take_receive_buffer,
)


@step
def engines_of(machine, n, now):
    """What the firmware of ``n`` reads from its engines, without counters that decide nothing."""
    node = machine.nodes[n]
    endpoint = machine.endpoints[n]
    pci_idle, link_idle = node.pci == PCI_IDLE, node.link == LINK_IDLE
    fetched, accepted = np.int64(0), np.int64(0)
    if link_idle and endpoint.sent == node.fetching:
        fetched = fetched_bytes(machine, n, now)
    if pci_idle and endpoint.open == 1:
        accepted = accepted_bytes(machine, n, now)
    return Engines(pci_idle, node.fetching, link_idle, fetched, accepted)


@step
def run_tasks(machine, n, now, has_task):
    """Applies the effect of the processor's task, and of those after it that take no time.

    They follow at once, before anything else happens at this time (docs/virtual-time.md).  If an
    effect needs a path or memory to be made (``tally.wants``), ``tally.unfinished`` names the node,
    and the caller goes on when it is made, with no task then (``has_task``).
    """
    tally = machine.tally[0]
    tally.unfinished = 0
    while True:
        if has_task:
            take_effect(machine, n, now)
        if tally.wants != 0:
            tally.unfinished = n + 1
            return
        duration = _begin_task(machine, n, now)
        if duration > 0:
            if duration != NEVER:
                put(machine.agenda, n * KINDS + PROCESSOR, now + duration)
            return
        has_task = True


@step
def look(machine, n, now):
    """Begins the next task of an idle processor, or schedules its next poll."""
    duration = _begin_task(machine, n, now)
    if duration == NEVER:
        rest(machine, n)
    else:
        put(machine.agenda, n * KINDS + PROCESSOR, now + duration)


@step
def _begin_task(machine, n, now):
    """Begins the next task of an idle processor; how long it takes, or ``NEVER``."""
    node = machine.nodes[n]
    endpoint = machine.endpoints[n]
    if node.task != NO_TASK:
        return NEVER
    settle(endpoint, machine.arrivals[n], host_rcv_active(node))
    if has_ports(machine.ports):
        choose_work(machine, n, now)
        if endpoint.by_message == 1:
            update_store_and_forward(machine, n, node.fetching)
    engines = engines_of(machine, n, now)
    task = next_task(endpoint, machine.sends[n], machine.arrivals[n], engines)
    if task == NO_TASK:
        return NEVER
    node.task = task
    node.task_since = now
    node.task_packet = _packet_of(endpoint, task)
    if task == SERVE:
        machine.ports.nodes[n].source = endpoint.to_serve
    duration = duration_of(machine, n, task)
    node.processor_busy += duration
    return duration


@step
def rest(machine, n):
    """Schedules the next poll of an idle processor that has found nothing to do."""
    if machine.nodes[n].task == NO_TASK:
        wait_for_bytes_to_send(machine, n)
        wait_for_bytes_to_drain(machine, n)


@step
def _packet_of(endpoint, task):
    """Number of the packet that ``task`` is for, as counted by its side."""
    if task == POST_PAYLOAD:
        return endpoint.accepted - 1
    if task == HOST_RCV:
        return endpoint.drained
    if task == COMPLETE:
        return endpoint.completed
    if task == NET_TX:
        return endpoint.sent
    if task == FINISH:
        return endpoint.finished
    if task == HOST_TX:
        return endpoint.taken
    return -1


@step
def duration_of(machine, n, task):
    """How long ``task`` keeps the processor."""
    costs = machine.costs[n]
    endpoint = machine.endpoints[n]
    if task == SERVE:
        return service_time(machine, n, endpoint.to_serve)
    if task in (FINISH, COMPLETE):
        if task == COMPLETE and has_ports(machine.ports):
            return costs.firmware_finish + completion_time(machine, n)
        return costs.firmware_finish
    duration = costs.firmware_start
    if endpoint.logging == 1 and not (
        task == HOST_TX
        and machine.sends[n, place_in(endpoint.taken, endpoint.send_ring)].payload == 0
    ):
        duration += costs.firmware_log
    if task == POST_PAYLOAD:
        duration += costs.firmware_accept
        if has_ports(machine.ports):
            duration += placing_time(machine, n)
    return duration


@step
def wait_for_bytes_to_send(machine, n):
    """Schedules a poll for when hostTx has deposited enough bytes for netTx."""
    node = machine.nodes[n]
    endpoint = machine.endpoints[n]
    when = NEVER
    if node.link == LINK_IDLE and endpoint.sent == node.fetching and endpoint.holds_sent == 0:
        total = machine.pci_flows[n].total
        pulse = pulse_of(endpoint, endpoint.minpulse_send, total)
        wanted = enough(endpoint, pulse, endpoint.sunk, total)
        if crosses_bus(machine, n):
            when = fetched_at(machine, n, wanted)
        else:
            when = when_fetched(machine, n, wanted)
    put(machine.agenda, n * KINDS + SEND_READY, when)


@step
def wait_for_bytes_to_drain(machine, n):
    """Schedules a poll for when netRcv has deposited enough bytes for hostRcv."""
    node = machine.nodes[n]
    endpoint = machine.endpoints[n]
    when = NEVER
    if (
        node.task == NO_TASK
        and node.pci == PCI_IDLE
        and endpoint.open == 1
        and endpoint.holds_drained == 0
        and endpoint.drained == endpoint.accepted - 1
        and node.source != NOBODY
        and machine.nodes[node.source].link == FLOWING
        and machine.nodes[node.source].link_control == 0
    ):
        flow = machine.link_flows[node.source]
        payload = accepted_last(machine, n).payload
        pulse = pulse_of(endpoint, endpoint.minpulse_receive, payload)
        wanted = enough(endpoint, pulse, endpoint.drain_sunk, payload)
        if wanted <= endpoint.arrived + flow.total:
            when = time_of(flow, wanted - endpoint.arrived)
    put(machine.agenda, n * KINDS + RECEIVE_READY, when)


@step
def take_effect(machine, n, now):
    """Applies the effect of the task on which the processor of ``n`` has spent its time.

    Void if the packet that it was begun for has been given up by the network meanwhile.
    """
    node = machine.nodes[n]
    endpoint = machine.endpoints[n]
    task = node.task
    node.task = NO_TASK
    put(machine.agenda, n * KINDS + PROCESSOR, NEVER)
    if task == SERVE:
        log_action(machine, n, task, -1, -1, node.task_since, now)
        serve(machine, n)
        _serve_outcome(machine, n, now)
    elif task == MISSING:
        log_action(machine, n, task, -1, -1, node.task_since, now)
        machine.ports.nodes[n].missing = 0
        end_miss(machine, n, now)
    elif task == POST_CONTROL:
        log_action(machine, n, task, -1, -1, node.task_since, now)
        endpoint.posted = CONTROL
        node.receive_begun = now
    elif task in (POST_PAYLOAD, HOST_RCV, COMPLETE):
        packet = machine.arrivals[n, place_in(node.task_packet, endpoint.receive_ring)]
        log_action(machine, n, task, packet.sender, packet.number, node.task_since, now)
        _receive_task(machine, n, now, task)
    else:
        packet = machine.sends[n, place_in(node.task_packet, endpoint.send_ring)]
        log_action(machine, n, task, n, packet.number, node.task_since, now)
        _send_task(machine, n, now, task)
    if task in (HOST_TX, HOST_RCV) and crosses_bus(machine, n):
        on_engine_free(machine, n, now)  # it need not have begun anything
    if has_ports(machine.ports):
        schedule_timer(machine, n)
        if machine.ports.rules[0].handles == 1:
            schedule_scan(machine, n, now)


@step
def _serve_outcome(machine, n, now):
    """Serves what the firmware's action has left to its driver, if anything."""
    if machine.ports.nodes[n].outcome != NOTHING_LEFT:
        serve_miss(machine, n, now)


@step
def _receive_task(machine, n, now, task):
    node = machine.nodes[n]
    endpoint = machine.endpoints[n]
    if task == POST_PAYLOAD:
        if endpoint.awaited == 1:
            _find_buffer(machine, n, accepted_last(machine, n))
            if has_ports(machine.ports):
                waits = place_arrival(machine, n)
                _serve_outcome(machine, n, now)
                if waits:
                    return
            endpoint.awaited = 0
            endpoint.posted = PAYLOAD
            node.receive_begun = now
    elif task == HOST_RCV:
        _drain(machine, n, now)
    else:
        _complete(machine, n, now)


@step
def _find_buffer(machine, n, packet):
    """Allocates a NIC buffer for the payload and determines its place in host memory."""
    endpoint = machine.endpoints[n]
    take_receive_buffer(endpoint, packet)
    if has_bytes(machine.store) and endpoint.mapped == 0 and not has_ports(machine.ports):
        packet.own = 1
        packet.address = take_attached(machine.store, n)
        endpoint.attached -= 1


@step
def _drain(machine, n, now):
    node = machine.nodes[n]
    endpoint = machine.endpoints[n]
    if endpoint.drained != node.task_packet:
        return
    packet = machine.arrivals[n, place_in(endpoint.drained, endpoint.receive_ring)]
    if packet.broken == 1:
        return
    deposited = packet.payload
    if endpoint.open == 1 and endpoint.drained == endpoint.accepted - 1:
        deposited = accepted_bytes(machine, n, now)
        carry_bytes(machine, n, deposited)
    if has_ports(machine.ports):
        slot = place_in(endpoint.drained, endpoint.receive_ring)
        if deposited == packet.payload and acknowledges_on_nic(machine, n, slot):
            acknowledge_on_nic(machine, n, slot, now)
        if machine.ports.arrival_heads[n, slot].runs > 0:
            deposited = select_segment(machine, n, deposited)
    begin_pci(machine, n, now, PCI_WRITES, drain_bytes(endpoint, deposited))


@step
def _complete(machine, n, now):
    endpoint = machine.endpoints[n]
    packet = machine.arrivals[n, place_in(endpoint.completed, endpoint.receive_ring)]
    if has_ports(machine.ports):
        if machine.ports.rules[0].serves == 1:
            endpoint.dropped += 1  # its place in the ring is free: reports go elsewhere
            complete_arrival(machine, n, place_in(endpoint.completed, endpoint.receive_ring), now)
            _serve_outcome(machine, n, now)
    elif packet.broken == 1:
        endpoint.dropped += 1
        count_corrupted(machine.nodes[n], packet)
        if packet.own == 1:
            give_back(machine.store, n, packet.address)
            endpoint.attached += 1
    else:
        if has_bytes(machine.store):
            place = place_in(endpoint.completed, endpoint.receive_ring)
            slot = place_in(endpoint.shown, endpoint.receive_ring)
            store = machine.store
            copy_control(store.arriving, place, store.receive_ring, slot, n, n)
        machine.inboxes[n, place_in(endpoint.shown, endpoint.receive_ring)] = packet
        endpoint.shown += 1
    complete_packet(endpoint, machine.arrivals[n])
    if has_ports(machine.ports) and machine.ports.rules[0].serves == 0:
        begin_handler(machine, n, now)


@step
def _send_task(machine, n, now, task):
    endpoint = machine.endpoints[n]
    node = machine.nodes[n]
    if task == NET_TX:
        if endpoint.sent == node.task_packet:
            _send(machine, n, now)
    elif task == FINISH:
        if has_ports(machine.ports):
            end_packet_send(machine, n, place_in(endpoint.finished, endpoint.send_ring), now)
        finish_message(endpoint, machine.sends[n])
    else:
        number = np.int64(endpoint.taken)
        payload = take_message(endpoint, machine.sends[n])
        if payload > 0:
            machine.store.marks[n, 0] = 0
            node.fetching = number
            begin_pci(machine, n, now, PCI_READS, payload)


@step
def _send(machine, n, now):
    endpoint = machine.endpoints[n]
    if endpoint.control_sent == 0:
        begin_link(machine, n, now, 1, header_bytes(machine, n))
        return
    packet = sending(machine, n)
    deposited = packet.payload
    if endpoint.sent == machine.nodes[n].fetching:
        deposited = fetched_bytes(machine, n, now)
    count = send_bytes(endpoint, deposited)
    fetching = endpoint.sent == machine.nodes[n].fetching
    if has_bytes(machine.store) and fetching and not crosses_bus(machine, n):
        fetch_payload(machine, n, place_in(endpoint.sent, endpoint.send_ring), endpoint.sunk)
    begin_link(machine, n, now, 0, count)
