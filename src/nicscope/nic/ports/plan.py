"""What a task of the firmware will do that takes time, as counts of steps: its plan.

The driver says how long each step takes.  Starting and finishing transfers are not counted here:
every task does them.  ``PLAN`` of a node is of the task that its processor is about to spend its
time on, and the task's effect is in ``transmit``, ``receive`` and ``complete``.
"""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import distant, step
from nicscope.nic.delivery import place_in
from nicscope.nic.ports import layout, transmit
from nicscope.nic.ports.arrivals import TAKEN, consumes_receive, last_arrival
from nicscope.nic.ports.descriptor import NO_PAGE, is_atomic
from nicscope.nic.ports.lookup import (
    bytes_in_page,
    further_ways,
    is_read_translated_ahead,
    page_at,
)
from nicscope.nic.ports.receive import segment_at
from nicscope.nic.ports.receive_queue import receive_queue_of
from nicscope.nic.ports.remote_memory import is_expected_answer, next_answer
from nicscope.nic.ports.streams import destination_port_of, grh_bytes_of, is_of_work, stream_to

STEPS = (
    "serve_request",  # a descriptor is taken
    "lookup_handle",  # of a buffer or a process
    "lookup_send",
    "lookup_receive",
    "lookup_buffer",  # of a message that arrives: it has been translated ahead
    "lookup_free",  # of the free queue
    "further_way",  # of a set, checked after the first
    "receive_message",  # a message is handed over
)
PLAN = np.dtype([(name, "i8") for name in STEPS], align=True)


@step
def _clear(plan):
    plan.serve_request = 0
    plan.lookup_handle = 0
    plan.lookup_send = 0
    plan.lookup_receive = 0
    plan.lookup_buffer = 0
    plan.lookup_free = 0
    plan.further_way = 0
    plan.receive_message = 0


@distant
def plan_service(nics, n, source):
    """Plan the steps of SERVE for ``source``, misses aside."""
    ports = nics.ports
    plan = ports.plans[n]
    _clear(plan)
    kind = transmit.kind_of(source)
    p = transmit.index_of(source)
    if kind == transmit.AHEAD:
        port = ports.table[n, p]
        address = ports.provided[n, p, place_in(port.free_taken, ports.rules[0].ring)]
        plan.lookup_free = 1
        _count_ways(nics, n, port.space, address >> ports.rules[0].page_bits)
    elif kind not in (
        transmit.ACK,
        transmit.RETRANSMIT,
        transmit.MESSAGE_ABORT,
        transmit.DESCRIPTOR,
        transmit.OVERRUN,
    ):
        _plan_request(nics, n, p)


@step
def _plan_request(nics, n, p):
    ports = nics.ports
    port = ports.table[n, p]
    if port.busy == 1:
        space = np.int64(port.reply_space if p == layout.OWN_PORT else port.space)
        if space != layout.NOBODY and transmit.needs_next_page(nics, n, p):
            address = ports.current[n, p, port.segment].address + port.segment_done
            _plan_lookup(nics, n, space, address, port.operation == layout.FETCH)
        return
    plan = ports.plans[n]
    slot = place_in(port.taken, ports.rules[0].ring)
    done = np.int64(0)
    if p == layout.OWN_PORT:
        slot = ports.answer_slots[n, place_in(next_answer(ports, n), ports.rules[0].ring)]
        done = np.int64(ports.answers[n, slot].done)
    request = ports.requests[n, p, slot]
    plan.serve_request = 1
    if ports.rules[0].handles == 1 and p != layout.OWN_PORT:
        # The process; and the buffer that a remote operation names.
        plan.lookup_handle = (
            1 if request.operation == layout.SEND or port.takes == layout.WORK_QUEUE else 2
        )
    asks = request.operation == layout.FETCH or is_atomic(request.operation)
    if request.options & layout.INLINE or request.segments == 0:
        return
    if asks and not is_read_translated_ahead(nics, n, p):
        return
    if p == layout.OWN_PORT and _needs_no_page(ports.answers[n, slot]):
        return
    space = np.int64(request.space if p == layout.OWN_PORT else port.space)
    if space != layout.NOBODY:
        _plan_lookup(nics, n, space, ports.segments[n, p, slot, 0].address + done, asks)


@step
def _needs_no_page(answer):
    """Whether the kernel thread has brought an answer's page, or found that it cannot be had."""
    return answer.page != NO_PAGE or answer.failure != layout.DONE


@step
def _plan_lookup(nics, n, space, address, is_read):
    """Plan the lookup of the page at ``address``: sent from, or the destination of a read."""
    if is_read:
        nics.ports.plans[n].lookup_receive = 1
    else:
        nics.ports.plans[n].lookup_send = 1
    _count_ways(nics, n, space, page_at(nics, address))


@step
def _count_ways(nics, n, space, page):
    if nics.ports.rules[0].counts_ways == 1:
        nics.ports.plans[n].further_way += further_ways(nics, n, space, page)


