"""Receives of connected and shared queues: posted, matched with messages, reported, flushed."""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import distant, routine, step
from nicscope.nic.delivery import place_in
from nicscope.nic.ports import arrivals, calls, layout, streams, work_queues
from nicscope.nic.ports.receive import record_segment, scatter_payload
from nicscope.nic.ports.regions import unbind
from nicscope.nic.ports.traffic import INCOMPLETE, NO_BUFFER, REFUSED, tally_completion
from nicscope.nic.ports.window import request_acknowledgement
from nicscope.nic.transport import may_acknowledge


@step
def receive_queue_of(nics, n, p, head):
    """The port whose oldest receive the message of ``head`` for port ``p`` consumes.

    That is ``p`` unless only its shared queue has any, and ``p`` room for one more.
    """
    ports = nics.ports
    port = ports.table[n, p]
    if port.receives_taken != port.receives_posted or port.shares == layout.OWN_PORT:
        return np.int64(p)
    if port.receives_posted - port.read == min(ports.work.receives.shape[2], ports.rules[0].ring):
        return np.int64(p)
    q = np.int64(head.swap if port.shares == layout.NAMED_QUEUE else port.shares)
    if q <= layout.OWN_PORT or q >= ports.table.shape[1]:
        return np.int64(p)
    queue = ports.table[n, q]
    if (
        queue.shared == 0
        or queue.open == 0
        or queue.takes != layout.WORK_QUEUE
        or queue.space != port.space
    ):
        return np.int64(p)
    if port.shares == layout.NAMED_QUEUE and queue.group != port.group:
        return np.int64(p)
    return q if queue.receives_taken != queue.receives_posted else np.int64(p)


@routine
def take_shared_receive(nics, n, p, q):
    """Move the oldest receive of shared queue ``q`` to the end of port ``p``'s own.

    The process of the queue learns once if few are left.
    """
    ports = nics.ports
    queue = ports.table[n, q]
    port = ports.table[n, p]
    place = place_in(queue.receives_taken, ports.work.receives.shape[2])
    there = place_in(port.receives_posted, ports.work.receives.shape[2])
    drawn = ports.work.receives[n, p, there]
    ports.work.receives[n, p, there] = ports.work.receives[n, q, place]
    ports.work.receives[n, q, place].kept = 0
    for i in range(drawn.segments):
        ports.work.pieces[n, p, there, i] = ports.work.pieces[n, q, place, i]
    drawn.serial = port.receives_posted
    if port.shares == layout.NAMED_QUEUE:
        port.domain = queue.domain  # the memory is that of the queue
    named = port.shares == layout.NAMED_QUEUE and queue.receive_queue != layout.NOBODY
    drawn.queue = queue.receive_queue + 1 if named else 0
    port.receives_posted += 1
    port.reserved += 1
    # A shared queue reports nothing: what is drawn is as read.
    queue.receives_taken += 1
    queue.received += 1
    queue.read += 1
    if queue.receives_posted - queue.receives_taken < queue.limit:
        queue.limit = 0
        work_queues.post_async_error(nics, n, q, work_queues.RECEIVES_LOW)


NO_NUMBER = -1
# What came with a message, beside it (``report.buffers``).
HAS_WORD = 1
HAS_KEY = 2  # of a window, which stands for nothing any more
IS_SOLICITED = 4
IS_OF_V4 = 8


@step
def receive_place(nics, number):
    """Place of receive ``number`` in the receive queue."""
    return place_in(number, nics.ports.work.receives.shape[2])


@step
def report_receive(nics, n, p, number, operation, status, length, word, has_immediate):
    """Complete receive ``number``, the oldest of port ``p`` not completed.

    ``word``: the immediate data that came with the message, if ``has_immediate``.
    """
    ports = nics.ports
    receive = ports.work.receives[n, p, receive_place(nics, number)]
    unpin_receive(nics, n, p, number)
    channel = ports.table[n, p].channel
    peer = np.int64(ports.channels[n, channel].node if channel >= 0 else n)
    place = calls.report_received(nics, n, p, operation, word, peer, length, has_immediate, 0)
    report = ports.reports[n, p, layout.RECEIVED, place]
    report.cookie = receive.cookie
    report.status = status
    ports.told[n, status] += 1
    ports.port_told[n, p, status] += 1
    tally_completion(nics, n, p, layout.RECEIVED, status)
    if receive.queue != 0:
        work_queues.post_completion(nics, n, p, layout.RECEIVED, receive.queue - 1)
    if status != layout.DONE or has_immediate & IS_SOLICITED:
        q = receive.queue - 1 if receive.queue != 0 else ports.table[n, p].receive_queue
        work_queues.mark_solicited(nics, n, np.int64(q))


