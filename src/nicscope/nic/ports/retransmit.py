"""What is due between a node and its peers: acknowledgements, time-outs, peers that are dead."""

from __future__ import annotations

import numpy as np

from nicscope.clock import NEVER
from nicscope.kernel.decorators import distant, step
from nicscope.nic.ports.calls import (
    end_request,
    give_up_message,
    lose_peer,
    report_sent,
    search_route,
)
from nicscope.nic.ports.connection import repeat_verdict, void_packets
from nicscope.nic.ports.layout import (
    AWAITS_USE,
    FETCH,
    FREE_TO_GO,
    NO_ROOM,
    NOBODY,
    OWN_PORT,
    PEER_DEAD,
    PROBE,
    REPLY,
)
from nicscope.nic.ports.lookup import let_go, patience, withdraw
from nicscope.nic.ports.receive import take_back
from nicscope.nic.ports.streams import (
    NO_ENTRY,
    give_entry_back,
    is_reliable,
    mark,
    next_marked,
    node_of,
    peer_of,
    stream_to,
    take_oldest,
    unmark,
)
from nicscope.nic.ports.traffic import TIME_OUTS
from nicscope.nic.ports.transmit import NO_SOURCE
from nicscope.nic.ports.window import (
    change_way,
    clear,
    send_numbered,
    set_stream_deadline,
    stop_resending,
    time_out_of,
    wish_acknowledgement,
)
from nicscope.nic.transport import (
    DEAD,
    is_outstanding,
    revive,
    time_out,
)


@distant
def mind_deadlines(nics, n, now):
    """Fire the due timers of ``n``: acknowledge, retransmit, and give up dead peers."""
    ports = nics.ports
    serving = ports.nodes[n]
    if now < serving.deadline:
        return
    serving.deadline = NEVER
    end = serving.last_marked + 1
    d = next_marked(ports.timed, n, 0, end)
    while d < end:
        first = _mind_stream(nics, n, d, now)
        serving.deadline = min(serving.deadline, first)
        if first == NEVER:
            unmark(ports.timed, n, d)
        d = next_marked(ports.timed, n, d + 1, end)
    serving.deadline = min(serving.deadline, serving.scan_at)
    if serving.promised_to != NOBODY:
        if serving.promised_until <= now:
            withdraw(nics, n)
        else:
            serving.deadline = min(serving.deadline, serving.promised_until)
    if serving.searching != NOBODY:
        _mind_search(nics, n, now)
    if serving.use_blocked > 0:
        _mind_patience(nics, n, now)


@step
def _mind_stream(nics, n, d, now):
    """Fire the due timers of the stream to ``d``; when the next one is due, or NEVER."""
    stream = stream_to(nics.ports, n, d)
    if stream.ack_at <= now:
        stream.ack_at = NEVER
        wish_acknowledgement(nics, n, d)
    if stream.resend_at <= now:
        _run_out(nics, n, d, now)
    if stream.rest_at <= now:
        _mind_silence(nics, n, d, now)
    return min(stream.ack_at, min(stream.resend_at, stream.rest_at))


@step
def _mind_silence(nics, n, d, now):
    """Probe ``d`` if a message of it is overdue and nothing has been heard of it.

    Over an unreliable transport nobody would answer, and the message is given up.
    """
    ports = nics.ports
    stream = stream_to(ports, n, d)
    stream.rest_at = NEVER
    if stream.dead == 1 or not _has_part(nics, n, d):
        return
    if stream.heard_at + patience(nics) > now:
        stream.rest_at = stream.heard_at + patience(nics)
    elif not is_reliable(ports, stream):
        _give_up_messages(nics, n, d)
    else:
        stream.rest_at = now + patience(nics)
        if not is_outstanding(stream):
            _probe(nics, n, d, now)


@step
def _has_part(nics, n, d):
    """Whether a message from node ``d`` has arrived in part."""
    for tag in range(nics.ports.channels.shape[1]):
        channel = nics.ports.channels[n, tag]
        if channel.port != NOBODY and peer_of(channel) == d and channel.placed >= 0:
            return True
    return False


@step
def _give_up_messages(nics, n, d):
    """Abandon every message that is arriving from node ``d``."""
    for tag in range(nics.ports.channels.shape[1]):
        channel = nics.ports.channels[n, tag]
        if channel.port != NOBODY and peer_of(channel) == d:
            give_up_message(nics, n, tag)


@step
def _begin_search(nics, n, d, now):
    """Search for a route to ``d``, whose retries are exceeded, or wait for another search.

    A NIC looks for one peer at a time.
    """
    ports = nics.ports
    stream = stream_to(ports, n, d)
    revive(stream)
    if ports.nodes[n].searching != NOBODY:
        stream.retries = ports.rules[0].most_retries
        stream.resend_at = now + ports.rules[0].time_out
        return
    stop_resending(nics, n, d)
    stream.tried = 1
    ports.nodes[n].searching = d
    search_route(nics, n, now)


