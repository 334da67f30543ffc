"""Remote memory of connected ports: named by key and address, and checked as whole messages.

A denied access is dropped or ends the connection, as its level says, when its packet is completed:
one before it may have to be retransmitted.
"""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import distant, routine, step
from nicscope.nic.ports import layout
from nicscope.nic.ports.arrivals import (
    CONSUMED,
    DROPPED,
    ENDED,
    REFUSED_FOR_GOOD,
    TAKEN,
    discard_payload,
    is_connected,
    last_arrival,
)
from nicscope.nic.ports.calls import (
    break_connection,
    fail_receive,
    report_sent,
    repost_receive,
    undo_placement,
)
from nicscope.nic.ports.descriptor import is_aligned
from nicscope.nic.ports.receive import scatter_payload
from nicscope.nic.ports.regions import (
    is_flush,
    lookup_region,
    may_flush,
    packets_in,
    permits,
    shift_of,
)
from nicscope.nic.ports.remote_memory import is_expected_answer, post_answer, translate_arrival
from nicscope.nic.ports.streams import is_reliable, open_stream, peer_of, stream_to
from nicscope.nic.ports.traffic import ACCESS_REFUSED, REFUSED
from nicscope.nic.ports.work_queues import (
    FETCH_REFUSED,
    POSTED_BADLY,
    REQUEST_INVALID,
    WRITE_REFUSED,
    local_error_verdict,
    post_async_error,
)

# At the end that asks.


@distant
def start_remote_read(nics, n, p):
    """Start a remote read of port ``p``: its answer is scattered over its segments.

    Of what it posts behind that, what is FENCED waits until it has ended.
    """
    ports = nics.ports
    port = ports.table[n, p]
    fetch = ports.fetches[n, p, port.slot]
    fetch.peer = peer_of(ports.channels[n, port.channel])
    fetch.length = port.total
    fetch.arrived = 0
    fetch.failure = layout.DONE
    fetch.cookie = port.cookie
    for i in range(port.segments):
        ports.work.fetched[n, p, port.slot, i] = ports.current[n, p, i]
    open_stream(nics, n, fetch.peer).fetching += 1
    port.reading += 1


@distant
def place_scattered_answer(nics, d):
    """Scatter the payload of a remote read's answer; whether it waits for a translation."""
    ports = nics.ports
    slot = last_arrival(nics, d)
    head = ports.arrival_heads[d, slot]
    packet = nics.arrivals[d, slot]
    if not is_expected_answer(nics, d, packet, head):
        discard_payload(packet, head, REFUSED_FOR_GOOD)
        return False
    p = np.int64(head.name)
    pieces = ports.work.fetched[d, p, head.slot]
    return scatter_payload(nics, d, slot, p, pieces, pieces.shape[0])


@distant
def finish_remote_read(nics, n, p, slot, status):
    """Complete a remote read or atomic of port ``p``; fenced requests behind it may start.

    That its own memory is not there any more is an error of the request.
    """
    ports = nics.ports
    ports.table[n, p].reading -= 1
    ports.nodes[n].attention = 1
    if status == layout.DONE:
        report_sent(nics, n, p, slot, status)
        return
    ports.pending[n, p, slot].status = (
        status if status != layout.NO_RIGHTS else np.int64(layout.PROTECTION)
    )
    break_connection(
        nics, n, p, layout.BROKEN, POSTED_BADLY, local_error_verdict(ports.table[n, p])
    )


# At the other end.


@step
def right_needed_by(head):
    """The access right that the peer's message needs."""
    if head.kind == layout.WRITE:
        return layout.MAY_WRITE
    if is_flush(head):
        return head.immediate & (layout.MAY_FLUSH | layout.MAY_PERSIST)
    return layout.MAY_FETCH if head.atomic == 0 else layout.MAY_ATOMIC


@step
def _may_access(nics, d, p, head, right, payload):
    """Whether the peer of port ``p`` has ``right`` to all that the message of ``head`` names.

    Its region is looked up for a packet with so much ``payload``, or for all of an answer.
    """
    if head.total == 0 and nics.ports.table[d, p].by_verbs == 1:
        return True
    begin = head.remote - head.offset
    if not permits(nics, d, p, head.remote_key, begin, head.total, right):
        return False
    packets = packets_in(nics, head.offset, payload, head.offset == 0)
    lookup_region(nics, d, head.remote_key, packets)
    return True


