"""Connections that end: at once at this end, and the peer is told.

What a port has posted ends with its connection, and its stream is dead: nothing more is numbered
or taken.  A *verdict* tells the other end, in acknowledgements that carry nothing else.  It is
told again until that end is known to have ended the connection too, and whatever still comes by
such a stream is answered by it.
"""

from __future__ import annotations

import numpy as np

from nicscope.clock import NEVER
from nicscope.kernel.decorators import distant, step
from nicscope.nic.delivery import place_in
from nicscope.nic.ports import layout, streams, window
from nicscope.nic.ports.calls import (
    abandon_message,
    abort_transmission,
    flush_receives,
    report_sent,
)
from nicscope.nic.ports.lookup import cancel_reservation, release_packet_page
from nicscope.nic.ports.receive import release_segments, undo_placements_from
from nicscope.nic.ports.traffic import ACKNOWLEDGED, VOID
from nicscope.nic.ports.transmit import release_send_page
from nicscope.nic.ports.work_queues import CONNECTION_LOST, local_error_verdict, post_async_error
from nicscope.nic.transport import end_link

NO_ASYNC_ERROR = -1  # in place of an error: the process asked for it


@distant
def break_connection(nics, n, p, state, told, verdict):
    """Break the connection of port ``p``, if it has one, and put the port into ``state``.

    ``told``: the asynchronous error of its process, or ``NO_ASYNC_ERROR``.  ``verdict``: the status
    with which the peer's oldest unacknowledged send completes.  A descriptor here completes with
    the status in its record, or else as flushed.
    """
    ports = nics.ports
    port = ports.table[n, p]
    port.state = state
    ports.nodes[n].cuts -= port.overrun
    port.overrun = 0
    if told != NO_ASYNC_ERROR:
        post_async_error(nics, n, p, told)
    if port.channel == layout.NOBODY:
        if port.takes == layout.WORK_QUEUE:
            flush_receives(nics, n, p)
        return
    channel = ports.channels[n, port.channel]
    if port.datagrams == 1:
        _end_datagrams(nics, n, p)
        return
    d = streams.peer_of(channel)
    fails_itself = port.rules & layout.FAILS_TO_ITSELF != 0 and streams.is_own_peer(ports, n, d)
    if fails_itself and verdict != layout.DONE:
        _fail_loopback(nics, n, p, d, verdict)
    _end_stream(nics, n, d, verdict)
    _abandon_arrivals(nics, n, p, d)
    _flush_sends(nics, n, p)
    if port.takes == layout.WORK_QUEUE:
        flush_receives(nics, n, p)
    ports.nodes[n].cuts -= channel.cut != 0
    channel.cut = 0
    channel.port = layout.NOBODY
    port.channel = layout.NOBODY
    ports.nodes[n].attention = 1
    if verdict != layout.DONE:
        window.request_acknowledgement(nics, n, d)


@step
def _fail_loopback(nics, n, p, d, verdict):
    """Fail a loopback send of port ``p``, after acknowledging what came before it.

    Nobody is there to hear the verdict later.
    """
    ports = nics.ports
    stream = streams.stream_to(ports, n, d)
    head = ports.blank_head[0]
    head.acknowledged = stream.confirmed
    head.rejects = stream.rejects
    window.acknowledge(nics, n, d, head, nics.tally[0].now)
    _set_oldest_status(ports, n, p, stream, verdict)


@step
def _set_oldest_status(ports, n, p, stream, status):
    """Set the status of the descriptor with the oldest unacknowledged packet of port ``p``.

    If all has arrived it is the oldest that waits for an answer.
    """
    if stream.oldest_kept == streams.NO_ENTRY and ports.table[n, p].reading > 0:
        _set_oldest_fetch_status(ports, n, p, status)
    elif stream.oldest_kept != streams.NO_ENTRY:
        oldest = ports.pools.heads[stream.oldest_kept]
        if oldest.from_port == p:
            _set_status(ports.pending[n, p, oldest.slot], oldest.cookie, status)


