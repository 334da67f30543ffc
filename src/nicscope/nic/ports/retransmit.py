"""What is due between a node and its peers: acknowledgements, time-outs, peers that are dead."""

from __future__ import annotations

import numpy as np

from nicscope.clock import NEVER
from nicscope.kernel.decorators import distant, step
from nicscope.nic.ports import calls, layout, streams, window
from nicscope.nic.ports.connection import resend_verdict, void_packets
from nicscope.nic.ports.lookup import cancel_reservation, peer_timeout, release_packet_page
from nicscope.nic.ports.receive import undo_placements_from
from nicscope.nic.ports.traffic import TIME_OUTS
from nicscope.nic.ports.transmit import NO_SOURCE
from nicscope.nic.transport import (
    DEAD,
    is_outstanding,
    revive,
    time_out,
)


@distant
def fire_timers(nics, n, now):
    """Fire the due timers of ``n``: acknowledge, retransmit, and give up dead peers."""
    ports = nics.ports
    serving = ports.nodes[n]
    if now < serving.deadline:
        return
    serving.deadline = NEVER
    end = serving.last_marked + 1
    d = streams.next_marked(ports.timed, n, 0, end)
    while d < end:
        first = _fire_stream_timers(nics, n, d, now)
        serving.deadline = min(serving.deadline, first)
        if first == NEVER:
            streams.unmark(ports.timed, n, d)
        d = streams.next_marked(ports.timed, n, d + 1, end)
    serving.deadline = min(serving.deadline, serving.scan_at)
    if serving.reserved_for != layout.NOBODY:
        if serving.reserved_until <= now:
            cancel_reservation(nics, n)
        else:
            serving.deadline = min(serving.deadline, serving.reserved_until)
    if serving.searching != layout.NOBODY:
        _check_route_search(nics, n, now)
    if serving.use_blocked > 0:
        _expire_entry_waits(nics, n, now)


@step
def _fire_stream_timers(nics, n, d, now):
    """Fire the due timers of the stream to ``d``; when the next one is due, or NEVER."""
    stream = streams.stream_to(nics.ports, n, d)
    if stream.ack_at <= now:
        stream.ack_at = NEVER
        window.request_acknowledgement(nics, n, d)
    if stream.retransmit_at <= now:
        _on_retransmit_timeout(nics, n, d, now)
    if stream.message_due_at <= now:
        _on_message_timeout(nics, n, d, now)
    return min(stream.ack_at, min(stream.retransmit_at, stream.message_due_at))


@step
def _on_message_timeout(nics, n, d, now):
    """Probe ``d`` if a message of it is overdue and nothing has been heard of it.

    Over an unreliable transport nobody would answer, and the message is given up.
    """
    ports = nics.ports
    stream = streams.stream_to(ports, n, d)
    stream.message_due_at = NEVER
    if stream.dead == 1 or not _has_partial_message(nics, n, d):
        return
    if stream.heard_at + peer_timeout(nics) > now:
        stream.message_due_at = stream.heard_at + peer_timeout(nics)
    elif not streams.is_reliable(ports, stream):
        _abandon_messages(nics, n, d)
    else:
        stream.message_due_at = now + peer_timeout(nics)
        if not is_outstanding(stream):
            _probe(nics, n, d, now)


@step
def _has_partial_message(nics, n, d):
    """Whether a message from node ``d`` has arrived in part."""
    for tag in range(nics.ports.channels.shape[1]):
        channel = nics.ports.channels[n, tag]
        if channel.port != layout.NOBODY and streams.peer_of(channel) == d and channel.placed >= 0:
            return True
    return False


@step
def _abandon_messages(nics, n, d):
    """Abandon every message that is arriving from node ``d``."""
    for tag in range(nics.ports.channels.shape[1]):
        channel = nics.ports.channels[n, tag]
        if channel.port != layout.NOBODY and streams.peer_of(channel) == d:
            calls.abandon_message(nics, n, tag)


@step
def _begin_search(nics, n, d, now):
    """Search for a route to ``d``, whose retries are exceeded, or wait for another search.

    A NIC looks for one peer at a time.
    """
    ports = nics.ports
    stream = streams.stream_to(ports, n, d)
    revive(stream)
    if ports.nodes[n].searching != layout.NOBODY:
        stream.retries = ports.rules[0].most_retries
        stream.retransmit_at = now + ports.rules[0].time_out
        return
    window.stop_retransmitting(nics, n, d)
    stream.tried = 1
    ports.nodes[n].searching = d
    calls.search_route(nics, n, now)


@step
def _check_route_search(nics, n, now):
    """Take the new route when the search has ended; without one the peer is dead."""
    serving = nics.ports.nodes[n]
    if serving.search_until > now:
        serving.deadline = min(serving.deadline, serving.search_until)
        return
    d = np.int64(serving.searching)
    serving.searching = layout.NOBODY
    serving.attention = 1
    stream = streams.stream_to(nics.ports, n, d)
    if stream.dead == 1 or stream.verdict != 0:
        return  # ended meanwhile
    if serving.search_there != 0:
        there, back = np.int64(serving.search_there), np.int64(serving.search_back)
        window.change_route(nics, n, d, stream.route + 1, there, back)
    elif stream.tried == 1:
        stream.dead = 1
        _declare_peer_dead(nics, n, d)
        return
    if is_outstanding(stream):
        _retransmit_window(nics, n, d, now)
    elif stream.fetching > 0:
        stream.retransmit_at = now + nics.ports.rules[0].time_out
    window.set_stream_deadline(nics, n, d, stream.retransmit_at)


