"""Reliable delivery: windows of packets, where their bytes are, retries, messages cut short."""

from __future__ import annotations

import numpy as np

from nicscope.clock import NEVER
from nicscope.kernel.decorators import copy_bytes, distant, routine, step
from nicscope.nic import transport
from nicscope.nic.delivery import place_in
from nicscope.nic.ports import layout, streams
from nicscope.nic.ports.calls import break_connection, hold, report_sent, set_route
from nicscope.nic.ports.lookup import hold_packet_page, release_packet_page
from nicscope.nic.ports.regions import is_registered_range
from nicscope.nic.ports.traffic import AGAIN, BARE, FIRST, RESTS, count_made
from nicscope.nic.ports.work_queues import (
    CONNECTION_LOST,
    FETCH_REFUSED,
    POSTED_BADLY,
    local_error_verdict,
)


@step
def defer_poll_demand(nics, n):
    """Note a new frame on the ring; a trap polls the controller after its last one, others now."""
    endpoint, serving = nics.endpoints[n], nics.ports.nodes[n]
    serving.unpolled += 1
    before = endpoint.written - 1
    if endpoint.held > 0 or endpoint.finished == before:
        endpoint.held += 1
    is_full = endpoint.written - endpoint.finished == endpoint.send_ring
    if serving.in_trap == 0 or is_full:
        poll_demand(nics, n)


@routine
def poll_demand(nics, n):
    """Have the controller of ``n`` poll its send ring, if frames were added since."""
    serving = nics.ports.nodes[n]
    if serving.unpolled > 0:
        serving.unpolled = 0
        serving.demands += 1
        nics.endpoints[n].held = 0


@step
def note_source(nics, n, p, whose, head):
    """Record the registered source of the next packet of port ``p``, sent for port ``whose``."""
    port = nics.ports.table[n, p]
    if nics.ports.table[n, whose].rules & layout.RECORDS_SOURCES != 0:
        piece = nics.ports.current[n, p, port.segment]
        head.region = piece.key
        head.source = piece.address + port.segment_done


@step
def is_source_deregistered(nics, n, head, payload):
    """Whether the source of the packet of ``head`` has been deregistered since.

    What an atomic operation has found goes with its answer, wherever that was.
    """
    if head.region <= 0 or payload == 0 or head.atomic != 0:
        return False
    return not is_registered_range(nics, n, head.region, head.source, payload)


@step
def fail_without_source(nics, n, p, head):
    """Break the connection of port ``p``: its packet of ``head`` has lost its source.

    That is an error of who asked for the memory: here, or at the other end.
    """
    ports = nics.ports
    if head.kind == layout.REPLY:
        break_connection(nics, n, p, layout.BROKEN, FETCH_REFUSED, layout.REMOTE_PROTECTION)
        return
    pending = ports.pending[n, p, head.slot]
    if pending.busy == 1 and pending.number == head.cookie:
        pending.status = layout.PROTECTION
    break_connection(
        nics, n, p, layout.BROKEN, POSTED_BADLY, local_error_verdict(ports.table[n, p])
    )


@step
def may_send_to(nics, n, d):
    """Whether node ``n`` may number another packet to ``d`` now."""
    ports = nics.ports
    stream = streams.stream_to(ports, n, d)
    if not streams.is_reliable(ports, stream):
        return True
    if stream.dead == 1:
        return True  # to fail at once
    if ports.nodes[n].searching == d:
        return False  # no packet would reach it
    if stream.retransmitting == 1 or stream.rnr_waiting == 1:
        return False
    return transport.window_open(stream, ports.rules[0].window)


@step
def time_out_of(ports, stream):
    """Retransmission time-out (ps) of ``stream``."""
    return stream.time_out if stream.time_out > 0 else ports.rules[0].time_out


@step
def set_deadline(nics, n, when):
    """Have the driver fire the timers of ``n`` at ``when`` at the latest."""
    serving = nics.ports.nodes[n]
    serving.deadline = min(serving.deadline, when)


@step
def set_stream_deadline(nics, n, d, when):
    """Have the timers of the stream of ``n`` to ``d`` fire at ``when`` at the latest."""
    streams.mark(nics.ports, nics.ports.timed, n, d)
    set_deadline(nics, n, when)


