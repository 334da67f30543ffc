"""Connections of ports that have one peer end: here at once, and the other end hears of it.

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
from nicscope.nic.ports.calls import (
    break_off,
    flush_receives,
    give_up_message,
    report_sent,
)
from nicscope.nic.ports.layout import (
    BARRED,
    BROKEN,
    DONE,
    FLUSHED,
    NOBODY,
    ONE,
    PEER_DEAD,
)
from nicscope.nic.ports.lookup import let_go, withdraw
from nicscope.nic.ports.receive import let_runs_go, take_back
from nicscope.nic.ports.streams import (
    NO_ENTRY,
    give_entry_back,
    is_own_peer,
    is_reliable,
    leave_way,
    node_of,
    peer_of,
    stream_to,
    take_oldest,
)
from nicscope.nic.ports.traffic import ACKNOWLEDGED, VOID
from nicscope.nic.ports.transmit import leave_page
from nicscope.nic.ports.window import (
    acknowledge,
    follow_way,
    set_stream_deadline,
    stop_resending,
    time_out_of,
    wish_acknowledgement,
)
from nicscope.nic.ports.work_queues import CONNECTION_LOST, note_trouble, own_verdict
from nicscope.nic.transport import end_link

NO_TROUBLE = -1  # in place of an error: the process wished it


@distant
def break_connection(nics, n, p, state, told, verdict):
    """The connection of port ``p`` ends, if it has one; the port is in ``state`` then.

    ``told``: the error that its process learns of, or ``NO_TROUBLE``.  ``verdict``: what the other
    end is told, how the oldest of its sends ends that was not acknowledged.  A descriptor here ends
    as its record says by now, or else as flushed.
    """
    ports = nics.ports
    port = ports.table[n, p]
    port.state = state
    ports.nodes[n].cuts -= port.overrun
    port.overrun = 0
    if told != NO_TROUBLE:
        note_trouble(nics, n, p, told)
    if port.channel == NOBODY:
        if port.takes == ONE:
            flush_receives(nics, n, p)
        return
    channel = ports.channels[n, port.channel]
    if port.datagrams == 1:
        _end_datagrams(nics, n, p)
        return
    d = peer_of(channel)
    if verdict != DONE and port.by_verbs == 1 and is_own_peer(ports, n, d):
        _judge_oneself(nics, n, p, d, verdict)
    _end_stream(nics, n, d, verdict)
    _give_up_arrivals(nics, n, p, d)
    _flush_sends(nics, n, p)
    if port.takes == ONE:
        flush_receives(nics, n, p)
    ports.nodes[n].cuts -= channel.cut != 0
    channel.cut = 0
    channel.port = NOBODY
    port.channel = NOBODY
    ports.nodes[n].attention = 1
    if verdict != DONE:
        wish_acknowledgement(nics, n, d)


@step
def _judge_oneself(nics, n, p, d, verdict):
    """Port ``p`` has refused what it has sent itself: what came before that counts, as for others.

    Nobody is there to hear the verdict later.
    """
    ports = nics.ports
    stream = stream_to(ports, n, d)
    head = ports.blank_head[0]
    head.acknowledged = stream.confirmed
    head.rejects = stream.rejects
    acknowledge(nics, n, d, head, nics.tally[0].now)
    _say_of_oldest(ports, n, p, stream, verdict)


@step
def _say_of_oldest(ports, n, p, stream, status):
    """The descriptor of port ``p`` whose packet is the oldest not acknowledged ends with that.

    If all has arrived it is the oldest that waits for an answer.
    """
    if stream.oldest_kept == NO_ENTRY and ports.table[n, p].reading > 0:
        _say_of_reading(ports, n, p, status)
    elif stream.oldest_kept != NO_ENTRY:
        oldest = ports.pools.heads[stream.oldest_kept]
        if oldest.from_port == p:
            _say(ports.pending[n, p, oldest.slot], oldest.cookie, status)


@step
def _say_of_reading(ports, n, p, status):
    ring = ports.rules[0].ring
    for number in range(max(np.int64(0), ports.table[n, p].taken - ring), ports.table[n, p].taken):
        pending = ports.pending[n, p, place_in(number, ring)]
        if pending.busy == 1 and pending.number == number:
            _say(pending, number, status)
            return


@step
def _end_datagrams(nics, n, p):
    """Port ``p`` sends and takes no more datagrams; nobody hears of it."""
    ports = nics.ports
    endpoint = nics.endpoints[n]
    for i in range(endpoint.finished, endpoint.written):
        head = ports.send_heads[n, place_in(i, endpoint.send_ring)]
        if head.datagram == 1 and head.from_port == p:
            head.kind |= BARRED
            if i == endpoint.sent:
                break_off(nics, n, node_of(ports, n, np.int64(head.own)))
    for i in range(endpoint.completed, endpoint.accepted):
        slot = place_in(i, endpoint.receive_ring)
        head = ports.arrival_heads[n, slot]
        if head.datagram == 1 and head.remote == p:
            nics.arrivals[n, slot].broken = 1
            head.remote = head.receive = head.filled = NOBODY
    flush_receives(nics, n, p)
    _flush_sends(nics, n, p)
    ports.channels[n, ports.table[n, p].channel].port = NOBODY
    ports.table[n, p].channel = NOBODY
    ports.nodes[n].attention = 1


@step
def _end_stream(nics, n, d, verdict):
    """Nothing more goes to ``d`` but the verdict, which is told now and until it is heard."""
    ports = nics.ports
    stream = stream_to(ports, n, d)
    stop_resending(nics, n, d)
    void_packets(nics, n, d, nics.endpoints[n].finished)
    while stream.oldest_kept != NO_ENTRY:
        entry = take_oldest(ports, stream)
        let_go(nics, n, ports.pools.heads[entry])
        give_entry_back(ports, entry)
    if ports.nodes[n].promised_to == d:
        withdraw(nics, n)
    end_link(stream)
    stream.fetching = 0
    stream.verdict = verdict
    stream.ack_at = NEVER
    stream.rest_at = NEVER
    stream.resend_at = NEVER
    if stream.heard == 0 and verdict != DONE:
        stream.resend_at = nics.tally[0].now + time_out_of(ports, stream)
        set_stream_deadline(nics, n, d, stream.resend_at)


@step
def void_packets(nics, n, d, first):
    """What is still to leave for ``d`` counts no more: its memory is its process's again.

    Or a peer that lives and was not heard would take what the process writes there next.
    ``first``: packets before that number have been done with.
    """
    endpoint = nics.endpoints[n]
    for i in range(first, endpoint.written):
        head = nics.ports.send_heads[n, place_in(i, endpoint.send_ring)]
        if head.own == d:
            head.kind |= BARRED
            if i == endpoint.sent:
                break_off(nics, n, node_of(nics.ports, n, d))


@step
def _give_up_arrivals(nics, n, p, d):
    """Of what ``d`` sent, nothing more is placed, and a message that is half there is none."""
    take_back(nics, n, d)
    endpoint = nics.endpoints[n]
    for i in range(endpoint.completed, endpoint.accepted):
        slot = place_in(i, endpoint.receive_ring)
        head = nics.ports.arrival_heads[n, slot]
        if head.peer == d and not head.kind & BARRED:
            nics.arrivals[n, slot].broken = 1
    port = nics.ports.table[n, p]
    give_up_message(nics, n, port.channel)


@step
def _flush_sends(nics, n, p):
    """What port ``p`` has posted ends, in the order in which it was."""
    ports = nics.ports
    port = ports.table[n, p]
    ring = ports.rules[0].ring
    leave_page(nics, n, p)
    leave_way(nics, n, p)
    port.busy = 0
    port.reading = 0
    port.taken = port.posted
    for number in range(max(np.int64(0), port.posted - ring), port.posted):
        slot = place_in(number, ring)
        pending = ports.pending[n, p, slot]
        if pending.busy == 1 and pending.number == number:
            report_sent(nics, n, p, slot, pending.status if pending.status != DONE else FLUSHED)


@distant
def end_overrun(nics, n, p):
    """Completions of connected port ``p`` have found no room: its connection ends, if it has not.

    Its process has been told when that was.
    """
    if nics.ports.table[n, p].overrun == 1:
        break_connection(nics, n, p, BROKEN, NO_TROUBLE, own_verdict(nics.ports.table[n, p]))


@distant
def lose_peer(nics, n, d):
    """The other end of a connection has not answered for long: it is dead, and what was begun ends.

    If it lives, it hears of the verdict when something of it comes.
    """
    ports = nics.ports
    stream = stream_to(ports, n, d)
    p = np.int64(stream.port)
    ring = ports.rules[0].ring
    for number in range(max(np.int64(0), ports.table[n, p].taken - ring), ports.table[n, p].taken):
        _say(ports.pending[n, p, place_in(number, ring)], number, PEER_DEAD)
    break_connection(nics, n, p, BROKEN, CONNECTION_LOST, own_verdict(ports.table[n, p]))
    stream.resend_at = NEVER


@step
def _say(pending, number, status):
    """The descriptor of that number ends with ``status``, if it has not ended."""
    if pending.busy == 1 and pending.number == number:
        pending.status = status


@distant
def hear_of_end(nics, d, slot, now):
    """A packet has come by a stream that has ended, here or there; what became of it.

    Who has not heard of it is told, and again if the answer is lost.
    """
    ports = nics.ports
    head = ports.arrival_heads[d, slot]
    s = np.int64(head.peer)
    stream = stream_to(ports, d, s)
    let_go(nics, d, head)
    if head.runs > 0:
        let_runs_go(nics, d, slot)
    if head.verdict != 0:
        stream.heard = 1
    if stream.verdict == 0:
        _take_verdict(nics, d, s, head, now)
    elif stream.heard == 1:
        stream.resend_at = NEVER
    if head.verdict == 0 or head.last == 0:
        wish_acknowledgement(nics, d, s)
    return np.int64(ACKNOWLEDGED) if head.sequence < 0 else np.int64(VOID)


@step
def _take_verdict(nics, d, s, head, now):
    """Peer ``s`` has ended the connection; what it has acknowledged before counts."""
    ports = nics.ports
    stream = stream_to(ports, d, s)
    channel = ports.table[d, stream.port].channel
    if channel == NOBODY or peer_of(ports.channels[d, channel]) != s:
        stream.verdict = FLUSHED  # its port has left this connection before, without a word
        return
    if is_reliable(ports, stream):
        follow_way(nics, d, s, head)
        acknowledge(nics, d, s, head, now)
    p = np.int64(stream.port)
    _say_of_oldest(ports, d, p, stream, head.verdict)
    break_connection(nics, d, p, BROKEN, CONNECTION_LOST, FLUSHED)


@step
def repeat_verdict(nics, n, d, now):
    """It is time to tell ``d`` again that the connection has ended, unless that was to no avail."""
    ports = nics.ports
    stream = stream_to(ports, n, d)
    stream.resend_at = NEVER
    if stream.heard == 1 or stream.retries == ports.rules[0].most_retries:
        return
    stream.retries += 1
    stream.resend_at = now + time_out_of(ports, stream)
    wish_acknowledgement(nics, n, d)
