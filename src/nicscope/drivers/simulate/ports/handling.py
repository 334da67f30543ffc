"""A kernel's interrupt handler: it takes what has come in, where the NIC cannot (U-Net/MM 5.2).

The controller has put the packets into the kernel's own buffers, in the order of its ring.  The
handler runs at once, whatever the CPU does, and that takes so much longer.
"""

from __future__ import annotations

import numpy as np

from nicscope.clock import NEVER
from nicscope.drivers.simulate.agenda import put
from nicscope.drivers.simulate.machine import KINDS, TIMER
from nicscope.drivers.simulate.ports.calls import steal_cpu
from nicscope.kernel.decorators import distant, step
from nicscope.nic.ports.arrivals import TAKEN
from nicscope.nic.ports.calls import complete_arrival
from nicscope.nic.ports.layout import SEND
from nicscope.nic.ports.receive import place_message


@distant
def begin_handler(machine, n, now):
    """A packet is in the kernel's memory: interrupt, unless the handler runs."""
    serving = machine.ports.nodes[n]
    if serving.handler_at == NEVER:
        serving.interrupts += 1
        _take_next(machine, n, now, np.int64(machine.ports.costs[n].interrupt_entry))


@step
def _take_next(machine, n, now, entry):
    serving = machine.ports.nodes[n]
    slot = serving.taken_in % machine.endpoints[n].receive_ring
    duration = entry + _handler_time(machine, n, slot)
    serving.kernel_time += duration
    steal_cpu(machine, n, duration, now)
    serving.handler_at = now + duration
    timer = n * KINDS + TIMER
    if serving.handler_at < machine.agenda.times[timer]:
        put(machine.agenda, timer, serving.handler_at)


@distant
def end_handler(machine, n, now):
    """Effect of the handler's work on one packet, if that has ended; it goes on to the next."""
    serving = machine.ports.nodes[n]
    if serving.handler_at > now:
        return
    endpoint = machine.endpoints[n]
    serving.handler_at = NEVER
    complete_arrival(machine, n, serving.taken_in % endpoint.receive_ring, now)
    endpoint.dropped += 1
    serving.taken_in += 1
    if serving.taken_in < endpoint.completed:
        _take_next(machine, n, now, np.int64(0))


@step
def _handler_time(machine, n, slot):
    """How long the handler takes for the packet in ``slot``, its entry aside."""
    costs = machine.ports.costs[n]
    head = machine.ports.arrival_heads[n, slot]
    if head.status != TAKEN or head.kind != SEND:
        return np.int64(0)
    payload = np.int64(machine.arrivals[n, slot].payload)
    length = payload if payload > 0 else np.int64(head.total)
    duration = costs.copy_start + costs.copy_per_byte * length
    if payload > 0:
        duration += costs.lookup_buffer
    return duration + (costs.receive_message if head.last == 1 else np.int64(0))


@distant
def take_from_kernel(machine, d, slot):
    """Copy the packet in ``slot`` from the kernel's buffer to where its message goes."""
    ports = machine.ports
    head = ports.arrival_heads[d, slot]
    packet = machine.arrivals[d, slot]
    begin = packet.address
    place_message(machine, d, packet, head, slot)
    if packet.broken == 0:
        host = machine.store.host
        for i in range(packet.payload):
            host[d, packet.address + i] = host[d, begin + i]
        ports.nodes[d].copied += packet.payload