@step
def _expire_entry_waits(nics, n, now):
    """Fail requests whose wait for an entry has timed out."""
    ports = nics.ports
    for p in range(ports.table.shape[1]):
        port = ports.table[n, p]
        if port.blocked != layout.AWAITS_USE:
            continue
        if port.until <= now:
            port.blocked = layout.FREE_TO_GO
            calls.end_descriptor(nics, n, p, layout.NO_ROOM)
            ports.nodes[n].attention = 1
        else:
            ports.nodes[n].deadline = min(ports.nodes[n].deadline, port.until)


@step
def _on_retransmit_timeout(nics, n, d, now):
    ports = nics.ports
    stream = streams.stream_to(ports, n, d)
    if stream.verdict != 0:
        resend_verdict(nics, n, d, now)
        return
    stream.retransmit_at = NEVER
    if not is_outstanding(stream):
        if stream.fetching > 0:
            ports.tallies[n, TIME_OUTS] += 1
            _probe(nics, n, d, now)
        return
    if ports.nodes[n].searching == d:
        return  # all of it goes again when a route has been found
    rested = stream.rnr_waiting
    if rested == 1:  # as the peer has asked for: that is no retry
        stream.rnr_waiting = 0
        stream.retries -= 1
    most = stream.tries - 1 if stream.tries > 0 else ports.rules[0].most_retries
    if time_out(stream, most) == DEAD:
        if ports.rules[0].maps == 1 and streams.node_of(ports, n, d) != n:
            _begin_search(nics, n, d, now)
        else:
            _declare_peer_dead(nics, n, d)
        return
    ports.tallies[n, TIME_OUTS] += 1 - rested
    _retransmit_window(nics, n, d, now)


@step
def _retransmit_window(nics, n, d, now):
    """Retransmit the window to ``d``, from the oldest packet on."""
    ports = nics.ports
    stream = streams.stream_to(ports, n, d)
    stream.timed_out_at = now
    if stream.retransmitting == 0:
        stream.retransmitting = 1
        ports.nodes[n].retransmits += 1
        streams.mark(ports, ports.due_marks, n, d)
    stream.retransmit_at = now + window.time_out_of(ports, stream)


@step
def _probe(nics, n, d, now):
    """Probe a peer that owes an answer, if the send ring has room."""
    endpoint = nics.endpoints[n]
    ports = nics.ports
    stream = streams.stream_to(ports, n, d)
    stream.retransmit_at = now + window.time_out_of(ports, stream)
    places = endpoint.send_ring - (endpoint.written - endpoint.finished)
    if places == 0 or (places == 1 and (endpoint.send_ring > 1 or _may_send(nics, n))):
        return
    packet = ports.blank[0]
    head = ports.blank_head[0]
    window.clear(packet, head)
    head.kind = layout.PROBE
    window.send_numbered(nics, n, d, packet, head, ports.blank_bytes)


@step
def _may_send(nics, n):
    """Whether the processor's present task may need the last entry of the send ring."""
    serving = nics.ports.nodes[n]
    by_kernel = nics.ports.rules[0].serves == 0  # in a trap, which is the CPU's
    return by_kernel or serving.source != NO_SOURCE or serving.missing == 1


@step
def _declare_peer_dead(nics, n, d):
    """Mark peer ``d`` dead and complete its descriptors with an error."""
    ports = nics.ports
    stream = streams.stream_to(ports, n, d)
    if stream.port != layout.OWN_PORT:
        calls.on_peer_dead(nics, n, d)
        return
    window.stop_retransmitting(nics, n, d)
    void_packets(nics, n, d, nics.endpoints[n].sent)
    undo_placements_from(nics, n, d)
    if ports.nodes[n].reserved_for == d:
        cancel_reservation(nics, n)
    _abandon_messages(nics, n, d)
    while stream.oldest_kept != streams.NO_ENTRY:
        entry = streams.take_oldest(ports, stream)
        head = ports.pools.heads[entry]
        release_packet_page(nics, n, head)
        if head.last == 1 and head.kind != layout.REPLY and head.kind != layout.FETCH:
            calls.report_sent(nics, n, head.from_port, head.slot, layout.PEER_DEAD)
        streams.free_entry(ports, entry)
    stream.fetching = 0
    for p in range(ports.table.shape[1]):
        for slot in range(ports.rules[0].ring):
            fetch = ports.fetches[n, p, slot]
            if fetch.peer == d:
                fetch.peer = layout.NOBODY
                calls.report_sent(nics, n, p, slot, layout.PEER_DEAD)
    ports.nodes[n].attention = 1
