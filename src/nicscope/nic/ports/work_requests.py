"""Work of connected ports: what is checked of a request, and the memory that its key names.

A request gathers registered memory for the one peer.  Remote memory is named by key and address,
and checked as whole messages: a denied access is dropped or ends the connection, as its level says,
when its packet is completed, for one before it may have to be retransmitted.
"""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import distant, routine, step
from nicscope.nic.ports import arrivals, calls, layout, regions, streams
from nicscope.nic.ports.descriptor import WORD_BYTES, is_aligned
from nicscope.nic.ports.receive import scatter_payload
from nicscope.nic.ports.remote_memory import is_expected_answer, post_answer, translate_arrival
from nicscope.nic.ports.traffic import ACCESS_REFUSED, REFUSED
from nicscope.nic.ports.window import abort_message
from nicscope.nic.ports.work_queues import (
    FETCH_REFUSED,
    POSTED_BADLY,
    REQUEST_INVALID,
    WRITE_REFUSED,
    fail_after_predecessors,
    has_open_predecessor,
    local_error_verdict,
    post_async_error,
)

LAST_ADDRESS = 2**63 - 1


@distant
def check_work_request(nics, n, p):
    """Check the copied work request of connected port ``p``: ``DONE``, or a status."""
    ports = nics.ports
    port = ports.table[n, p]
    port.total = 0
    if port.state != layout.CONNECTED or port.stopped != 0:
        return np.int64(layout.FLUSHED)
    if not regions.is_descriptor_readable(nics, n, p, port.slot):
        # At any level: what is posted cannot be known any more.
        ports.pending[n, p, port.slot].status = layout.PROTECTION
        calls.break_connection(nics, n, p, layout.BROKEN, POSTED_BADLY, layout.FLUSHED)
        return np.int64(layout.PROTECTION)
    if port.operation in (layout.BIND, layout.UNBIND):
        return _execute_locally(nics, n, p)
    if port.datagrams == 1 and not streams.has_datagram_stream(nics, n, port):
        return np.int64(layout.BAD_DESCRIPTOR)
    segments = ports.current[n, p]
    stream = _stream_of(nics, n, port)
    if not _is_valid(port, segments) or not _is_for_level(ports, port, stream):
        return np.int64(layout.BAD_DESCRIPTOR)
    for i in range(port.segments):
        segment = segments[i]
        if not regions.permits(
            nics, n, p, segment.key, segment.address, segment.length, regions.OWN
        ):
            return np.int64(layout.PROTECTION)
        _look_up_own(nics, n, port, segment)
        port.total += segment.length
    if port.total > port.longest or (port.atomic != 0 and port.total != WORD_BYTES):
        return np.int64(layout.TOO_LONG)
    if _is_denied(port):
        return np.int64(layout.REMOTE_PROTECTION)
    if port.operation != layout.SEND and port.offset > LAST_ADDRESS - port.total:
        return np.int64(layout.REMOTE_PROTECTION)  # it would lie around the end of all addresses
    channel = ports.channels[n, port.channel]
    if stream.dead == 1:
        return np.int64(layout.PEER_DEAD)
    channel.sent += 1
    port.message = streams.number_datagram(nics, n, port) if port.datagrams == 1 else channel.sent
    ports.pending[n, p, port.slot].length = port.total
    return np.int64(layout.DONE)


@step
def _look_up_own(nics, n, port, segment):
    """Look up the region that ``port`` sends from; a fetch looks its own up on arrival."""
    if port.operation != layout.FETCH:
        packets = regions.packets_in(nics, port.total, segment.length, True)
        regions.lookup_region(nics, n, segment.key, packets)


@step
def _is_for_level(ports, port, stream):
    """Whether the service level of ``stream`` allows the descriptor of ``port``."""
    if port.operation == layout.FETCH and not streams.is_reliable(ports, stream):
        return False  # nobody would learn that the question is lost
    return port.atomic == 0 or ports.rules[0].exchanges == 1


@step
def _is_denied(port):
    """Whether a fetch is denied by its own end, which has to permit it, too, where rules say so."""
    is_free = port.rules & layout.FETCHES_FREELY != 0
    if is_free or port.operation != layout.FETCH or port.atomic != 0:
        return False
    return port.rights & layout.MAY_FETCH == 0


@step
def _execute_locally(nics, n, p):
    """Execute the copied bind request of connected port ``p``, which needs no packet."""
    port = nics.ports.table[n, p]
    found = (
        regions.bind(nics, n, p)
        if port.operation == layout.BIND
        else regions.unbind(nics, n, p, port.name)
    )
    if found == layout.DONE:
        port.busy = 0
        nics.ports.nodes[n].attention = 1
        calls.report_sent(nics, n, p, np.int64(port.slot), np.int64(layout.DONE))
    return np.int64(found)


