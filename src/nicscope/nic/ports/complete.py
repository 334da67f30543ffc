"""Completion of arrived packets: acknowledge or refuse them, and deliver their messages."""

from __future__ import annotations

import numpy as np

from nicscope.clock import NEVER
from nicscope.kernel.decorators import copy_bytes, distant, step
from nicscope.nic.ports import arrivals, calls, layout, traffic, window
from nicscope.nic.ports.free_queue import recycle_buffers, release_buffers
from nicscope.nic.ports.lookup import has_export_handle, peer_timeout, release_packet_page
from nicscope.nic.ports.receive import release_segments, undo_placements_from
from nicscope.nic.ports.remote_memory import check_export, is_expected_answer, post_answer
from nicscope.nic.ports.streams import is_of_work, is_reliable, store_from, stream_to
from nicscope.nic.transport import is_acknowledged, may_acknowledge


@distant
def complete_arrival(nics, d, slot, now):
    """Complete the packet in ``slot`` of the receive ring of node ``d``."""
    ports = nics.ports
    head = ports.arrival_heads[d, slot]
    packet = nics.arrivals[d, slot]
    if head.kind & layout.VOIDED:
        traffic.count_ended(nics, d, packet, head, head.why)
        return
    stream = stream_to(ports, d, head.peer)
    stream.heard_at = now
    if stream.port != layout.OWN_PORT and (stream.verdict != 0 or head.verdict != 0):
        traffic.count_ended(nics, d, packet, head, calls.on_disconnect(nics, d, slot, now))
        return
    if head.kind == layout.SEND and head.last == 0:
        _start_message_timer(nics, d, head.peer, now)
    if not is_reliable(ports, stream):
        traffic.count_ended(
            nics, d, packet, head, _complete_unreliable(nics, d, slot, packet, head)
        )
        return
    window.adopt_peer_route(nics, d, head.peer, head)
    window.acknowledge(nics, d, head.peer, head, now)
    if head.rnr_delay > 0:
        window.on_rnr_nak(nics, d, head.peer, head, now)
    if head.sequence < 0:
        traffic.count_ended(nics, d, packet, head, traffic.ACKNOWLEDGED)
        return
    traffic.count_ended(nics, d, packet, head, _complete_reliable(nics, d, slot, packet, head))
    if not arrivals.is_acknowledged_by_answer(ports, d, head):
        window.schedule_acknowledgement(nics, d, head.peer, now)


@step
def _start_message_timer(nics, d, s, now):
    """Start the timer of a message of ``s``: its buffers must return if that node dies."""
    stream = stream_to(nics.ports, d, s)
    if stream.message_due_at == NEVER:
        stream.message_due_at = now + peer_timeout(nics)
        window.set_stream_deadline(nics, d, s, stream.message_due_at)


@step
def _complete_reliable(nics, d, slot, packet, head):
    """Acknowledge or refuse the packet; its outcome."""
    ports = nics.ports
    stream = stream_to(ports, d, head.peer)
    release_packet_page(nics, d, head)
    if head.runs > 0:
        release_segments(nics, d, slot)
    status = head.status
    if status in (arrivals.DISCARDED, arrivals.DROPPED):
        return head.why
    early = stream.level == layout.DELIVERY and is_acknowledged(stream, head.sequence)
    if not early and not may_acknowledge(stream, head.sequence):
        return traffic.TAKEN_BACK
    _place_by_kernel(nics, d, slot, packet, head)
    status = head.status
    if status == arrivals.DROPPED:
        return head.why  # and what follows it is refused already
    if status == arrivals.TAKEN and not _is_whole(nics, d, slot, packet, head):
        status = arrivals.DROPPED
    if status in (arrivals.TAKEN, arrivals.CONSUMED):
        status = _deliver(nics, d, slot, packet, head)
        _count(nics, d, packet, head, status)
    if status == arrivals.ENDED:
        return traffic.REFUSED
    if status == arrivals.DROPPED:
        arrivals.revoke_acceptance(nics, d, head)
        why = head.why
        undo_placements_from(nics, d, head.peer)
        return why
    is_refused = status in (arrivals.REFUSED_FOR_GOOD, arrivals.NO_PLACE)
    if not early:
        arrivals.acknowledge_packet(nics, d, head, np.uint64(1) if is_refused else np.uint64(0))
    if is_refused:
        ports.nodes[d].rejected += 1
        if head.kind == layout.REPLY:
            told = layout.NO_ROOM if status == arrivals.NO_PLACE else layout.NO_RIGHTS
            _end_fetch(nics, d, packet, head, told)
    return _outcome_of(head, status)