@step
def clear(packet, head):
    """Reset packet and header to their defaults."""
    packet.payload = 0
    packet.address = 0
    packet.tag = -1
    head.sequence = -1
    head.epoch = 0
    head.from_port = 0
    head.cookie = 0
    head.slot = 0
    head.name = -1
    head.from_name = -1
    head.offset = 0
    head.length = 0
    head.total = 0
    head.message = 0
    head.last = 0
    head.further = 0
    head.unasked = 0
    head.options = 0
    head.into = 0
    head.route = 0
    head.back = 0
    head.copied = 0
    head.tells = 0
    head.key = -1
    head.frame = 0
    head.space = layout.NOBODY
    head.lone = 0
    head.verdict = 0
    head.rnr_delay = 0
    head.atomic = 0
    head.datagram = 0
    head.region = 0


@step
def push(nics, n, packet, head, inline, why):
    """Append a packet to the send ring of ``n``, which has a free entry.

    ``why`` it is made: as ``traffic`` names it.

    Its page is held until it has left: by then the packet may have been acknowledged, if it goes
    a second time.
    """
    hold_packet_page(nics, n, head)
    endpoint = nics.endpoints[n]
    ports = nics.ports
    place = place_in(endpoint.written, endpoint.send_ring)
    nics.sends[n, place] = packet
    ports.send_heads[n, place] = head
    queued = nics.sends[n, place]
    queued.number = endpoint.next_number
    queued.sender = n
    queued.broken = 0
    queued.buffer = -1
    endpoint.next_number += 1
    count_made(nics, n, queued, head, why)
    copy_bytes(nics.store.send_ring[n, place], 0, inline, 0, layout.INLINE_BYTES)
    endpoint.written += 1
    if ports.rules[0].serves == 0:
        defer_poll_demand(nics, n)
    if streams.is_reliable(ports, streams.stream_to(ports, n, head.own)):
        _piggyback_acknowledgement(nics, n, head.own, ports.send_heads[n, place])


@step
def _piggyback_acknowledgement(nics, n, d, head):
    stream = streams.stream_to(nics.ports, n, d)
    head.acknowledged = transport.take_ack(stream)
    head.rejects = stream.rejects
    head.route = stream.route
    head.back = stream.back
    head.rnr_delay = stream.rnr_delay
    stream.rnr_delay = 0
    stream.ack_at = NEVER
    _clear_ack_request(nics, n, stream)


@step
def _clear_ack_request(nics, n, stream):
    """Clear the request for an immediate acknowledgement: one has been sent."""
    if stream.urgent == 1:
        stream.urgent = 0
        nics.ports.nodes[n].acks -= 1


@step
def schedule_acknowledgement(nics, d, s, now):
    """Schedule a due acknowledgement to ``s``: now, or after the delay of acknowledgements."""
    ports = nics.ports
    stream = streams.stream_to(ports, d, s)
    if not transport.ack_is_due(stream) or stream.urgent == 1:
        return
    if ports.rules[0].ack_delay == 0:
        request_acknowledgement(nics, d, s)
        return
    when = now + ports.rules[0].ack_delay
    if when < stream.ack_at:
        stream.ack_at = when
        set_stream_deadline(nics, d, s, when)


@step
def request_acknowledgement(nics, n, d):
    """Request an immediate acknowledgement to ``d``, unless one is pending."""
    stream = streams.stream_to(nics.ports, n, d)
    if stream.urgent == 0:
        stream.urgent = 1
        nics.ports.nodes[n].acks += 1
        streams.mark(nics.ports, nics.ports.due_marks, n, d)


@routine
def send_numbered(nics, n, d, packet, head, inline):
    """Number the packet to ``d``, keep a copy until it is acknowledged, and send it."""
    stream = streams.open_stream(nics, n, d)
    _address(nics, n, d, packet, head)
    head.sequence = transport.number_next(stream)
    if (head.sequence + 1) % nics.ports.rules[0].ack_every == 0:
        head.unasked = 0
    streams.keep_unacknowledged(nics, stream, packet, head, inline)
    hold(nics, n, head.key)
    transport.note_sent(stream, head.sequence)
    push(nics, n, packet, head, inline, FIRST)


@step
def send_once(nics, n, d, packet, head, inline):
    """Send the packet to ``d`` over an unreliable transport: numbered, but no copy is kept."""
    head.sequence = transport.number_unreliable(streams.open_stream(nics, n, d))
    _address(nics, n, d, packet, head)
    push(nics, n, packet, head, inline, FIRST)