@step
def _is_valid(port, segments):
    """Whether operation and lengths of a copied descriptor are valid."""
    if (
        port.operation < layout.SEND
        or port.operation > layout.FETCH
        or port.options & layout.INLINE
    ):
        return False
    if port.segments < 0 or port.segments > segments.shape[0]:
        return False
    shortest = np.int64(1)
    for i in range(port.segments):
        shortest = min(shortest, segments[i].length)
    return shortest == 1


@distant
def end_work_request(nics, n, p, status):
    """End the current work request of connected port ``p`` with ``status``.

    A refusal ends a reliable connection: what was posted behind it must not arrive without it.
    """
    ports = nics.ports
    port = ports.table[n, p]
    slot = np.int64(port.slot)
    if status == layout.NO_RIGHTS:
        status = np.int64(layout.PROTECTION)  # the page has gone, though its region has not
    is_refused = status not in (layout.FLUSHED, layout.CLOSED, layout.PEER_DEAD)
    if is_refused and port.rules & layout.STOPS_AT_ERROR != 0:
        port.stopped = 1
    if port.datagrams == 1:
        calls.report_sent(
            nics, n, p, slot, status
        )  # of a message of which a part has left none is made
        return
    if is_refused and streams.is_reliable(ports, _stream_of(nics, n, port)):
        pending = ports.pending[n, p, slot]
        pending.status = status
        if port.rules & layout.FAILS_IN_ORDER != 0 and has_open_predecessor(ports, n, p, slot):
            fail_after_predecessors(nics, n, p, slot, status)
            return
        calls.break_connection(nics, n, p, layout.BROKEN, POSTED_BADLY, local_error_verdict(port))
        if pending.busy == 0:
            return  # it has been reported, in its turn
    elif (
        port.operation in (layout.SEND, layout.WRITE)
        and port.done > 0
        and status != layout.PEER_DEAD
    ):
        abort_message(nics, n, np.int64(port.channel), port.message)
    calls.report_sent(nics, n, p, slot, status)


@step
def _stream_of(nics, n, port):
    """The stream of the connection of ``port``, which has one."""
    if port.datagrams == 1:
        return streams.stream_to(nics.ports, n, port.offset)
    return streams.stream_to(nics.ports, n, streams.peer_of(nics.ports.channels[n, port.channel]))


# At the end that asks.


@distant
def start_remote_read(nics, n, p):
    """Start a remote read of port ``p``: its answer is scattered over its segments.

    Of what it posts behind that, what is FENCED waits until it has ended.
    """
    ports = nics.ports
    port = ports.table[n, p]
    fetch = ports.fetches[n, p, port.slot]
    fetch.peer = streams.peer_of(ports.channels[n, port.channel])
    fetch.length = port.total
    fetch.arrived = 0
    fetch.failure = layout.DONE
    fetch.cookie = port.cookie
    for i in range(port.segments):
        ports.work.fetched[n, p, port.slot, i] = ports.current[n, p, i]
    streams.open_stream(nics, n, fetch.peer).fetching += 1
    port.reading += 1


@distant
def place_scattered_answer(nics, d):
    """Scatter the payload of a remote read's answer; whether it waits for a translation."""
    ports = nics.ports
    slot = arrivals.last_arrival(nics, d)
    head = ports.arrival_heads[d, slot]
    packet = nics.arrivals[d, slot]
    if not is_expected_answer(nics, d, packet, head):
        arrivals.discard_payload(packet, head, arrivals.REFUSED_FOR_GOOD)
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
        calls.report_sent(nics, n, p, slot, status)
        return
    ports.pending[n, p, slot].status = (
        status if status != layout.NO_RIGHTS else np.int64(layout.PROTECTION)
    )
    calls.break_connection(
        nics, n, p, layout.BROKEN, POSTED_BADLY, local_error_verdict(ports.table[n, p])
    )


# At the other end.


@step
def right_needed_by(head):
    """The access right that the peer's message needs."""
    if head.kind == layout.WRITE:
        return layout.MAY_WRITE
    if regions.is_flush(head):
        return head.immediate & (layout.MAY_FLUSH | layout.MAY_PERSIST)
    return layout.MAY_FETCH if head.atomic == 0 else layout.MAY_ATOMIC