@step
def _is_whole(nics, d, slot, packet, head):
    """Whether the packet is complete and its checksum right; if not, ``head.why`` says why."""
    if packet.broken == 1:
        head.why = traffic.BROKEN_OFF
        return False
    if not calls.has_valid_checksum(nics, d, slot):
        head.why = traffic.CORRUPTED
        return False
    return True


@step
def _outcome_of(head, status):
    """Outcome of a packet of that status, for the observer."""
    if status == arrivals.TAKEN:
        return traffic.DELIVERED
    if (
        status in (arrivals.REFUSED_FOR_GOOD, arrivals.NO_PLACE, arrivals.CONSUMED)
        and head.why != traffic.INCOMPLETE
    ):
        return traffic.REFUSED
    return head.why


@step
def _count(nics, d, packet, head, status):
    if status != arrivals.TAKEN or head.kind == layout.PROBE:
        return
    serving = nics.ports.nodes[d]
    count = packet.payload
    if head.kind == layout.SEND and packet.payload == 0:
        count += head.total
    serving.messages_in += head.last
    serving.bytes_in += count
    account = nics.ports.accounts[d, traffic.port_of_arrival(nics, d, head)]
    account[traffic.MESSAGES_IN] += head.last
    account[traffic.BYTES_IN] += count


@step
def _place_by_kernel(nics, d, slot, packet, head):
    """Place the packet where the kernel serves ports; elsewhere the NIC has placed it."""
    if nics.ports.rules[0].serves == 1 or head.status != arrivals.TAKEN or packet.broken == 1:
        return
    if head.kind == layout.SEND and packet.payload > 0:
        if calls.has_valid_checksum(nics, d, slot):
            calls.copy_from_kernel(nics, d, slot)
        else:
            packet.broken = 1


@step
def _complete_unreliable(nics, d, slot, packet, head):
    """Deliver or drop the packet of an unreliable transport; its outcome."""
    _place_by_kernel(nics, d, slot, packet, head)
    status = head.status
    if status == arrivals.CONSUMED or (
        status == arrivals.TAKEN and _is_whole(nics, d, slot, packet, head)
    ):
        status = _deliver(nics, d, slot, packet, head)
        _count(nics, d, packet, head, status)
    elif head.filled > 0:
        recycle_buffers(nics, d, slot)
    elif head.filled == 0 and nics.ports.channels[d, head.name].message == head.message:
        calls.abandon_message(nics, d, head.name)
    if status == arrivals.TAKEN and head.why != traffic.DELIVERED:
        status = arrivals.DROPPED
    release_packet_page(nics, d, head)
    if head.runs > 0:
        release_segments(nics, d, slot)
    return _outcome_of(head, status)


@step
def _deliver(nics, d, slot, packet, head):
    """Deliver the packet; ``TAKEN``, or the status that it has instead."""
    if head.receive >= 0:
        return calls.complete_receive(nics, d, slot)
    if head.kind == layout.SEND:
        if packet.payload == 0:
            return _deliver_inline(nics, d, slot, packet, head)
        return _deliver_piece(nics, d, slot, packet, head)
    if head.kind in (layout.WRITE, layout.FETCH) and is_of_work(nics, d, head):
        return calls.complete_remote_work(nics, d, slot)
    if head.kind == layout.WRITE:
        _end_store(nics, d, packet, head)
        return arrivals.TAKEN
    if head.kind == layout.FETCH and nics.ports.rules[0].serves == 1:
        return _answer_fetch(nics, d, packet, head)
    if head.kind == layout.REPLY:
        return _end_fetch(nics, d, packet, head, layout.DONE)
    if head.kind == layout.CUT:
        _abort_message(nics, d, packet, head)
        return arrivals.TAKEN
    return arrivals.TAKEN if head.kind == layout.PROBE else arrivals.REFUSED_FOR_GOOD


