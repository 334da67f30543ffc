"""Remote stores and answers to fetches: whose memory they may go to, and where it is."""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import distant, routine, step
from nicscope.memory.paging.layout import GARBAGE_FRAME
from nicscope.nic.delivery import PAYLOAD, place_in
from nicscope.nic.ports import arrivals, calls, layout, lookup
from nicscope.nic.ports.descriptor import NO_PAGE
from nicscope.nic.ports.streams import is_of_work, stream_to
from nicscope.nic.ports.traffic import (
    NO_ANSWER,
    NO_ENTRY,
    NO_TRANSLATION,
    port_of_arrival,
)


@step
def place_store(nics, d, packet, head):
    """Place the payload of a remote store; whether it waits for a translation."""
    ports = nics.ports
    if head.name < 0 or head.name >= ports.shared.exports.shape[1]:
        arrivals.discard_payload(packet, head, arrivals.REFUSED_FOR_GOOD)
        return False
    if not lookup.has_export_handle(nics, d, head):
        arrivals.drop_for_retransmit(nics, d, packet, head)
        return False
    export = ports.shown[d]
    # The header's length is the message's; of this packet, what it carries.
    head.length = packet.payload
    if check_export(export, head, packet.sender) != layout.DONE:
        arrivals.discard_payload(packet, head, arrivals.REFUSED_FOR_GOOD)
        return False
    start = export.start if export.redirect < 0 else export.redirect
    if export.space == layout.NOBODY:
        _place_in_nic_memory(nics, packet, head, start + head.offset)
        return False
    address = start + head.offset
    if (
        export.redirect >= 0
        and lookup.bytes_in_page(nics, address, packet.payload) < packet.payload
    ):
        piece = ports.work.redirected[d, arrivals.last_arrival(nics, d), 0]
        piece.address = start
        piece.length = export.length
        return calls.place_redirected(nics, d)
    return translate_arrival(nics, d, packet, head, export.space, address)


@step
def _place_in_nic_memory(nics, packet, head, address):
    """Place the payload in NIC memory, for which the garbage page stands."""
    page = np.int64(1) << nics.ports.rules[0].page_bits
    packet.address = GARBAGE_FRAME * page + (address & (page - 1))
    head.frame = GARBAGE_FRAME
    head.generation = 0


@step
def place_answer(nics, d, packet, head):
    """Place the payload of a fetch's answer; whether it waits for a translation."""
    ports = nics.ports
    if head.kind != layout.REPLY or not is_expected_answer(nics, d, packet, head):
        arrivals.discard_payload(packet, head, arrivals.REFUSED_FOR_GOOD)
        return False
    if not lookup.has_process_handle(nics, d, head, head.name):
        arrivals.drop_for_retransmit(nics, d, packet, head)
        return False
    fetch = ports.fetches[d, head.name, head.slot]
    space = ports.table[d, head.name].space
    return translate_arrival(nics, d, packet, head, space, fetch.address + head.offset)


@routine
def is_expected_answer(nics, d, packet, head):
    """Whether the answer belongs to an outstanding fetch of this node from its sender."""
    ports = nics.ports
    if head.name <= layout.OWN_PORT or head.name >= ports.table.shape[1]:
        return False
    if head.slot < 0 or head.slot >= ports.rules[0].ring:
        return False
    fetch = ports.fetches[d, head.name, head.slot]
    if fetch.peer != head.peer:
        return False
    return head.offset >= 0 and head.offset + packet.payload <= fetch.length