@routine
def unpin_receive(nics, n, p, number):
    """Unpin the pages that were kept for receive ``number``."""
    work = nics.ports.work
    place = receive_place(nics, number)
    if work.receives[n, p, place].kept == 0:
        return
    work.receives[n, p, place].kept = 0
    bits = nics.ports.rules[0].page_bits
    for i in range(work.receives[n, p, place].segments):
        piece = work.pieces[n, p, place, i]
        room = nics.ports.rules[0].space_bytes
        if not (0 <= piece.address < room and 1 <= piece.length <= room - piece.address):
            continue  # there is no such memory
        first = piece.address >> bits
        pages = ((piece.address + piece.length - 1) >> bits) - first + 1
        calls.keep_pages(nics, n, nics.ports.table[n, p].space, first, pages, 0)


@distant
def repost_receive(nics, n, slot):
    """The message whose last packet is in ``slot`` is not whole: its receive waits for another.

    Messages that came later may have taken receives.  It goes behind theirs, so that receives are
    reported in the order of their numbers still.
    """
    ports = nics.ports
    gone = ports.arrival_heads[n, slot]
    p = np.int64(streams.destination_port_of(ports, n, gone))
    port = ports.table[n, p]
    if gone.receive < port.received:
        return  # it has ended without a message
    renumber_receive(nics, n, p, np.int64(gone.receive), port.receives_taken - 1)
    port.receives_taken -= 1
    gone.receive = NO_NUMBER


@distant
def reject_receive(nics, n, p, status, is_lost):
    """Reject the newest receive of port ``p``: it completes at once, before all others.

    ``is_lost``: its descriptor could not even be read, which ends any connection.
    """
    port = nics.ports.table[n, p]
    first = np.int64(port.received)
    renumber_receive(nics, n, p, port.receives_posted - 1, first)
    port.receives_taken += 1
    report_receive(nics, n, p, first, layout.SEND, status, np.int64(0), np.int64(0), np.int64(0))
    if port.state != layout.CONNECTED or port.datagrams == 1:
        if is_lost:
            work_queues.post_async_error(nics, n, p, work_queues.POSTED_BADLY)
        return
    stream = streams.stream_to(nics.ports, n, streams.peer_of(nics.ports.channels[n, port.channel]))
    if is_lost or streams.is_reliable(nics.ports, stream):
        calls.break_connection(nics, n, p, layout.BROKEN, work_queues.POSTED_BADLY, layout.FLUSHED)


@routine
def renumber_receive(nics, n, p, begin, end):
    """Renumber the receive ``begin`` of port ``p`` as ``end``.

    Those between have the numbers beside theirs then, and so do the messages that fill them.
    """
    ports = nics.ports
    step = 1 if begin < end else -1
    for number in range(begin, end, step):
        _exchange(nics, n, p, number, number + step)
    for tag in range(ports.channels.shape[1]):
        channel = ports.channels[n, tag]
        if channel.port == p and channel.placed >= 0:
            channel.receive = _number_after(channel.receive, begin, end)
    endpoint = nics.endpoints[n]
    for i in range(endpoint.completed, endpoint.accepted):
        head = ports.arrival_heads[n, place_in(i, endpoint.receive_ring)]
        if head.receive >= 0 and streams.destination_port_of(ports, n, head) == p:
            head.receive = _number_after(head.receive, begin, end)


@step
def _number_after(number, begin, end):
    """New number of receive ``number`` after ``begin`` has become ``end``."""
    if number == begin:
        return np.int64(end)
    if begin < number <= end:
        return np.int64(number - 1)
    if end <= number < begin:
        return np.int64(number + 1)
    return np.int64(number)