@step
def _address(nics, n, d, packet, head):
    """Address the packet to peer ``d`` by their stream."""
    packet.destination = streams.node_of(nics.ports, n, d)
    head.own = d
    head.peer = streams.remote_stream_of(nics.ports, n, d)


@step
def start_retransmit_timer(nics, n, head, d, now):
    """Start the retransmission timer: the last byte of a numbered packet has left."""
    ports = nics.ports
    if head.sequence < 0:
        return
    stream = streams.stream_to(ports, n, d)
    # What leaves while the sender waits for a receive, as its peer has asked, changes nothing.
    if transport.is_outstanding(stream) and stream.rnr_waiting == 0:
        stream.retransmit_at = now + time_out_of(ports, stream)
        set_stream_deadline(nics, n, d, stream.retransmit_at)


@distant
def retransmit_next(nics, n, d):
    """Retransmit the next packet of the window to ``d``."""
    pools = nics.ports.pools
    stream = streams.stream_to(nics.ports, n, d)
    sequence = transport.next_to_send(stream)
    if sequence != transport.NONE:
        entry = streams.entry_of(nics.ports, stream, sequence)
        if is_source_deregistered(nics, n, pools.heads[entry], pools.packets[entry].payload):
            fail_without_source(nics, n, np.int64(stream.port), pools.heads[entry])
            return
        push(nics, n, pools.packets[entry], pools.heads[entry], pools.inline[entry], AGAIN)
        transport.note_sent(stream, sequence)
        sequence = transport.next_to_send(stream)
    if sequence == transport.NONE:
        stop_retransmitting(nics, n, d)


@step
def stop_retransmitting(nics, n, d):
    """End the retransmission to ``d``: every outstanding packet has been sent again."""
    stream = streams.stream_to(nics.ports, n, d)
    if stream.retransmitting == 1:
        stream.retransmitting = 0
        nics.ports.nodes[n].retransmits -= 1
    nics.ports.nodes[n].attention = 1


@distant
def send_bare_acknowledgement(nics, n, d):
    """Send ``d`` an acknowledgement in a packet of its own, with the verdict if there is one."""
    ports = nics.ports
    stream = streams.stream_to(ports, n, d)
    packet = ports.blank[0]
    head = ports.blank_head[0]
    clear(packet, head)
    _address(nics, n, d, packet, head)
    head.kind = layout.ACKNOWLEDGEMENT
    head.verdict = stream.verdict
    head.last = stream.heard
    push(nics, n, packet, head, ports.blank_bytes, BARE)
    _clear_ack_request(nics, n, stream)


@routine
def acknowledge(nics, n, d, head, now):
    """Process the acknowledgement in a packet from ``d``; complete what it acknowledges."""
    ports = nics.ports
    stream = streams.stream_to(ports, n, d)
    if stream.tries == 0:  # of a queue pair only what it acknowledges counts
        stream.retries = 0  # a peer that is heard of is not dead, whatever it has no room for
    newly = transport.take_acknowledgement(stream, head.acknowledged)
    if newly == 0:
        return
    for back in range(newly - 1, -1, -1):
        bit = (head.rejects >> np.uint64(back)) & np.uint64(1)
        entry = streams.take_oldest(ports, stream)
        _on_acknowledged(nics, n, stream, ports.pools.heads[entry], bit)
        streams.free_entry(ports, entry)
    stream.tried = 0
    stream.rests = 0
    stream.rnr_waiting = 0
    stream.retransmit_at = NEVER
    if transport.is_outstanding(stream) or stream.fetching > 0:
        stream.retransmit_at = now + time_out_of(ports, stream)
        set_stream_deadline(nics, n, d, stream.retransmit_at)
    if stream.retransmitting == 1 and transport.next_to_send(stream) == transport.NONE:
        stop_retransmitting(nics, n, d)
    ports.nodes[n].attention = 1
    if stream.pending_verdict != 0 and stream.answers == 0:
        pending_verdict = stream.pending_verdict
        stream.pending_verdict = 0
        break_connection(
            nics, n, np.int64(stream.port), layout.BROKEN, stream.pending_error, pending_verdict
        )