@distant
def place_by_key(nics, d):
    """Place the payload of a remote write by key; whether it waits for a translation."""
    slot = last_arrival(nics, d)
    head = nics.ports.arrival_heads[d, slot]
    packet = nics.arrivals[d, slot]
    if not is_connected(nics, d, packet, head):
        discard_payload(packet, head, REFUSED_FOR_GOOD)
        return False
    p = np.int64(nics.ports.channels[d, head.name].port)
    if not _may_access(nics, d, p, head, layout.MAY_WRITE, packet.payload):
        fail_receive(nics, d, slot, np.int64(layout.REMOTE_PROTECTION))
        return False
    if packet.payload == 0:
        return False
    space = np.int64(nics.ports.table[d, p].space)
    address = head.remote + shift_of(nics, d, head.remote_key)
    waits = translate_arrival(nics, d, packet, head, space, address)
    if not waits and head.status != TAKEN:
        head.status = TAKEN
        fail_receive(nics, d, slot, np.int64(layout.REMOTE_PROTECTION))
    return waits


@distant
def complete_remote_work(nics, d, slot):
    """Complete a packet of a remote write, or the request of a fetch; its status."""
    ports = nics.ports
    head = ports.arrival_heads[d, slot]
    packet = nics.arrivals[d, slot]
    if not is_connected(nics, d, packet, head):
        return np.int64(REFUSED_FOR_GOOD)
    p = np.int64(ports.channels[d, head.name].port)
    if head.atomic != 0 and not is_aligned(head.remote):
        return _break_after_answers(nics, d, slot, p, REQUEST_INVALID, layout.REMOTE_INVALID)
    right = right_needed_by(head)
    if is_flush(head) and not may_flush(nics, d, p, head):
        return deny_remote_access(nics, d, slot)
    if head.said != layout.DONE:
        return deny_remote_access(nics, d, slot)
    if packet.payload == 0 and not _may_access(nics, d, p, head, right, head.total):
        return deny_remote_access(nics, d, slot)
    if head.kind == layout.WRITE:
        return np.int64(TAKEN)
    space = np.int64(ports.table[d, p].space)
    address = head.remote + (shift_of(nics, d, head.remote_key) if head.total > 0 else 0)
    return np.int64(post_answer(nics, d, head, space, p, address))


@step
def _break_after_answers(nics, d, slot, p, told, verdict):
    """Break the connection of port ``p`` for the request in ``slot``; its status.

    A queue pair answers first what it was asked before.  Until that has arrived it takes no more.
    """
    head = nics.ports.arrival_heads[d, slot]
    stream = stream_to(nics.ports, d, head.peer)
    if stream.answers == 0:
        break_connection(nics, d, p, layout.BROKEN, told, verdict)
        return np.int64(ENDED)
    stream.pending_verdict = verdict
    stream.pending_error = told
    if head.receive >= 0:
        undo_placement(nics, d, slot)
    head.why = REFUSED
    return np.int64(DROPPED)


@routine
def deny_remote_access(nics, d, slot):
    """Refuse the remote access of the packet in ``slot``: the peer has no right to it."""
    ports = nics.ports
    head = ports.arrival_heads[d, slot]
    channel = ports.channels[d, head.name]
    p = np.int64(channel.port)
    code = WRITE_REFUSED if head.kind == layout.WRITE else FETCH_REFUSED
    if is_reliable(ports, stream_to(ports, d, head.peer)):
        verdict = layout.REMOTE_PROTECTION
        if (
            ports.table[d, p].by_verbs == 1
            and ports.table[d, p].rights & right_needed_by(head) == 0
        ):
            code, verdict = REQUEST_INVALID, layout.REMOTE_INVALID  # whatever the memory is
        else:
            ports.tallies[d, ACCESS_REFUSED] += 1
        return _break_after_answers(nics, d, slot, p, code, verdict)
    if channel.finishing != head.message:  # once for each message
        channel.finishing = head.message
        ports.tallies[d, ACCESS_REFUSED] += 1
        post_async_error(nics, d, p, code)
    if head.filled == 1:  # it had all of its receive; else the next message has that
        repost_receive(nics, d, slot)
    return np.int64(CONSUMED)