@step
def _exchange(nics, n, p, number, other):
    work = nics.ports.work
    a, b = receive_place(nics, number), receive_place(nics, other)
    first, second = work.receives[n, p, a], work.receives[n, p, b]
    first.cookie, second.cookie = second.cookie, first.cookie
    first.segments, second.segments = second.segments, first.segments
    first.length, second.length = second.length, first.length
    first.status, second.status = second.status, first.status
    first.kept, second.kept = second.kept, first.kept
    first.queue, second.queue = second.queue, first.queue
    first.serial, second.serial = second.serial, first.serial
    for i in range(work.pieces.shape[3]):
        one, two = work.pieces[n, p, a, i], work.pieces[n, p, b, i]
        one.address, two.address = two.address, one.address
        one.length, two.length = two.length, one.length
        one.key, two.key = two.key, one.key


@distant
def flush_receives(nics, n, p):
    """Flush the posted receives of port ``p``, whose connection has ended."""
    port = nics.ports.table[n, p]
    for number in range(port.received, port.receives_posted):
        report_receive(
            nics, n, p, number, layout.SEND, layout.FLUSHED, np.int64(0), np.int64(0), np.int64(0)
        )
    port.receives_taken = port.receives_posted
    _abandon_partial_message(nics, n, p)


@distant
def discard_receives(nics, n, p):
    """Discard the posted receives of port ``p``, which closes, without reports."""
    port = nics.ports.table[n, p]
    for number in range(port.received, port.receives_posted):
        unpin_receive(nics, n, p, number)
    port.receives_posted = port.receives_taken = port.received
    port.reserved = port.received
    _abandon_partial_message(nics, n, p)


@step
def _abandon_partial_message(nics, n, p):
    """Forget the partial message of port ``p``."""
    for tag in range(nics.ports.channels.shape[1]):
        if nics.ports.channels[n, tag].port == p:
            nics.ports.channels[n, tag].placed = -1


@distant
def place_in_receive(nics, d):
    """Place the payload of the last packet in the receive of its message.

    Whether the processor waits for a translation.
    """
    slot = arrivals.last_arrival(nics, d)
    head = nics.ports.arrival_heads[d, slot]
    packet = nics.arrivals[d, slot]
    if not arrivals.is_connected(nics, d, packet, head):
        arrivals.discard_payload(packet, head, arrivals.REFUSED_FOR_GOOD)
        return False
    channel = nics.ports.channels[d, head.name]
    if head.offset == 0:
        _begin_message(nics, d, head)
    elif channel.placed != head.offset or channel.message != head.message:
        head.why = INCOMPLETE
        arrivals.discard_payload(packet, head, arrivals.REFUSED_FOR_GOOD)
        return False
    head.receive = channel.receive
    head.said = channel.said
    if head.said == layout.NO_RECEIVE:
        channel.placed = -1
        head.why = NO_BUFFER
        arrivals.discard_payload(packet, head, arrivals.CONSUMED)
        return False
    head.filled = head.last
    channel.placed = channel.placed + packet.payload if head.last == 0 else np.int64(-1)
    if head.said != layout.DONE:
        arrivals.discard_payload(packet, head, arrivals.CONSUMED)
        return False
    if head.kind == layout.WRITE:
        return calls.place_by_key(nics, d)
    head.runs = 0
    return _place_payload(nics, d, slot)


@step
def _begin_message(nics, d, head):
    """Begin a message: it consumes the oldest receive of its port."""
    ports = nics.ports
    channel = ports.channels[d, head.name]
    p = np.int64(streams.destination_port_of(ports, d, head))
    port = ports.table[d, p]
    if channel.placed >= 0:
        abandon_receive(nics, d, head.name)
    channel.port = p
    channel.message = head.message
    channel.placed = 0
    channel.receive = port.receives_taken
    q = receive_queue_of(nics, d, p, head)
    if q != p:
        take_shared_receive(nics, d, p, q)
    if port.receives_taken == port.receives_posted:
        channel.said = layout.NO_RECEIVE
        port.dropped += 1
        return
    receive = ports.work.receives[d, p, receive_place(nics, port.receives_taken)]
    channel.said = receive.status
    length = head.total + streams.grh_bytes_of(head)
    if receive.status == layout.DONE and head.kind == layout.SEND and length > receive.length:
        channel.said = layout.TOO_LONG
    port.receives_taken += 1