@step
def translate_arrival(nics, d, packet, head, space, address):
    """Translate the destination of the last packet; whether it waits for a fill."""
    ports = nics.ports
    page = lookup.page_at(nics, address)
    packet.address = address & ((np.int64(1) << ports.rules[0].page_bits) - 1)
    if packet.address + packet.payload > np.int64(1) << ports.rules[0].page_bits:
        # It was cut for another place in a page than it goes to.
        arrivals.discard_payload(packet, head, arrivals.REFUSED_FOR_GOOD)
        return False
    head.space = space
    head.page = page
    stream = stream_to(ports, d, head.peer)
    was_looked_up = head.kind == layout.REPLY and lookup.is_read_translated_ahead(
        nics, d, head.name
    )
    if was_looked_up or (stream.missed == head.sequence and head.sequence >= 0):
        return _look_up_again(nics, d, packet, head, stream)
    frame = calls.ask_page(nics, d, port_of_arrival(nics, d, head), space, page, 1)
    if frame == layout.MISSED:
        lookup.request_page(nics, d, layout.ARRIVAL, space, page, 1, 0)
        return True
    if frame == layout.NOT_THERE:
        arrivals.discard_payload(packet, head, arrivals.REFUSED_FOR_GOOD)
        return False
    _set_address(nics, d, frame)
    return False


@step
def _look_up_again(nics, d, packet, head, stream):
    """Look up a retransmitted packet that missed before; whether it must wait."""
    nics.ports.nodes[d].repeated += 1
    stream.missed = -1
    frame = calls.translated_frame(nics, d, head.space, head.page, 1)
    if frame != layout.MISSED:
        stream.hopeless = -1
        _set_address(nics, d, frame)
        return False
    if stream.hopeless == head.sequence:
        stream.hopeless = -1
        arrivals.discard_payload(packet, head, arrivals.NO_PLACE)
        return False
    if is_access_denied(nics, d, head.space, head.page):
        arrivals.discard_payload(packet, head, arrivals.REFUSED_FOR_GOOD)
        return False
    lookup.request_page(nics, d, layout.ARRIVAL, head.space, head.page, 1, 0)
    return True


@step
def is_access_denied(nics, d, space, page):
    """Whether the process has no such page that may be written, as the kernel thread found."""
    return (
        nics.ports.rules[0].service == layout.THREAD
        and calls.needed_for(nics, d, space, page, 1) < 0
    )


@step
def _set_address(nics, d, frame):
    ports = nics.ports
    slot = arrivals.last_arrival(nics, d)
    head = ports.arrival_heads[d, slot]
    packet = nics.arrivals[d, slot]
    head.frame = frame
    head.generation = lookup.generation_of(nics, d, frame)
    head.key = lookup.key_of(nics, d, head.space, head.page)
    calls.hold(nics, d, head.key)
    ports.owners[d, head.key] = port_of_arrival(nics, d, head)
    packet.address += frame << ports.rules[0].page_bits


@step
def _post_payload(nics, d):
    """Post netRcv for the payload, unless the network has given the packet up."""
    endpoint = nics.endpoints[d]
    if endpoint.awaited == 1:
        endpoint.awaited = 0
        endpoint.posted = PAYLOAD


@distant
def accept_arrival(nics, d, frame):
    """Accept the payload of the last packet: its page is translated."""
    if nics.ports.arrival_heads[d, arrivals.last_arrival(nics, d)].runs < 0:
        _set_address(nics, d, frame)
    elif calls.continue_placement(nics, d, frame):
        return
    _post_payload(nics, d)


@distant
def drop_arrival(nics, d):
    """Drop the last packet for now; its payload is discarded."""
    ports = nics.ports
    slot = arrivals.last_arrival(nics, d)
    head = ports.arrival_heads[d, slot]
    stream_to(ports, d, head.peer).missed = head.sequence
    head.why = NO_TRANSLATION
    lookup.note_drop_time(nics, d, head.peer, head.sequence)
    if head.runs >= 0 and head.status == arrivals.TAKEN:
        if arrivals.makes_no_progress(nics, d, head):
            calls.fail_receive(nics, d, slot, layout.NO_ROOM)
            _post_payload(nics, d)
            return
        if head.receive >= 0:
            calls.undo_placement(nics, d, slot)
    arrivals.drop_for_retransmit(nics, d, nics.arrivals[d, slot], head)
    _post_payload(nics, d)


