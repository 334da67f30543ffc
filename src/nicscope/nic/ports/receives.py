"""Receives of connected ports: a message takes the oldest, with its first packet.

What is found then, that there is none or that the message does not fit, takes effect when the
packets are completed, in their order: a packet before them may have to come again.

A port's receives are reported in the order in which they are taken, and each has the place of its
report from when it is posted: the report of a number is of the receive of that number.
"""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import distant, routine, step
from nicscope.nic.delivery import place_in
from nicscope.nic.ports.arrivals import (
    DROPPED,
    ENDED,
    REFUSED_FOR_GOOD,
    SWALLOWED,
    TAKEN,
    is_for_port,
    last_arrival,
    pass_by,
)
from nicscope.nic.ports.calls import keep_pages, report_received
from nicscope.nic.ports.connection import break_connection
from nicscope.nic.ports.layout import (
    AS_ALL,
    BROKEN,
    CONNECTED,
    DELIVERY,
    DONE,
    FLUSHED,
    IMMEDIATE,
    NO_RECEIVE,
    RECEIVED,
    REMOTE_FAILED,
    SEND,
    TOO_LONG,
    UNRELIABLE,
)
from nicscope.nic.ports.scatter import (
    LAID,
    WAITS,
    keep_run,
    lay_over_pieces,
)
from nicscope.nic.ports.streams import stream_to
from nicscope.nic.ports.traffic import INCOMPLETE, NO_BUFFER, REFUSED
from nicscope.nic.ports.troubles import note_trouble
from nicscope.nic.ports.work_queues import RECEIVE_FAILED, RECEIVES_EMPTY
from nicscope.nic.reception import confirm, may_confirm

NO_NUMBER = -1


@step
def is_reliable(nics, port):
    """Whether the connection of ``port`` loses nothing."""
    return port.level != UNRELIABLE and (port.level != AS_ALL or nics.ports.rules[0].reliable == 1)


@step
def receive_place(nics, number):
    """Where a port has its receive of that number."""
    return place_in(number, nics.ports.work.receives.shape[2])


@distant
def place_in_receive(nics, d):
    """Find where the payload of the last packet, of a message for a receive, goes.

    Whether the processor waits for a translation.
    """
    slot = last_arrival(nics, d)
    head = nics.ports.arrival_heads[d, slot]
    packet = nics.arrivals[d, slot]
    if not _is_connected(nics, d, packet, head):
        pass_by(packet, head, REFUSED_FOR_GOOD)
        return False
    channel = nics.ports.channels[d, head.name]
    if head.offset == 0:
        _begin_message(nics, d, head)
    elif channel.placed != head.offset or channel.message != head.message:
        head.why = INCOMPLETE
        pass_by(packet, head, REFUSED_FOR_GOOD)
        return False
    head.receive = channel.receive
    head.said = channel.said
    if head.said == NO_RECEIVE:
        channel.placed = -1
        head.why = NO_BUFFER
        pass_by(packet, head, SWALLOWED)
        return False
    head.filled = head.last
    channel.placed = channel.placed + packet.payload if head.last == 0 else np.int64(-1)
    if head.said != DONE:
        pass_by(packet, head, SWALLOWED)
        return False
    head.runs = 0
    return _lay(nics, d, slot)


@step
def _is_connected(nics, d, packet, head):
    """Whether the packet is of a connection that its port has still."""
    if not is_for_port(nics, d, packet, head):
        return False
    p = nics.ports.channels[d, head.name].port
    return nics.ports.table[d, p].state == CONNECTED


@step
def _begin_message(nics, d, head):
    """A message begins to arrive, and takes the oldest receive of its port."""
    ports = nics.ports
    channel = ports.channels[d, head.name]
    port = ports.table[d, channel.port]
    if channel.placed >= 0:
        give_up_receive(nics, d, head.name)
    channel.message = head.message
    channel.placed = 0
    channel.receive = port.receives_taken
    if port.receives_taken == port.receives_posted:
        channel.said = NO_RECEIVE
        port.dropped += 1
        return
    receive = ports.work.receives[d, channel.port, receive_place(nics, port.receives_taken)]
    channel.said = receive.status
    if receive.status == DONE and head.total > receive.length:
        channel.said = TOO_LONG
    port.receives_taken += 1