@step
def _abort_message(nics, d, packet, head):
    """Abort the message of ``head``: its buffers are ready for another."""
    if not arrivals.is_for_port(nics, d, packet, head):
        return
    channel = nics.ports.channels[d, head.name]
    if channel.placed >= 0 and channel.message == head.message:
        calls.abandon_message(nics, d, head.name)


@step
def _deliver_inline(nics, d, slot, packet, head):
    ports = nics.ports
    if not arrivals.is_for_port(nics, d, packet, head):
        return arrivals.REFUSED_FOR_GOOD
    channel = ports.channels[d, head.name]
    port = ports.table[d, channel.port]
    if port.reserved - port.read == ports.rules[0].ring:
        port.dropped += 1
        head.why = traffic.NO_REPORT
        return arrivals.status_without_buffer(nics, d, head)
    port.reserved += 1
    place = calls.report_received(
        nics, d, channel.port, layout.SEND, head.name, packet.sender, head.total, 0, 0
    )
    inline = ports.report_bytes[d, channel.port, place]
    copy_bytes(inline, 0, nics.store.arriving[d, slot], 0, layout.INLINE_BYTES)
    return arrivals.TAKEN


@step
def _deliver_piece(nics, d, slot, packet, head):
    ports = nics.ports
    channel = ports.channels[d, head.name]
    is_whole = arrivals.add_to_message(channel, packet, head)
    if head.last == 0:
        return arrivals.TAKEN
    if not is_whole:
        recycle_buffers(nics, d, slot)
        return arrivals.TAKEN
    place = calls.report_received(
        nics,
        d,
        channel.port,
        layout.SEND,
        head.name,
        packet.sender,
        head.total,
        head.filled,
        0,
    )
    for i in range(head.filled):
        address = ports.arrival_buffers[d, slot, i].address
        ports.report_buffers[d, channel.port, place, i] = address
    release_buffers(nics, d, slot)
    return arrivals.TAKEN


@step
def _end_store(nics, d, packet, head):
    ports = nics.ports
    storing = store_from(nics, d, head.peer, head.from_port)
    if storing.message != head.message:
        storing.message = head.message
        storing.arrived = 0
    storing.arrived += packet.payload
    if head.last == 0 or storing.arrived != head.total:
        return  # or a part of it was rejected, or lost
    export = ports.shared.exports[d, head.name]
    export.stores += 1
    if head.options & layout.NOTIFY and export.port != layout.NOBODY:
        port = ports.table[d, export.port]
        if port.reserved - port.read < ports.rules[0].ring:
            port.reserved += 1
            offset = head.offset + packet.payload - head.total
            calls.report_received(
                nics,
                d,
                export.port,
                layout.WRITE,
                head.name,
                packet.sender,
                head.total,
                0,
                offset,
            )


@step
def _answer_fetch(nics, d, packet, head):
    """Post the answer to a remote fetch at the firmware's own port."""
    ports = nics.ports
    if head.name < 0 or head.name >= ports.shared.exports.shape[1]:
        return arrivals.REFUSED_FOR_GOOD
    if not has_export_handle(nics, d, head):
        return arrivals.DROPPED
    export = ports.shown[d]
    if check_export(export, head, packet.sender) != layout.DONE:
        return arrivals.REFUSED_FOR_GOOD
    address = export.start + head.offset
    return post_answer(nics, d, head, export.space, export.port, address)


@step
def _end_fetch(nics, d, packet, head, status):
    """Count one packet of a fetch's answer; the last one completes the fetch.

    Who answered has done its part in any case: a packet that may not go where it was asked to
    is the asking process's own concern.
    """
    ports = nics.ports
    if not is_expected_answer(nics, d, packet, head):
        return arrivals.REFUSED_FOR_GOOD
    fetch = ports.fetches[d, head.name, head.slot]
    fetch.arrived += packet.payload
    if status != layout.DONE:
        fetch.failure = status
    if head.last == 1:
        stream_to(ports, d, head.peer).fetching -= 1
        fetch.peer = layout.NOBODY
        told = head.options if fetch.failure == layout.DONE else fetch.failure
        if ports.table[d, head.name].takes == layout.WORK_QUEUE:
            calls.finish_remote_read(nics, d, head.name, head.slot, told)
        else:
            calls.report_sent(nics, d, head.name, head.slot, told)
    return arrivals.TAKEN