@step
def _on_acknowledged(nics, n, stream, head, is_rejected):
    """Release an acknowledged packet of ``n``; the last one completes its descriptor."""
    release_packet_page(nics, n, head)
    if head.kind in (layout.REPLY, layout.PROBE, layout.CUT):
        stream.answers -= head.kind == layout.REPLY and head.last == 1 and stream.answers > 0
        return
    if head.kind == layout.FETCH:
        if is_rejected == 1:
            stream.fetching -= 1
            nics.ports.fetches[n, head.from_port, head.slot].peer = layout.NOBODY
            report_sent(nics, n, head.from_port, head.slot, layout.REJECTED)
        return
    pending = nics.ports.pending[n, head.from_port, head.slot]
    if pending.number != head.cookie:
        return  # its descriptor was cut short, and its place is another's
    if is_rejected == 1:
        pending.status = layout.REJECTED  # of one packet, and so of the whole
    if head.last == 1:
        report_sent(nics, n, head.from_port, head.slot, pending.status)


@step
def change_route(nics, n, d, route, there, back):
    """Change the route to ``there``, and that of the answers to ``back`` (UTLB 4.1).

    ``route``: how often the way has been changed then, by either end.
    """
    stream = streams.stream_to(nics.ports, n, d)
    stream.route = route
    stream.back = back
    set_route(nics, n, streams.node_of(nics.ports, n, d), there)
    nics.ports.nodes[n].remaps += 1


@routine
def adopt_peer_route(nics, n, d, head):
    """Adopt the route in a packet from ``d`` if it is newer than ours."""
    stream = streams.stream_to(nics.ports, n, d)
    if head.route > stream.route:
        change_route(nics, n, d, head.route, head.back, np.int64(0))
        stream.tried = 0
        stream.retries = 0


@step
def abort_message(nics, n, tag, message):
    """Abort a message of which a part was sent by ``tag``; its receiver is to be told.

    Otherwise its buffers would stay taken until another message comes by the tag.
    """
    channel = nics.ports.channels[n, tag]
    nics.ports.nodes[n].cuts += channel.cut == 0
    channel.cut = message


@step
def send_message_abort(nics, n, tag):
    """Send the peer of ``tag`` an abort for its unfinished message."""
    ports = nics.ports
    channel = ports.channels[n, tag]
    if channel.cut == 0 or not may_send_to(nics, n, streams.peer_of(channel)):
        return
    packet = ports.blank[0]
    head = ports.blank_head[0]
    clear(packet, head)
    d = streams.peer_of(channel)
    head.kind = layout.CUT
    head.name = channel.tag
    head.from_name = tag
    head.message = channel.cut
    channel.cut = 0
    ports.nodes[n].cuts -= 1
    if streams.stream_to(ports, n, d).dead == 1:
        return
    if streams.is_reliable(ports, streams.stream_to(ports, n, d)):
        send_numbered(nics, n, d, packet, head, ports.blank_bytes)
    else:
        send_once(nics, n, d, packet, head, ports.blank_bytes)


@step
def on_rnr_nak(nics, n, d, head, now):
    """Handle an RNR NAK of peer ``d``: wait as it says, or give up after too many."""
    ports = nics.ports
    stream = streams.stream_to(ports, n, d)
    if stream.verdict != 0 or not transport.is_outstanding(stream):
        return
    stream.retries = 0
    stream.rests += 1
    if 0 <= stream.max_rnr_retries < stream.rests:
        _fail_rnr_exceeded(nics, n, stream)
        return
    ports.tallies[n, RESTS] += 1
    stop_retransmitting(nics, n, d)
    stream.rnr_waiting = 1
    stream.retransmit_at = now + head.rnr_delay
    set_stream_deadline(nics, n, d, stream.retransmit_at)


@step
def _fail_rnr_exceeded(nics, n, stream):
    """Fail the oldest unacknowledged descriptor: its RNR retries are exceeded."""
    ports = nics.ports
    p = stream.port
    if stream.oldest_kept != streams.NO_ENTRY:
        oldest = ports.pools.heads[stream.oldest_kept]
        pending = ports.pending[n, oldest.from_port, oldest.slot]
        if oldest.from_port == p and pending.busy == 1 and pending.number == oldest.cookie:
            pending.status = layout.NO_RECEIVE
    break_connection(
        nics, n, p, layout.BROKEN, CONNECTION_LOST, local_error_verdict(ports.table[n, p])
    )