@step
def _set_oldest_fetch_status(ports, n, p, status):
    ring = ports.rules[0].ring
    for number in range(max(np.int64(0), ports.table[n, p].taken - ring), ports.table[n, p].taken):
        pending = ports.pending[n, p, place_in(number, ring)]
        if pending.busy == 1 and pending.number == number:
            _set_status(pending, number, status)
            return


@step
def _end_datagrams(nics, n, p):
    """Stop the datagrams of port ``p``; no peer is told."""
    ports = nics.ports
    endpoint = nics.endpoints[n]
    for i in range(endpoint.finished, endpoint.written):
        head = ports.send_heads[n, place_in(i, endpoint.send_ring)]
        if head.datagram == 1 and head.from_port == p:
            head.kind |= layout.VOIDED
            if i == endpoint.sent:
                abort_transmission(nics, n, streams.node_of(ports, n, np.int64(head.own)))
    for i in range(endpoint.completed, endpoint.accepted):
        slot = place_in(i, endpoint.receive_ring)
        head = ports.arrival_heads[n, slot]
        if head.datagram == 1 and head.remote == p:
            nics.arrivals[n, slot].broken = 1
            head.remote = head.receive = head.filled = layout.NOBODY
    flush_receives(nics, n, p)
    _flush_sends(nics, n, p)
    ports.channels[n, ports.table[n, p].channel].port = layout.NOBODY
    ports.table[n, p].channel = layout.NOBODY
    ports.nodes[n].attention = 1


@step
def _end_stream(nics, n, d, verdict):
    """End the stream to ``d``: only the verdict is sent, until ``d`` is known to have it."""
    ports = nics.ports
    stream = streams.stream_to(ports, n, d)
    window.stop_retransmitting(nics, n, d)
    void_packets(nics, n, d, nics.endpoints[n].finished)
    while stream.oldest_kept != streams.NO_ENTRY:
        entry = streams.take_oldest(ports, stream)
        release_packet_page(nics, n, ports.pools.heads[entry])
        streams.free_entry(ports, entry)
    if ports.nodes[n].reserved_for == d:
        cancel_reservation(nics, n)
    end_link(stream)
    stream.fetching = 0
    stream.verdict = verdict
    stream.ack_at = NEVER
    stream.message_due_at = NEVER
    stream.retransmit_at = NEVER
    if stream.heard == 0 and verdict != layout.DONE:
        stream.retransmit_at = nics.tally[0].now + window.time_out_of(ports, stream)
        window.set_stream_deadline(nics, n, d, stream.retransmit_at)


@step
def void_packets(nics, n, d, first):
    """Void the packets still to be sent to ``d``: their memory belongs to its process again.

    Or a peer that lives and was not heard would take what the process writes there next.
    ``first``: packets before that number have been done with.
    """
    endpoint = nics.endpoints[n]
    for i in range(first, endpoint.written):
        head = nics.ports.send_heads[n, place_in(i, endpoint.send_ring)]
        if head.own == d:
            head.kind |= layout.VOIDED
            if i == endpoint.sent:
                abort_transmission(nics, n, streams.node_of(nics.ports, n, d))


@step
def _abandon_arrivals(nics, n, p, d):
    """Abandon what arrives from ``d``: no more is placed, and a partial message is dropped."""
    undo_placements_from(nics, n, d)
    endpoint = nics.endpoints[n]
    for i in range(endpoint.completed, endpoint.accepted):
        slot = place_in(i, endpoint.receive_ring)
        head = nics.ports.arrival_heads[n, slot]
        if head.peer == d and not head.kind & layout.VOIDED:
            nics.arrivals[n, slot].broken = 1
    port = nics.ports.table[n, p]
    abandon_message(nics, n, port.channel)