@distant
def plan_placing(nics, n):
    """Plan the placement of a payload: its lookups, unless its buffer was translated ahead."""
    ports = nics.ports
    plan = ports.plans[n]
    _clear(plan)
    slot = last_arrival(nics, n)
    head = ports.arrival_heads[n, slot]
    if head.status != TAKEN:
        return
    if head.kind == layout.SEND and consumes_receive(nics, n, head):
        _plan_scatter(nics, n, slot)
    elif head.kind == layout.SEND:
        plan.lookup_buffer = 1
    elif is_of_work(nics, n, head):
        _plan_remote_work(nics, n, slot)
    elif head.kind == layout.WRITE and not _is_sink(nics, n, head.name):
        _plan_store(nics, n, slot)
    elif head.kind == layout.REPLY:
        plan.lookup_receive = 1
        plan.lookup_handle = ports.rules[0].handles
        if is_expected_answer(nics, n, nics.arrivals[n, slot], head):
            fetch = ports.fetches[n, head.name, head.slot]
            page = page_at(nics, fetch.address + head.offset)
            _count_ways(nics, n, ports.table[n, head.name].space, page)


@step
def _plan_scatter(nics, n, slot):
    """Plan the lookup of each page of the receive that the payload is scattered to."""
    ports = nics.ports
    head = ports.arrival_heads[n, slot]
    channel = ports.channels[n, head.name]
    p = np.int64(destination_port_of(ports, n, head))
    number = np.int64(channel.receive)
    q = p
    if head.offset == 0 and channel.placed < 0:
        q = receive_queue_of(nics, n, p, head)
        number = np.int64(ports.table[n, q].receives_taken)
    if number == ports.table[n, q].receives_posted:
        return
    place = place_in(number, ports.work.receives.shape[2])
    receive = ports.work.receives[n, q, place]
    if receive.status != layout.DONE:
        return
    pieces = ports.work.pieces[n, q, place]
    begin = grh_bytes_of(head) + head.offset
    payload = min(nics.arrivals[n, slot].payload, receive.length - begin)
    _plan_pieces(nics, n, p, pieces, receive.segments, begin, payload)


@step
def _plan_pieces(nics, n, p, pieces, many, begin, payload):
    """Plan the lookup of each page of ``payload`` bytes from byte ``begin`` of ``pieces``."""
    done = np.int64(0)
    while done < payload:
        i, within = segment_at(pieces, many, begin + done)
        address = pieces[i].address + within
        done += bytes_in_page(nics, address, min(pieces[i].length - within, payload - done))
        nics.ports.plans[n].lookup_receive += 1
        _count_ways(nics, n, nics.ports.table[n, p].space, page_at(nics, address))


@step
def _plan_remote_work(nics, n, slot):
    """Plan the lookups of a remote write (one page) or of a scattered answer."""
    ports = nics.ports
    head = ports.arrival_heads[n, slot]
    packet = nics.arrivals[n, slot]
    if head.kind == layout.WRITE:
        ports.plans[n].lookup_receive = 1
        p = stream_to(ports, n, head.peer).port
        _count_ways(nics, n, ports.table[n, p].space, page_at(nics, head.remote))
    elif head.kind == layout.REPLY and is_expected_answer(nics, n, packet, head):
        pieces = ports.work.fetched[n, head.name, head.slot]
        _plan_pieces(nics, n, head.name, pieces, pieces.shape[0], head.offset, packet.payload)


@step
def _plan_store(nics, n, slot):
    """The place of a store is its export's, whose process is known beside it; it may be two pages.

    Those are looked up both where the export is redirected to another byte of a page.
    """
    ports = nics.ports
    head = ports.arrival_heads[n, slot]
    plan = ports.plans[n]
    plan.lookup_receive = 1
    plan.lookup_handle = 2 * ports.rules[0].handles
    # What is not exported is refused, and no page is looked up.
    exports = ports.shared.exports
    if 0 <= head.name < exports.shape[1] and exports[n, head.name].valid == 1:
        export = exports[n, head.name]
        start = export.start if export.redirect < 0 else export.redirect
        address = start + head.offset
        _count_ways(nics, n, export.space, page_at(nics, address))
        payload = nics.arrivals[n, slot].payload
        first = bytes_in_page(nics, address, payload)
        if export.redirect >= 0 and first < payload:
            plan.lookup_receive = 2
            _count_ways(nics, n, export.space, page_at(nics, address + first))


@step
def _is_sink(nics, n, name):
    exports = nics.ports.shared.exports
    return 0 <= name < exports.shape[1] and exports[n, name].space == layout.NOBODY


@distant
def plan_completion(nics, n):
    """Plan the delivery of a message to its process, with its last packet."""
    endpoint = nics.endpoints[n]
    plan = nics.ports.plans[n]
    _clear(plan)
    head = nics.ports.arrival_heads[n, place_in(endpoint.completed, endpoint.receive_ring)]
    is_last = head.status == TAKEN and head.last == 1
    if nics.ports.rules[0].serves == 1 and is_last:
        plan.receive_message = (
            1 if head.kind in (layout.SEND, layout.WRITE, layout.REPLY, layout.FETCH) else 0
        )
