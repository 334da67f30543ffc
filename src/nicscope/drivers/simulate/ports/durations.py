"""How long the processor takes for its tasks, beyond starting and finishing transfers."""

from __future__ import annotations

import numpy as np

from nicscope.drivers.simulate.ports.choose import ACK, AHEAD, CUT_SHORT, RESEND, index_of, kind_of
from nicscope.drivers.simulate.ports.placing import TAKEN, is_awaited, last_arrival
from nicscope.drivers.simulate.ports.serve import enters_page
from nicscope.drivers.simulate.ports.translating import page_at, ways_time
from nicscope.kernel.decorators import distant, step
from nicscope.nic.ports import FETCH, INLINE, NOBODY, OWN_PORT, REPLY, SEND, WRITE


@distant
def serve_duration(machine, n, source):
    """How long SERVE takes for ``source``, misses aside."""
    ports = machine.ports
    costs = ports.costs[n]
    ports.nodes[n].looking = 0
    kind = kind_of(source)
    duration = machine.costs[n].firmware_start
    if kind == AHEAD:
        port = ports.table[n, index_of(source)]
        address = ports.provided[n, index_of(source), port.free_taken % ports.rules[0].ring]
        page = address >> ports.rules[0].page_bits
        return duration + costs.lookup_free + ways_time(machine, n, port.space, page)
    if kind in (ACK, RESEND, CUT_SHORT):
        return duration
    p = index_of(source)
    port = ports.table[n, p]
    if port.busy == 1:
        space = np.int64(port.reply_space if p == OWN_PORT else port.space)
        if space == NOBODY or not enters_page(machine, n, p):
            return duration
        address = ports.current[n, p, port.segment].address + port.segment_done
        return duration + _look_up(machine, n, space, address)
    slot = port.taken % ports.rules[0].ring
    request = ports.requests[n, p, slot]
    duration += costs.serve_request
    if ports.rules[0].handles == 1 and p != OWN_PORT:
        # The process; and the buffer that a remote operation names.
        duration += costs.lookup_handle * (1 if request.operation == SEND else 2)
    if request.options & INLINE or request.operation == FETCH:
        return duration
    space = np.int64(request.space if p == OWN_PORT else port.space)
    if space == NOBODY:
        return duration
    return duration + _look_up(machine, n, space, ports.segments[n, p, slot, 0].address)


@step
def _look_up(machine, n, space, address):
    """How long it takes to translate what is sent from ``address``."""
    ways = ways_time(machine, n, space, page_at(machine, address))
    return _looking(machine, n, machine.ports.costs[n].lookup_send + ways)


@step
def _looking(machine, n, duration):
    """``duration``, noted as the part of the task that is a lookup."""
    machine.ports.nodes[n].looking = duration
    return duration


@distant
def place_duration(machine, n):
    """How long it takes to find where a payload goes: a lookup, but not of a buffer at hand."""
    if machine.ports.rules[0].serves == 0:
        return np.int64(0)
    head = machine.ports.arrival_heads[n, last_arrival(machine, n)]
    machine.ports.nodes[n].looking = 0
    if head.status == TAKEN and head.kind == SEND:
        return machine.ports.costs[n].lookup_buffer
    if head.status == TAKEN and head.kind in (WRITE, REPLY):
        if head.kind == WRITE and _is_sink(machine, n, head.name):
            return np.int64(0)
        costs = machine.ports.costs[n]
        duration = costs.lookup_receive
        if machine.ports.rules[0].handles == 1:
            duration += costs.lookup_handle * (2 if head.kind == WRITE else 1)
        if head.kind == WRITE:
            duration += _ways_of_store(machine, n, head)
        elif is_awaited(machine, n, machine.arrivals[n, last_arrival(machine, n)], head):
            fetch = machine.ports.fetches[n, head.name, head.slot]
            page = page_at(machine, fetch.address + head.offset)
            duration += ways_time(machine, n, machine.ports.table[n, head.name].space, page)
        return _looking(machine, n, duration)
    return np.int64(0)


@step
def _ways_of_store(machine, n, head):
    exports = machine.ports.exports
    if head.name < 0 or head.name >= exports.shape[1]:
        return np.int64(0)
    export = exports[n, head.name]
    if export.valid == 0:
        return np.int64(0)  # it is refused, and no page is looked up
    start = export.start if export.redirect < 0 else export.redirect
    return ways_time(machine, n, export.space, page_at(machine, start + head.offset))


@step
def _is_sink(machine, n, name):
    exports = machine.ports.exports
    return 0 <= name < exports.shape[1] and exports[n, name].space == NOBODY


@distant
def finish_duration(machine, n):
    """How long it takes to hand a message to its process, at the end of its last packet."""
    endpoint = machine.endpoints[n]
    if machine.ports.rules[0].serves == 0:
        return np.int64(0)
    head = machine.ports.arrival_heads[n, endpoint.completed % endpoint.receive_ring]
    if head.status == TAKEN and head.last == 1 and head.kind in (SEND, WRITE, REPLY, FETCH):
        return machine.ports.costs[n].receive_message
    return np.int64(0)


@step
def handler_duration(machine, n, slot):
    """How long the host's interrupt handler takes for the packet in ``slot``, its entry aside."""
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
