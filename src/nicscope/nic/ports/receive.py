"""Where an arriving packet's bytes go: its place found and translated, its pieces scattered."""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import distant, routine, step
from nicscope.memory.paging.layout import GARBAGE_FRAME
from nicscope.nic.delivery import place_in
from nicscope.nic.ports import arrivals, calls, layout, lookup
from nicscope.nic.ports.free_queue import (
    attach_buffers,
    has_fitting_buffer,
    has_report_slot,
    take_ready_buffer,
)
from nicscope.nic.ports.regions import OWN_STORE, lookup_region, packets_in, permits
from nicscope.nic.ports.remote_memory import is_access_denied, place_answer, place_store
from nicscope.nic.ports.streams import (
    grh_bytes_of,
    is_of_work,
    is_reliable,
    packets_of,
    stream_to,
)
from nicscope.nic.ports.traffic import (
    INCOMPLETE,
    NO_BUFFER,
    NO_REPORT,
    TAKEN_BACK,
)


@distant
def place_arrival(nics, d):
    """Place the payload of the last packet; whether it waits for a translation."""
    ports = nics.ports
    slot = arrivals.last_arrival(nics, d)
    head = ports.arrival_heads[d, slot]
    packet = nics.arrivals[d, slot]
    if head.status != arrivals.TAKEN:
        packet.broken = 1
        return False
    if ports.rules[0].serves == 0:
        _place_in_kernel(nics, d, slot)
        return False
    if arrivals.consumes_receive(nics, d, head):
        return calls.place_in_receive(nics, d)
    if head.kind == layout.SEND:
        place_message(nics, d, packet, head, slot)
        return False
    if is_of_work(nics, d, head):
        return (
            calls.place_by_key(nics, d)
            if head.kind == layout.WRITE
            else calls.place_scattered_answer(nics, d)
        )
    if head.kind == layout.WRITE:
        return place_store(nics, d, packet, head)
    return place_answer(nics, d, packet, head)


@step
def _place_in_kernel(nics, d, slot):
    """Place a packet in the kernel's next buffer: the controller knows no ports."""
    ports = nics.ports
    head = ports.arrival_heads[d, slot]
    packet = nics.arrivals[d, slot]
    if head.kind != layout.SEND:
        arrivals.discard_payload(packet, head, arrivals.REFUSED_FOR_GOOD)
        return
    head.frame = ports.kernel_frames[d, slot]
    head.generation = lookup.generation_of(nics, d, head.frame)
    packet.address = head.frame << ports.rules[0].page_bits


@routine
def place_message(nics, d, packet, head, slot):
    """Place a packet in the current buffer of its message, or in the next one."""
    ports = nics.ports
    if not arrivals.is_for_port(nics, d, packet, head):
        arrivals.discard_payload(packet, head, arrivals.REFUSED_FOR_GOOD)
        return
    channel = ports.channels[d, head.name]
    if head.offset == 0 and not begin_message(nics, d, head):
        head.why = NO_REPORT
        arrivals.discard_payload(packet, head, arrivals.status_without_buffer(nics, d, head))
        return
    unit = channel.unit
    place = head.offset // unit
    within = head.offset % unit
    if channel.placed != head.offset or channel.message != head.message:
        # Reliable packets come in order and all: an earlier one of this message was refused.
        head.why = INCOMPLETE
        arrivals.discard_payload(packet, head, arrivals.REFUSED_FOR_GOOD)
        return
    if place >= layout.BUFFERS or within + packet.payload > unit:
        calls.abandon_message(nics, d, head.name)
        arrivals.discard_payload(packet, head, arrivals.REFUSED_FOR_GOOD)
        return
    if within == 0 and not _has_next_buffer(nics, d, packet, head, place):
        return
    buffer = ports.filling[d, head.name, place]
    page = np.int64(1) << ports.rules[0].page_bits
    packet.address = buffer.frame * page + (buffer.address & (page - 1)) + within
    head.frame = buffer.frame
    head.generation = lookup.generation_of(nics, d, buffer.frame)
    channel.placed += packet.payload
    head.filled = 0
    if head.last == 1:
        attach_buffers(nics, d, slot)


@step
def _has_next_buffer(nics, d, packet, head, place):
    """Whether the message of ``head`` gets its buffer ``place``; else its packet is passed by."""
    ports = nics.ports
    channel = ports.channels[d, head.name]
    calls.return_unready_buffers(nics, d, channel.port)
    if has_fitting_buffer(nics, d, channel.port, channel.unit):
        take_ready_buffer(nics, d, channel.port, ports.filling[d, head.name, place])
        channel.buffers += 1
        return True
    head.why = NO_BUFFER
    ports.table[d, channel.port].dropped += 1
    arrivals.discard_payload(packet, head, arrivals.status_without_buffer(nics, d, head))
    is_lost = not is_reliable(ports, stream_to(ports, d, head.peer))
    if is_lost or head.status == arrivals.REFUSED_FOR_GOOD:
        calls.abandon_message(nics, d, head.name)
    return False