@routine
def _place_payload(nics, d, slot):
    """Place the payload in ``slot`` in its receive; whether it waits for a translation."""
    head = nics.ports.arrival_heads[d, slot]
    p = np.int64(streams.destination_port_of(nics.ports, d, head))
    place = receive_place(nics, head.receive)
    pieces = nics.ports.work.pieces[d, p, place]
    many = nics.ports.work.receives[d, p, place].segments
    return scatter_payload(nics, d, slot, p, pieces, many)


@distant
def continue_placement(nics, d, frame):
    """Continue placing the last packet, whose page is in ``frame``; whether it waits again."""
    slot = arrivals.last_arrival(nics, d)
    head = nics.ports.arrival_heads[d, slot]
    if head.status != arrivals.TAKEN:
        return False  # given up meanwhile
    if head.kind == layout.REPLY:
        record_segment(nics, d, slot, np.int64(head.name), frame)
        return calls.place_scattered_answer(nics, d)
    if head.kind == layout.WRITE and streams.is_of_work(nics, d, head):
        p = np.int64(nics.ports.channels[d, head.name].port)
        record_segment(nics, d, slot, p, frame)
        return scatter_payload(nics, d, slot, p, nics.ports.work.redirected[d, slot], 1)
    if head.kind == layout.WRITE:
        record_segment(nics, d, slot, np.int64(nics.ports.shared.exports[d, head.name].port), frame)
        return calls.place_redirected(nics, d)
    record_segment(nics, d, slot, np.int64(streams.destination_port_of(nics.ports, d, head)), frame)
    return _place_payload(nics, d, slot)


@distant
def fail_receive(nics, d, slot, status):
    """Fail the message of the packet in ``slot``, the last to arrive: it cannot be placed.

    That is where its receive says, where a remote write says, where an answer was asked to, or
    where an exported buffer is redirected to.
    """
    head = nics.ports.arrival_heads[d, slot]
    packet = nics.arrivals[d, slot]
    if head.status != arrivals.TAKEN:
        return
    if head.kind == layout.REPLY or not streams.is_of_work(nics, d, head):
        arrivals.discard_payload(
            packet,
            head,
            arrivals.NO_PLACE if status == layout.NO_ROOM else arrivals.REFUSED_FOR_GOOD,
        )
        return
    head.said = status if head.kind == layout.SEND else np.int64(layout.REMOTE_PROTECTION)
    if head.receive >= 0:
        nics.ports.channels[d, head.name].said = head.said
    arrivals.discard_payload(packet, head, arrivals.CONSUMED)


@distant
def abandon_receive(nics, n, tag):
    """Abandon the message arriving by ``tag``: its receive waits for another."""
    channel = nics.ports.channels[n, tag]
    if channel.placed >= 0:
        port = nics.ports.table[n, channel.port]
        # Of datagrams others may have taken receives since.
        renumber_receive(nics, n, np.int64(channel.port), channel.receive, port.receives_taken - 1)
        port.receives_taken -= 1
    channel.placed = -1


@distant
def undo_receive_placement(nics, d, slot):
    """Undo the placement of the packet in ``slot``, which will be retransmitted."""
    head = nics.ports.arrival_heads[d, slot]
    channel = nics.ports.channels[d, head.name]
    if head.filled < 0:
        return
    head.filled = -1
    is_under_way = channel.placed >= 0 and channel.message == head.message
    if head.receive < nics.ports.table[d, channel.port].received:
        return  # it has ended without a message
    if head.last == 0 and not is_under_way:
        return  # given up meanwhile
    channel.message = head.message
    channel.placed = head.offset
    channel.receive = head.receive
    channel.said = layout.DONE if head.offset == 0 else channel.said
    if head.offset == 0:
        abandon_receive(nics, d, head.name)