@routine
def _lay(nics, d, slot):
    """Find the places of the payload in ``slot``; whether a translation has to be waited for."""
    head = nics.ports.arrival_heads[d, slot]
    p = np.int64(nics.ports.channels[d, head.name].port)
    place = receive_place(nics, head.receive)
    pieces = nics.ports.work.pieces[d, p, place]
    many = nics.ports.work.receives[d, p, place].segments
    found = lay_over_pieces(nics, d, slot, p, pieces, many, head.offset)
    if found == WAITS:
        return True
    if found != LAID:
        fail_receive(nics, d, slot, found)
    return False


@distant
def go_on_placing(nics, d, frame):
    """The page that the last packet waits for is in ``frame``; whether it waits for another."""
    slot = last_arrival(nics, d)
    head = nics.ports.arrival_heads[d, slot]
    if head.status != TAKEN:
        return False  # given up meanwhile
    keep_run(nics, d, slot, np.int64(nics.ports.channels[d, head.name].port), frame)
    return _lay(nics, d, slot)


@distant
def fail_receive(nics, d, slot, status):
    """The message of the packet in ``slot``, which came last, cannot go where its receive says."""
    head = nics.ports.arrival_heads[d, slot]
    if head.status != TAKEN:
        return
    head.said = status
    nics.ports.channels[d, head.name].said = status
    pass_by(nics.arrivals[d, slot], head, SWALLOWED)


@distant
def give_up_receive(nics, n, tag):
    """The message that arrives by ``tag`` will not be whole: its receive waits for another."""
    channel = nics.ports.channels[n, tag]
    if channel.placed >= 0:
        nics.ports.table[n, channel.port].receives_taken -= 1
    channel.placed = -1


@distant
def go_back_in_receive(nics, d, slot):
    """The packet in ``slot`` will come again: its message is as it was before that was placed."""
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
    channel.said = DONE if head.offset == 0 else channel.said
    if head.offset == 0:
        give_up_receive(nics, d, head.name)


@distant
def complete_receive(nics, d, slot):
    """A packet of a message for a receive is wholly in; what becomes of it."""
    ports = nics.ports
    head = ports.arrival_heads[d, slot]
    packet = nics.arrivals[d, slot]
    if not _is_connected(nics, d, packet, head):
        return np.int64(REFUSED_FOR_GOOD)
    if head.said == NO_RECEIVE:
        return _find_none(nics, d, head)
    channel = ports.channels[d, head.name]
    if head.offset == 0:
        channel.finishing = head.message
        channel.arrived = 0
    channel.arrived += packet.payload
    if head.last == 0:
        return np.int64(head.status)
    if channel.finishing != head.message or channel.arrived != head.total:
        hand_back_receive(nics, d, slot)
    elif head.said == DONE:
        _report(nics, d, channel.port, head.receive, DONE, head)
    else:
        return _end_badly(nics, d, head)
    return np.int64(head.status)


@step
def _find_none(nics, d, head):
    """A message has come for which no receive was posted."""
    p = np.int64(nics.ports.channels[d, head.name].port)
    if not is_reliable(nics, nics.ports.table[d, p]):
        note_trouble(nics, d, p, RECEIVES_EMPTY)
        return np.int64(DROPPED)
    break_connection(nics, d, p, BROKEN, RECEIVES_EMPTY, NO_RECEIVE)
    return np.int64(ENDED)


@step
def _end_badly(nics, d, head):
    """A message is there that could not go where its receive says, which ends so.

    Whose sends are done when they have been delivered learns no more than that the connection is
    over.
    """
    p = np.int64(nics.ports.channels[d, head.name].port)
    port = nics.ports.table[d, p]
    _report(nics, d, p, head.receive, head.said, head)
    if not is_reliable(nics, port):
        return np.int64(SWALLOWED)
    verdict = REMOTE_FAILED
    if port.level == DELIVERY:
        verdict = FLUSHED
        stream = stream_to(nics.ports, d, head.peer)
        if may_confirm(stream, head.sequence):
            confirm(stream, head.sequence)
    head.why = REFUSED
    break_connection(nics, d, p, BROKEN, RECEIVE_FAILED, verdict)
    return np.int64(ENDED)