@step
def _may_access(nics, d, p, head, right, payload):
    """Whether the peer of port ``p`` has ``right`` to all that the message of ``head`` names.

    Its region is looked up for a packet with so much ``payload``, or for all of an answer.
    """
    if head.total == 0 and nics.ports.table[d, p].rules & layout.NAMES_NOTHING_EMPTY != 0:
        return True
    begin = head.remote - head.offset
    if not regions.permits(nics, d, p, head.remote_key, begin, head.total, right):
        return False
    packets = regions.packets_in(nics, head.offset, payload, head.offset == 0)
    regions.lookup_region(nics, d, head.remote_key, packets)
    return True


@distant
def place_by_key(nics, d):
    """Place the payload of a remote write by key; whether it waits for a translation."""
    slot = arrivals.last_arrival(nics, d)
    head = nics.ports.arrival_heads[d, slot]
    packet = nics.arrivals[d, slot]
    if not arrivals.is_connected(nics, d, packet, head):
        arrivals.discard_payload(packet, head, arrivals.REFUSED_FOR_GOOD)
        return False
    p = np.int64(nics.ports.channels[d, head.name].port)
    if not _may_access(nics, d, p, head, layout.MAY_WRITE, packet.payload):
        calls.fail_receive(nics, d, slot, np.int64(layout.REMOTE_PROTECTION))
        return False
    if packet.payload == 0:
        return False
    space = np.int64(nics.ports.table[d, p].space)
    address = head.remote + regions.shift_of(nics, d, head.remote_key)
    if head.further > 0:
        whole = nics.ports.work.redirected[d, slot]
        whole[0].address = address - head.offset
        whole[0].length = head.total
        return scatter_payload(nics, d, slot, p, whole, 1)
    waits = translate_arrival(nics, d, packet, head, space, address)
    if not waits and head.status != arrivals.TAKEN:
        head.status = arrivals.TAKEN
        calls.fail_receive(nics, d, slot, np.int64(layout.REMOTE_PROTECTION))
    return waits


@distant
def complete_remote_work(nics, d, slot):
    """Complete a packet of a remote write, or the request of a fetch; its status."""
    ports = nics.ports
    head = ports.arrival_heads[d, slot]
    packet = nics.arrivals[d, slot]
    if not arrivals.is_connected(nics, d, packet, head):
        return np.int64(arrivals.REFUSED_FOR_GOOD)
    p = np.int64(ports.channels[d, head.name].port)
    if head.atomic != 0 and not is_aligned(head.remote):
        return _break_after_answers(nics, d, slot, p, REQUEST_INVALID, layout.REMOTE_INVALID)
    right = right_needed_by(head)
    if regions.is_flush(head) and not regions.may_flush(nics, d, p, head):
        return deny_remote_access(nics, d, slot)
    if head.said != layout.DONE:
        return deny_remote_access(nics, d, slot)
    if packet.payload == 0 and not _may_access(nics, d, p, head, right, head.total):
        return deny_remote_access(nics, d, slot)
    if head.kind == layout.WRITE:
        return np.int64(arrivals.TAKEN)
    space = np.int64(ports.table[d, p].space)
    address = head.remote + (regions.shift_of(nics, d, head.remote_key) if head.total > 0 else 0)
    return np.int64(post_answer(nics, d, head, space, p, address))


@step
def _break_after_answers(nics, d, slot, p, told, verdict):
    """Break the connection of port ``p`` for the request in ``slot``; its status.

    A queue pair answers first what it was asked before.  Until that has arrived it takes no more.
    """
    head = nics.ports.arrival_heads[d, slot]
    stream = streams.stream_to(nics.ports, d, head.peer)
    if stream.answers == 0:
        calls.break_connection(nics, d, p, layout.BROKEN, told, verdict)
        return np.int64(arrivals.ENDED)
    stream.pending_verdict = verdict
    stream.pending_error = told
    if head.receive >= 0:
        calls.undo_placement(nics, d, slot)
    head.why = REFUSED
    return np.int64(arrivals.DROPPED)


@routine
def deny_remote_access(nics, d, slot):
    """Refuse the remote access of the packet in ``slot``: the peer has no right to it."""
    ports = nics.ports
    head = ports.arrival_heads[d, slot]
    channel = ports.channels[d, head.name]
    p = np.int64(channel.port)
    code = WRITE_REFUSED if head.kind == layout.WRITE else FETCH_REFUSED
    if streams.is_reliable(ports, streams.stream_to(ports, d, head.peer)):
        verdict = layout.REMOTE_PROTECTION
        if (
            ports.table[d, p].rules & layout.BOUNDS_PEERS_FIRST != 0
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
        calls.repost_receive(nics, d, slot)
    return np.int64(arrivals.CONSUMED)