@distant
def complete_receive(nics, d, slot):
    """Complete a packet of a message for a receive; its status."""
    ports = nics.ports
    head = ports.arrival_heads[d, slot]
    packet = nics.arrivals[d, slot]
    if not arrivals.is_connected(nics, d, packet, head):
        return np.int64(arrivals.REFUSED_FOR_GOOD)
    if head.said == layout.NO_RECEIVE:
        return _on_no_receive(nics, d, head)
    if head.said == layout.REMOTE_PROTECTION:
        return calls.complete_remote_work(nics, d, slot)
    channel = ports.channels[d, head.name]
    is_whole = arrivals.add_to_message(channel, packet, head)
    if head.last == 0:
        return np.int64(head.status)
    if not is_whole:
        repost_receive(nics, d, slot)
    elif head.said == layout.DONE:
        _report(
            nics,
            d,
            np.int64(streams.destination_port_of(ports, d, head)),
            head.receive,
            layout.DONE,
            head,
        )
    else:
        return _fail_message(nics, d, head)
    return np.int64(head.status)


@step
def _on_no_receive(nics, d, head):
    """Refuse a message for which no receive is posted: drop it, RNR NAK, or disconnect."""
    p = np.int64(streams.destination_port_of(nics.ports, d, head))
    if not streams.is_reliable(nics.ports, streams.stream_to(nics.ports, d, head.peer)):
        work_queues.post_async_error(nics, d, p, work_queues.RECEIVES_EMPTY)
        return np.int64(arrivals.DROPPED)
    if nics.ports.table[d, p].rnr_delay > 0:
        streams.stream_to(nics.ports, d, head.peer).rnr_delay = nics.ports.table[d, p].rnr_delay
        head.why = NO_BUFFER
        request_acknowledgement(nics, d, head.peer)
        return np.int64(arrivals.DROPPED)
    calls.break_connection(nics, d, p, layout.BROKEN, work_queues.RECEIVES_EMPTY, layout.NO_RECEIVE)
    return np.int64(arrivals.ENDED)


@step
def _fail_message(nics, d, head):
    """Complete with an error the receive of a message that could not be placed.

    Whose sends are done when they have been delivered learns no more than that the connection is
    over.
    """
    p = np.int64(streams.destination_port_of(nics.ports, d, head))
    stream = streams.stream_to(nics.ports, d, head.peer)
    _report(nics, d, p, head.receive, head.said, head)
    if not streams.is_reliable(nics.ports, stream):
        return np.int64(arrivals.CONSUMED)
    verdict = layout.REMOTE_FAILED
    refuses = nics.ports.table[d, p].rules & layout.REFUSES_LONGER != 0
    if refuses and head.said == layout.TOO_LONG:
        verdict = layout.REMOTE_INVALID
    if stream.level == layout.DELIVERY:
        verdict = layout.FLUSHED
        if may_acknowledge(stream, head.sequence):
            arrivals.acknowledge_packet(nics, d, head, np.uint64(0))
    head.why = REFUSED
    calls.break_connection(nics, d, p, layout.BROKEN, work_queues.RECEIVE_FAILED, verdict)
    return np.int64(arrivals.ENDED)


@step
def _report(nics, d, p, number, status, head):
    """Complete receive ``number`` of port ``p`` with the message of ``head``."""
    first = np.int64(nics.ports.table[d, p].received)
    if head.datagram == 1:  # others, of other ways, may have begun before, and go on
        renumber_receive(nics, d, p, number, first)
        number = first
    length, word, has_immediate = np.int64(0), np.int64(0), np.int64(0)
    if status == layout.DONE:
        length = head.total + streams.grh_bytes_of(head)
        if head.options & layout.IMMEDIATE:
            word, has_immediate = head.immediate, np.int64(HAS_WORD)
        if head.options & layout.INVALIDATES:
            unbind(nics, d, p, head.immediate)
            word, has_immediate = head.immediate, np.int64(HAS_KEY)
        if head.options & layout.SOLICITED:
            has_immediate |= IS_SOLICITED
        if head.options & layout.OF_V4:
            has_immediate |= IS_OF_V4
    report_receive(nics, d, p, number, head.kind, status, length, word, has_immediate)
    if head.datagram == 1:
        streams.write_grh(nics, d, p, number, head)