@step
def _flush_sends(nics, n, p):
    """Flush the descriptors that port ``p`` has posted, in order."""
    ports = nics.ports
    port = ports.table[n, p]
    ring = ports.rules[0].ring
    release_send_page(nics, n, p)
    streams.end_datagram(nics, n, p)
    port.busy = 0
    port.reading = 0
    port.taken = port.posted
    for number in range(max(np.int64(0), port.posted - ring), port.posted):
        slot = place_in(number, ring)
        pending = ports.pending[n, p, slot]
        if pending.busy == 1 and pending.number == number:
            report_sent(
                nics,
                n,
                p,
                slot,
                pending.status if pending.status != layout.DONE else layout.FLUSHED,
            )


@distant
def break_overrun_connection(nics, n, p):
    """Break the connection of port ``p``, whose completion queue was full, unless it has ended.

    Its process has been told when that was.
    """
    if nics.ports.table[n, p].overrun == 1:
        break_connection(
            nics, n, p, layout.BROKEN, NO_ASYNC_ERROR, local_error_verdict(nics.ports.table[n, p])
        )


@distant
def on_peer_dead(nics, n, d):
    """Break the connection to ``d``, which is dead: what was begun completes with an error.

    If it lives, it hears of the verdict when something of it comes.
    """
    ports = nics.ports
    stream = streams.stream_to(ports, n, d)
    p = np.int64(stream.port)
    ring = ports.rules[0].ring
    for number in range(max(np.int64(0), ports.table[n, p].taken - ring), ports.table[n, p].taken):
        _set_status(ports.pending[n, p, place_in(number, ring)], number, layout.PEER_DEAD)
    break_connection(
        nics, n, p, layout.BROKEN, CONNECTION_LOST, local_error_verdict(ports.table[n, p])
    )
    stream.retransmit_at = NEVER


@step
def _set_status(pending, number, status):
    """Set the status of descriptor ``number``, unless it has completed."""
    if pending.busy == 1 and pending.number == number:
        pending.status = status


@distant
def on_disconnect(nics, d, slot, now):
    """Handle a packet of a stream that has ended, here or at the peer; its outcome.

    Who has not heard of it is told, and again if the answer is lost.
    """
    ports = nics.ports
    head = ports.arrival_heads[d, slot]
    s = np.int64(head.peer)
    stream = streams.stream_to(ports, d, s)
    release_packet_page(nics, d, head)
    if head.runs > 0:
        release_segments(nics, d, slot)
    if head.verdict != 0:
        stream.heard = 1
    if stream.verdict == 0:
        _on_verdict(nics, d, s, head, now)
    elif stream.heard == 1:
        stream.retransmit_at = NEVER
    if head.verdict == 0 or head.last == 0:
        window.request_acknowledgement(nics, d, s)
    return np.int64(ACKNOWLEDGED) if head.sequence < 0 else np.int64(VOID)


@step
def _on_verdict(nics, d, s, head, now):
    """Break the connection that peer ``s`` has ended, after taking its last acknowledgement."""
    ports = nics.ports
    stream = streams.stream_to(ports, d, s)
    channel = ports.table[d, stream.port].channel
    if channel == layout.NOBODY or streams.peer_of(ports.channels[d, channel]) != s:
        stream.verdict = layout.FLUSHED  # its port has left this connection before, without a word
        return
    if streams.is_reliable(ports, stream):
        window.adopt_peer_route(nics, d, s, head)
        window.acknowledge(nics, d, s, head, now)
    p = np.int64(stream.port)
    _set_oldest_status(ports, d, p, stream, head.verdict)
    break_connection(nics, d, p, layout.BROKEN, CONNECTION_LOST, layout.FLUSHED)


@step
def resend_verdict(nics, n, d, now):
    """Send the verdict to ``d`` again, unless the retries are exceeded."""
    ports = nics.ports
    stream = streams.stream_to(ports, n, d)
    stream.retransmit_at = NEVER
    if stream.heard == 1 or stream.retries == ports.rules[0].most_retries:
        return
    stream.retries += 1
    stream.retransmit_at = now + window.time_out_of(ports, stream)
    window.request_acknowledgement(nics, n, d)