@routine
def begin_message(nics, d, head):
    """Begin a message of its tag; whether a report is free for it."""
    ports = nics.ports
    channel = ports.channels[d, head.name]
    port = ports.table[d, channel.port]
    if channel.placed >= 0:
        calls.abandon_message(nics, d, head.name)
    # Buffers that come back have the places of their reports before the message has its own.
    calls.return_unready_buffers(nics, d, channel.port)
    has_fitting_buffer(nics, d, channel.port, channel.unit)
    if not has_report_slot(nics, d, channel.port):
        port.dropped += 1
        return False
    port.reserved += 1
    channel.message = head.message
    channel.placed = 0
    channel.buffers = 0
    return True


@step
def undo_placements_from(nics, d, peer):
    """Undo the placement of ``peer``'s incomplete packets, which it will retransmit."""
    endpoint = nics.endpoints[d]
    for place in range(endpoint.accepted - 1, endpoint.completed - 1, -1):
        slot = place_in(place, endpoint.receive_ring)
        head = nics.ports.arrival_heads[d, slot]
        if head.peer == peer and head.status != arrivals.UNCLASSIFIED:
            takes = head.kind == layout.SEND or head.receive >= 0
            if takes and head.status in (arrivals.TAKEN, arrivals.CONSUMED):
                _stop(nics, d, place, slot)
                calls.undo_placement(nics, d, slot)
            if head.status in (
                arrivals.TAKEN,
                arrivals.REFUSED_FOR_GOOD,
                arrivals.NO_PLACE,
                arrivals.CONSUMED,
            ):
                head.why = TAKEN_BACK
            head.status = arrivals.DISCARDED


@step
def _stop(nics, d, place, slot):
    """Stop the transfer of a payload to its buffer, which others may use now.

    The page of what is on its way there stays pinned for the packet until that is completed, as
    those of runs do in any case.
    """
    nics.arrivals[d, slot].broken = 1
    head = nics.ports.arrival_heads[d, slot]
    moving = nics.endpoints[d].draining == 1 and nics.endpoints[d].drained == place
    if head.runs > 0:
        return
    if moving and nics.ports.rules[0].serves == 1 and head.frame > GARBAGE_FRAME:
        head.lone = 1
        lookup.hold_packet_page(nics, d, head)


# Result of placing a payload.
LAID = 0  # all of it has been placed
WAITS = -1  # a translation is on its way
# Else the status with which its receive or fetch fails.


@step
def segment_at(pieces, many, at):
    """The segment that byte ``at`` of a message falls in, and its offset there.

    ``pieces``: SEGMENT, of which the first ``many`` count and together have more bytes.
    """
    i = 0
    while i < many - 1 and at >= pieces[i].length:
        at -= pieces[i].length
        i += 1
    return i, at


@step
def placed_bytes(nics, d, slot):
    """Bytes of the payload in ``slot`` that have been placed."""
    ports = nics.ports
    laid = np.int64(0)
    for i in range(ports.arrival_heads[d, slot].runs):
        laid += ports.work.runs[d, slot, i].count
    return laid


@routine
def scatter_payload(nics, d, slot, p, pieces, many):
    """Scatter the payload in ``slot`` over ``pieces``; whether it waits for a translation.

    They are memory of port ``p``, registered if it has work queues, and hold its message.  After
    the fill call ``record_segment`` and then this again; a payload that cannot be placed has
    failed then.
    """
    found = _place_payload(nics, d, slot, p, pieces, many)
    if found == WAITS:
        return True
    if found != LAID:
        calls.fail_receive(nics, d, slot, found)
    return False


@step
def _place_payload(nics, d, slot, p, pieces, many):
    """Place a payload: ``LAID``, ``WAITS``, or the status of a failure."""
    head = nics.ports.arrival_heads[d, slot]
    payload = nics.arrivals[d, slot].payload
    head.runs = max(head.runs, 0)
    head.space = nics.ports.table[d, p].space
    # Of a remote write the key of its peer has been looked up.
    by_key = nics.ports.table[d, p].takes == layout.WORK_QUEUE and head.kind != layout.WRITE
    laid = placed_bytes(nics, d, slot)
    while laid < payload:
        begin = grh_bytes_of(head) + head.offset + laid
        i, within = segment_at(pieces, many, begin)
        piece = pieces[i]
        if by_key and not permits(nics, d, p, piece.key, piece.address, piece.length, OWN_STORE):
            return np.int64(layout.PROTECTION)
        at = piece.address + within
        count = lookup.bytes_in_page(nics, at, min(piece.length - within, payload - laid))
        run = nics.ports.work.runs[d, slot, head.runs]
        run.address = at
        run.count = count
        run.before = within
        run.after = piece.length - within - count
        if by_key:
            packets = packets_in(nics, begin, count, within == 0)
            lookup_region(nics, d, piece.key, packets)
        head.page = lookup.page_at(nics, at)
        frame = _look_up(nics, d, p, head)
        if frame < 0:
            return frame if frame == WAITS else -frame
        record_segment(nics, d, slot, p, frame)
        laid += count
    stream_to(nics.ports, d, head.peer).missed = -1
    return np.int64(LAID)