@distant
def drop_arrival_without_entry(nics, d):
    """Drop the last packet, for whose page no entry is free, until its retries are exceeded.

    What it waits for may itself wait for this node, whose packets the other side turns away.
    """
    ports = nics.ports
    slot = arrivals.last_arrival(nics, d)
    head = ports.arrival_heads[d, slot]
    packet = nics.arrivals[d, slot]
    if arrivals.status_without_buffer(nics, d, head) == arrivals.REFUSED_FOR_GOOD:
        if head.receive >= 0 or is_of_work(nics, d, head):
            calls.fail_receive(nics, d, slot, layout.NO_ROOM)
        else:
            arrivals.discard_payload(packet, head, arrivals.NO_PLACE)
        _post_payload(nics, d)
    else:
        drop_arrival(nics, d)
        head.why = NO_ENTRY


@distant
def reject_arrival(nics, d, how):
    """Reject the last packet for good: access is denied, or there is no place for it."""
    slot = arrivals.last_arrival(nics, d)
    head = nics.ports.arrival_heads[d, slot]
    if head.receive >= 0 or is_of_work(nics, d, head):
        calls.fail_receive(
            nics, d, slot, layout.PROTECTION if how == arrivals.REFUSED_FOR_GOOD else layout.NO_ROOM
        )
    else:
        arrivals.discard_payload(nics.arrivals[d, slot], head, how)
    _post_payload(nics, d)


@step
def post_answer(nics, d, head, space, owner, address):
    """Post the answer to the fetch of ``head`` at the firmware's own port, if it has room.

    It comes from ``address`` of ``space``, memory of the port ``owner``.
    """
    ports = nics.ports
    port = ports.table[d, layout.OWN_PORT]
    ring = ports.rules[0].ring
    if port.posted - port.taken >= ring - 1:
        head.why = NO_ANSWER
        return arrivals.DROPPED
    slot = _blank_answer(ports, d)
    request = ports.requests[d, layout.OWN_PORT, slot]
    request.operation = layout.REPLY
    request.name = head.peer
    request.port = head.from_port
    request.cookie = head.slot
    request.space = space if head.length > 0 else np.int64(layout.NOBODY)
    request.owner = owner
    request.offset = head.into
    request.segments = 1 if head.length > 0 else 0
    request.options = 0
    request.length = layout.DONE
    request.atomic = head.atomic
    request.immediate = head.immediate
    request.swap = head.swap
    segment = ports.segments[d, layout.OWN_PORT, slot, 0]
    segment.address = address
    segment.length = head.length
    segment.key = 0
    if owner != layout.NOBODY and ports.table[d, owner].rules & layout.ANSWERS_BY_KEY != 0:
        segment.key = head.remote_key
        stream_to(ports, d, head.peer).answers += 1
    port.posted += 1
    ports.nodes[d].attention = 1
    return arrivals.TAKEN


@step
def answer_without_data(nics, n, status):
    """Post an answer without data, whose status tells the requester of the failure."""
    ports = nics.ports
    port = ports.table[n, layout.OWN_PORT]
    request = ports.requests[n, layout.OWN_PORT, _blank_answer(ports, n)]
    request.operation = layout.REPLY
    request.name = port.name
    request.port = port.reply_port
    request.cookie = port.cookie
    request.offset = 0
    request.segments = 0
    request.space = layout.NOBODY  # nothing is looked up for it
    request.options = 0
    request.length = status
    request.atomic = 0
    port.posted += 1
    ports.nodes[n].attention = 1


@step
def _blank_answer(ports, n):
    """The slot of the next answer to be posted, of which nothing has gone."""
    port = ports.table[n, layout.OWN_PORT]
    slot = ports.answer_slots[n, place_in(port.posted, ports.rules[0].ring)]
    answer = ports.answers[n, slot]
    answer.awaits = 0
    answer.done = 0
    answer.missed = NO_PAGE
    answer.page = NO_PAGE
    answer.key = lookup.NO_KEY
    answer.failure = layout.DONE
    return slot