@step
def _mind_search(nics, n, now):
    """Take the new route when the search has ended; without one the peer is dead."""
    serving = nics.ports.nodes[n]
    if serving.search_until > now:
        serving.deadline = min(serving.deadline, serving.search_until)
        return
    d = np.int64(serving.searching)
    serving.searching = NOBODY
    serving.attention = 1
    stream = stream_to(nics.ports, n, d)
    if stream.dead == 1 or stream.verdict != 0:
        return  # ended meanwhile
    if serving.search_there != 0:
        there, back = np.int64(serving.search_there), np.int64(serving.search_back)
        change_way(nics, n, d, stream.route + 1, there, back)
    elif stream.tried == 1:
        stream.dead = 1
        _bury(nics, n, d)
        return
    if is_outstanding(stream):
        _send_all_again(nics, n, d, now)
    elif stream.fetching > 0:
        stream.resend_at = now + nics.ports.rules[0].time_out
    set_stream_deadline(nics, n, d, stream.resend_at)


@step
def _mind_patience(nics, n, now):
    """Fail requests whose wait for an entry has timed out."""
    ports = nics.ports
    for p in range(ports.table.shape[1]):
        port = ports.table[n, p]
        if port.blocked != AWAITS_USE:
            continue
        if port.until <= now:
            port.blocked = FREE_TO_GO
            end_request(nics, n, p, NO_ROOM)
            ports.nodes[n].attention = 1
        else:
            ports.nodes[n].deadline = min(ports.nodes[n].deadline, port.until)


@step
def _run_out(nics, n, d, now):
    ports = nics.ports
    stream = stream_to(ports, n, d)
    if stream.verdict != 0:
        repeat_verdict(nics, n, d, now)
        return
    stream.resend_at = NEVER
    if not is_outstanding(stream):
        if stream.fetching > 0:
            ports.tallies[n, TIME_OUTS] += 1
            _probe(nics, n, d, now)
        return
    if ports.nodes[n].searching == d:
        return  # all of it goes again when a route has been found
    rested = stream.resting
    if rested == 1:  # as the peer has asked for: that is no retry
        stream.resting = 0
        stream.retries -= 1
    most = stream.tries - 1 if stream.tries > 0 else ports.rules[0].most_retries
    if time_out(stream, most) == DEAD:
        if ports.rules[0].maps == 1 and node_of(ports, n, d) != n:
            _begin_search(nics, n, d, now)
        else:
            _bury(nics, n, d)
        return
    ports.tallies[n, TIME_OUTS] += 1 - rested
    _send_all_again(nics, n, d, now)


@step
def _send_all_again(nics, n, d, now):
    """Retransmit the window to ``d``, from the oldest packet on."""
    ports = nics.ports
    stream = stream_to(ports, n, d)
    stream.ran_out_at = now
    if stream.resending == 0:
        stream.resending = 1
        ports.nodes[n].resends += 1
        mark(ports, ports.wishing, n, d)
    stream.resend_at = now + time_out_of(ports, stream)


@step
def _probe(nics, n, d, now):
    """Probe a peer that owes an answer, if the send ring has room."""
    endpoint = nics.endpoints[n]
    ports = nics.ports
    stream = stream_to(ports, n, d)
    stream.resend_at = now + time_out_of(ports, stream)
    places = endpoint.send_ring - (endpoint.written - endpoint.finished)
    if places == 0 or (places == 1 and (endpoint.send_ring > 1 or _may_send(nics, n))):
        return
    packet = ports.blank[0]
    head = ports.blank_head[0]
    clear(packet, head)
    head.kind = PROBE
    send_numbered(nics, n, d, packet, head, ports.blank_bytes)


@step
def _may_send(nics, n):
    """Whether the processor's present task may need the last entry of the send ring."""
    serving = nics.ports.nodes[n]
    by_kernel = nics.ports.rules[0].serves == 0  # in a trap, which is the CPU's
    return by_kernel or serving.source != NO_SOURCE or serving.missing == 1


@step
def _bury(nics, n, d):
    """Mark peer ``d`` dead and complete its descriptors with an error."""
    ports = nics.ports
    stream = stream_to(ports, n, d)
    if stream.port != OWN_PORT:
        lose_peer(nics, n, d)
        return
    stop_resending(nics, n, d)
    void_packets(nics, n, d, nics.endpoints[n].sent)
    take_back(nics, n, d)
    if ports.nodes[n].promised_to == d:
        withdraw(nics, n)
    _give_up_messages(nics, n, d)
    while stream.oldest_kept != NO_ENTRY:
        entry = take_oldest(ports, stream)
        head = ports.pools.heads[entry]
        let_go(nics, n, head)
        if head.last == 1 and head.kind != REPLY and head.kind != FETCH:
            report_sent(nics, n, head.from_port, head.slot, PEER_DEAD)
        give_entry_back(ports, entry)
    stream.fetching = 0
    for p in range(ports.table.shape[1]):
        for slot in range(ports.rules[0].ring):
            fetch = ports.fetches[n, p, slot]
            if fetch.peer == d:
                fetch.peer = NOBODY
                report_sent(nics, n, p, slot, PEER_DEAD)
    ports.nodes[n].attention = 1