@step
def _report(nics, d, p, number, status, head):
    """Tell the process of port ``p`` how its receive of that number ended, with which message."""
    length, word, has_word = np.int64(0), np.int64(0), np.int64(0)
    if status == DONE:
        length = head.total
        if head.options & IMMEDIATE:
            word, has_word = head.immediate, np.int64(1)
    report_receive(nics, d, p, number, head.kind, status, length, word, has_word)


@step
def report_receive(nics, n, p, number, operation, status, length, word, has_word):
    """Report the receive of that number, the oldest not reported of port ``p``.

    ``word``: the immediate data that came with the message, if ``has_word``.
    """
    ports = nics.ports
    receive = ports.work.receives[n, p, receive_place(nics, number)]
    leave_receive(nics, n, p, number)
    channel = ports.table[n, p].channel
    peer = np.int64(ports.channels[n, channel].node if channel >= 0 else n)
    place = report_received(nics, n, p, operation, word, peer, length, has_word, 0)
    report = ports.reports[n, p, RECEIVED, place]
    report.cookie = receive.cookie
    report.status = status


@routine
def leave_receive(nics, n, p, number):
    """The pages of that receive need not stay pinned for it."""
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
        keep_pages(nics, n, nics.ports.table[n, p].space, first, pages, 0)


@distant
def hand_back_receive(nics, n, slot):
    """The message whose last packet is in ``slot`` is not whole: its receive waits for another.

    Messages that came later may have taken receives.  It goes behind theirs, so that receives are
    reported in the order of their numbers still.
    """
    ports = nics.ports
    gone = ports.arrival_heads[n, slot]
    channel = ports.channels[n, gone.name]
    p = np.int64(channel.port)
    port = ports.table[n, p]
    if gone.receive < port.received:
        return  # it has ended without a message
    last = port.receives_taken - 1
    for number in range(gone.receive, last):
        _exchange(nics, n, p, number, number + 1)
    endpoint = nics.endpoints[n]
    for i in range(endpoint.completed, endpoint.accepted):
        head = ports.arrival_heads[n, place_in(i, endpoint.receive_ring)]
        if head.kind == SEND and head.name == gone.name and head.receive > gone.receive:
            head.receive -= 1
    if channel.placed >= 0:
        channel.receive -= 1
    port.receives_taken -= 1
    gone.receive = NO_NUMBER


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
    for i in range(work.pieces.shape[3]):
        one, two = work.pieces[n, p, a, i], work.pieces[n, p, b, i]
        one.address, two.address = two.address, one.address
        one.length, two.length = two.length, one.length
        one.key, two.key = two.key, one.key


@distant
def flush_receives(nics, n, p):
    """The connection of port ``p`` is over: receives that it has posted end without a message."""
    port = nics.ports.table[n, p]
    for number in range(port.received, port.receives_posted):
        report_receive(nics, n, p, number, SEND, FLUSHED, np.int64(0), np.int64(0), np.int64(0))
    port.receives_taken = port.receives_posted
    _forget_message(nics, n, p)


@distant
def let_receives_go(nics, n, p):
    """Port ``p`` closes: of the receives that it has posted nothing is heard any more."""
    port = nics.ports.table[n, p]
    for number in range(port.received, port.receives_posted):
        leave_receive(nics, n, p, number)
    port.receives_posted = port.receives_taken = port.received
    port.reserved = port.received
    _forget_message(nics, n, p)


@step
def _forget_message(nics, n, p):
    """No message of port ``p`` is half there."""
    channel = nics.ports.table[n, p].channel
    if channel >= 0:
        nics.ports.channels[n, channel].placed = -1