@step
def next_answer(ports, n):
    """The turn of the answer that goes next, or ``NOBODY``: that a page is missing stops one peer.

    It is the first that awaits no page, and that no answer to the same peer stands before that does
    (miNI, IV.A: a miss blocks its request, and other connections go on).
    """
    port = ports.table[n, layout.OWN_PORT]
    for turn in range(port.taken, port.posted):
        slot = _slot_of(ports, n, turn)
        if ports.answers[n, slot].awaits == 0 and not _is_behind_other(ports, n, turn, slot):
            return turn
    return np.int64(layout.NOBODY)


@step
def _slot_of(ports, n, turn):
    return ports.answer_slots[n, place_in(turn, ports.rules[0].ring)]


@step
def _is_behind_other(ports, n, turn, slot):
    """Whether an answer to the same peer that awaits a page stands before the one in ``slot``."""
    requests = ports.requests[n, layout.OWN_PORT]
    for other in range(ports.table[n, layout.OWN_PORT].taken, turn):
        before = _slot_of(ports, n, other)
        if ports.answers[n, before].awaits == 1 and requests[before].name == requests[slot].name:
            return True
    return False


@step
def bring_answer_forward(ports, n, turn):
    """Have the answer whose turn that is go before those that were posted before it."""
    ring = ports.rules[0].ring
    slots = ports.answer_slots[n]
    slot = slots[place_in(turn, ring)]
    for other in range(turn, ports.table[n, layout.OWN_PORT].taken, -1):
        slots[place_in(other, ring)] = slots[place_in(other - 1, ring)]
    slots[place_in(np.int64(ports.table[n, layout.OWN_PORT].taken), ring)] = slot


@step
def put_answer_aside(nics, n):
    """Put the answer under way back until the kernel thread has brought its page."""
    port = nics.ports.table[n, layout.OWN_PORT]
    answer = nics.ports.answers[n, port.slot]
    answer.awaits = 1
    answer.done = port.done
    answer.missed = port.missed
    answer.page = NO_PAGE
    answer.key = lookup.NO_KEY
    port.taken -= 1
    port.busy = 0


@distant
def resume_answer(nics, n, space, page, status, frame):
    """Resume the answer that awaits ``page``: it has a frame, cannot be had, or asks again.

    ``status``: ``DONE``, why it cannot be had, or ``MISSED``.
    """
    ports = nics.ports
    port = ports.table[n, layout.OWN_PORT]
    ports.nodes[n].attention = 1
    for turn in range(port.taken, port.posted):
        slot = _slot_of(ports, n, turn)
        answer, request = ports.answers[n, slot], ports.requests[n, layout.OWN_PORT, slot]
        if answer.awaits == 0 or answer.missed != page or request.space != space:
            continue
        answer.awaits = 0
        if status == layout.DONE:
            ports.nodes[n].repeated += 1
            answer.missed = NO_PAGE
            answer.page = page
            answer.frame = frame
            answer.key = lookup.key_of(nics, n, space, page)
            calls.hold(nics, n, answer.key)
            ports.owners[n, answer.key] = request.owner
        elif status != layout.MISSED:
            answer.failure = status
        return


@step
def check_export(export, head, node):
    """Whether the packet of ``head`` from ``node`` may do to ``export`` what it asks."""
    if export.valid == 0 or export.epoch != head.epoch:
        return layout.REJECTED
    if export.node != layout.NOBODY and export.node != node:
        return layout.REJECTED
    if export.importer != layout.NOBODY and export.importer != head.from_port:
        return layout.REJECTED
    needed = layout.MAY_WRITE if head.kind == layout.WRITE else layout.MAY_FETCH
    if export.rights & needed == 0:
        return layout.REJECTED
    if head.offset < 0 or head.length < 0 or head.offset > export.length - head.length:
        return layout.REJECTED
    return layout.DONE