@step
def _look_up(nics, d, p, head):
    """Frame of the payload's next page, ``WAITS``, or the negative of a status."""
    stream = stream_to(nics.ports, d, head.peer)
    space, page = head.space, head.page
    if stream.missed == head.sequence and head.sequence >= 0:
        nics.ports.nodes[d].repeated += 1
        frame = calls.translated_frame(nics, d, space, page, 1)
        if frame == layout.MISSED and stream.hopeless == head.sequence:
            stream.hopeless = -1
            return np.int64(-layout.NO_ROOM)
        if frame == layout.MISSED and is_access_denied(nics, d, space, page):
            return np.int64(-layout.PROTECTION)
    else:
        frame = calls.ask_page(nics, d, p, space, page, 1)
    if frame == layout.MISSED:
        lookup.request_page(nics, d, layout.ARRIVAL, space, page, 1, 0)
        return np.int64(WAITS)
    if frame == layout.NOT_THERE:
        return np.int64(-layout.PROTECTION)
    return frame


@routine
def record_segment(nics, d, slot, p, frame):
    """Record the next physical segment of the packet in ``slot``, whose page is in ``frame``."""
    ports = nics.ports
    head = ports.arrival_heads[d, slot]
    run = ports.work.runs[d, slot, head.runs]
    key = lookup.key_of(nics, d, head.space, head.page)
    bits = ports.rules[0].page_bits
    run.address = (frame << bits) + (run.address & ((np.int64(1) << bits) - 1))
    run.frame = frame
    run.generation = lookup.generation_of(nics, d, frame)
    run.key = lookup.NO_KEY
    ports.owners[d, key] = p
    if head.further > 0:
        begin = head.offset + placed_bytes(nics, d, slot)
        for _ in range(1, packets_of(nics, d, head.peer, head, begin, run.count)):
            calls.ask_page(nics, d, p, head.space, head.page, 1)  # each packet does
        before = ports.work.runs[d, slot, max(head.runs - 1, 0)]
        if head.runs > 0 and before.address + before.count == run.address:
            before.count += run.count  # one transfer moves both
            return
    if lookup.holds_entries(nics):
        # Two pages of one payload may want the same entry: the frame is kept, and no entry.
        calls.add_frame_pin(nics, d, frame)
    else:
        run.key = key
        calls.hold(nics, d, key)
    head.runs += 1


@routine
def release_segments(nics, d, slot):
    """Release the pages of the segments of the packet in ``slot``."""
    ports = nics.ports
    head = ports.arrival_heads[d, slot]
    for i in range(head.runs):
        run = ports.work.runs[d, slot, i]
        if run.key != lookup.NO_KEY:
            calls.release(nics, d, run.key)
        elif run.frame != GARBAGE_FRAME:
            calls.drop_frame_pin(nics, d, np.int64(head.space), np.int64(run.frame))
        run.key = lookup.NO_KEY
        run.frame = GARBAGE_FRAME


@distant
def select_segment(nics, n, deposited):
    """Point hostRcv's next transfer of ``n`` at its current segment; the bytes left of it.

    Of ``deposited`` bytes of the payload no more can go with it.
    """
    endpoint = nics.endpoints[n]
    slot = place_in(endpoint.drained, endpoint.receive_ring)
    runs = nics.ports.work.runs[n, slot]
    i = 0
    begin = np.int64(0)
    while begin + runs[i].count <= endpoint.drain_sunk:
        begin += runs[i].count
        i += 1
    head = nics.ports.arrival_heads[n, slot]
    head.run = i
    head.frame = runs[i].frame
    head.generation = runs[i].generation
    nics.arrivals[n, slot].address = runs[i].address - begin
    return min(deposited, begin + runs[i].count)


@distant
def place_redirected(nics, d):
    """Place the payload of a redirected store that crosses a page boundary.

    Whether a translation has to be waited for.  Where its export is redirected to has been written
    down for the packet: that may change while it waits.
    """
    slot = arrivals.last_arrival(nics, d)
    owner = np.int64(nics.ports.shared.exports[d, nics.ports.arrival_heads[d, slot].name].port)
    return scatter_payload(nics, d, slot, owner, nics.ports.work.redirected[d, slot], 1)
