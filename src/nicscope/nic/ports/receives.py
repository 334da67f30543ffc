"""Receives of connected ports: a message takes the oldest, with its first packet.

What is found then, that there is none or that the message does not fit, takes effect when the
packets are completed, in their order: a packet before them may have to come again.
"""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import distant, routine, step
from nicscope.nic.ports.arrivals import (
    DROPPED,
    ENDED,
    NO_PLACE,
    REFUSED_FOR_GOOD,
    SWALLOWED,
    TAKEN,
    add_to_message,
    is_connected,
    last_arrival,
    pass_by,
)
from nicscope.nic.ports.calls import (
    break_connection,
    complete_remote_work,
    place_by_key,
    place_redirected,
    place_scattered_answer,
)
from nicscope.nic.ports.confirming import confirm_packet
from nicscope.nic.ports.datagrams import room_of, say_whence
from nicscope.nic.ports.layout import (
    BROKEN,
    DELIVERY,
    DONE,
    FLUSHED,
    IMMEDIATE,
    INVALIDATES,
    NO_RECEIVE,
    NO_ROOM,
    REMOTE_FAILED,
    REMOTE_INVALID,
    REMOTE_PROTECTION,
    REPLY,
    SEND,
    SOLICITED,
    TOO_LONG,
    WRITE,
)
from nicscope.nic.ports.receive_queue import (
    HAS_KEY,
    HAS_WORD,
    IS_SOLICITED,
    hand_back_receive,
    move_receive,
    receive_place,
    report_receive,
)
from nicscope.nic.ports.scatter import keep_run, place_over_pieces
from nicscope.nic.ports.shared_receives import draw_receive, queue_for
from nicscope.nic.ports.streams import is_of_work, is_reliable, stream_to, taker_of
from nicscope.nic.ports.traffic import INCOMPLETE, NO_BUFFER, REFUSED
from nicscope.nic.ports.troubles import note_trouble
from nicscope.nic.ports.window import wish_acknowledgement
from nicscope.nic.ports.windows import unbind
from nicscope.nic.ports.work_queues import RECEIVE_FAILED, RECEIVES_EMPTY
from nicscope.nic.reception import may_confirm


@distant
def place_in_receive(nics, d):
    """Find where the payload of the last packet, of a message for a receive, goes.

    Whether the processor waits for a translation.
    """
    slot = last_arrival(nics, d)
    head = nics.ports.arrival_heads[d, slot]
    packet = nics.arrivals[d, slot]
    if not is_connected(nics, d, packet, head):
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
    if head.kind == WRITE:
        return place_by_key(nics, d)
    head.runs = 0
    return _lay(nics, d, slot)


@step
def _begin_message(nics, d, head):
    """A message begins to arrive, and takes the oldest receive of its port."""
    ports = nics.ports
    channel = ports.channels[d, head.name]
    p = np.int64(taker_of(ports, d, head))
    port = ports.table[d, p]
    if channel.placed >= 0:
        give_up_receive(nics, d, head.name)
    channel.port = p
    channel.message = head.message
    channel.placed = 0
    channel.receive = port.receives_taken
    q = queue_for(nics, d, p, head)
    if q != p:
        draw_receive(nics, d, p, q)
    if port.receives_taken == port.receives_posted:
        channel.said = NO_RECEIVE
        port.dropped += 1
        return
    receive = ports.work.receives[d, p, receive_place(nics, port.receives_taken)]
    channel.said = receive.status
    length = head.total + room_of(head)
    if receive.status == DONE and head.kind == SEND and length > receive.length:
        channel.said = TOO_LONG
    port.receives_taken += 1


@routine
def _lay(nics, d, slot):
    """Find the places of the payload in ``slot``; whether a translation has to be waited for."""
    head = nics.ports.arrival_heads[d, slot]
    p = np.int64(taker_of(nics.ports, d, head))
    place = receive_place(nics, head.receive)
    pieces = nics.ports.work.pieces[d, p, place]
    many = nics.ports.work.receives[d, p, place].segments
    return place_over_pieces(nics, d, slot, p, pieces, many)


@distant
def go_on_placing(nics, d, frame):
    """The page that the last packet waits for is in ``frame``; whether it waits for another."""
    slot = last_arrival(nics, d)
    head = nics.ports.arrival_heads[d, slot]
    if head.status != TAKEN:
        return False  # given up meanwhile
    if head.kind == REPLY:
        keep_run(nics, d, slot, np.int64(head.name), frame)
        return place_scattered_answer(nics, d)
    if head.kind == WRITE:  # what is addressed by key has one place
        keep_run(nics, d, slot, np.int64(nics.ports.shared.exports[d, head.name].port), frame)
        return place_redirected(nics, d)
    keep_run(nics, d, slot, np.int64(taker_of(nics.ports, d, head)), frame)
    return _lay(nics, d, slot)


@distant
def fail_receive(nics, d, slot, status):
    """The message of the packet in ``slot``, which came last, cannot go where it should.

    That is where its receive says, where a remote write says, where an answer was asked to, or
    where an exported buffer is redirected to.
    """
    head = nics.ports.arrival_heads[d, slot]
    packet = nics.arrivals[d, slot]
    if head.status != TAKEN:
        return
    if head.kind == REPLY or not is_of_work(nics, d, head):
        pass_by(packet, head, NO_PLACE if status == NO_ROOM else REFUSED_FOR_GOOD)
        return
    head.said = status if head.kind == SEND else np.int64(REMOTE_PROTECTION)
    if head.receive >= 0:
        nics.ports.channels[d, head.name].said = head.said
    pass_by(packet, head, SWALLOWED)


@distant
def give_up_receive(nics, n, tag):
    """The message that arrives by ``tag`` will not be whole: its receive waits for another."""
    channel = nics.ports.channels[n, tag]
    if channel.placed >= 0:
        port = nics.ports.table[n, channel.port]
        # Of datagrams others may have taken receives since.
        move_receive(nics, n, np.int64(channel.port), channel.receive, port.receives_taken - 1)
        port.receives_taken -= 1
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
    if not is_connected(nics, d, packet, head):
        return np.int64(REFUSED_FOR_GOOD)
    if head.said == NO_RECEIVE:
        return _find_none(nics, d, head)
    if head.said == REMOTE_PROTECTION:
        return complete_remote_work(nics, d, slot)
    channel = ports.channels[d, head.name]
    is_whole = add_to_message(channel, packet, head)
    if head.last == 0:
        return np.int64(head.status)
    if not is_whole:
        hand_back_receive(nics, d, slot)
    elif head.said == DONE:
        _report(nics, d, np.int64(taker_of(ports, d, head)), head.receive, DONE, head)
    else:
        return _end_badly(nics, d, head)
    return np.int64(head.status)


@step
def _find_none(nics, d, head):
    """A message has come for which no receive was posted."""
    p = np.int64(taker_of(nics.ports, d, head))
    if not is_reliable(nics.ports, stream_to(nics.ports, d, head.peer)):
        note_trouble(nics, d, p, RECEIVES_EMPTY)
        return np.int64(DROPPED)
    if nics.ports.table[d, p].unready > 0:
        stream_to(nics.ports, d, head.peer).unready = nics.ports.table[d, p].unready
        head.why = NO_BUFFER
        wish_acknowledgement(nics, d, head.peer)
        return np.int64(DROPPED)
    break_connection(nics, d, p, BROKEN, RECEIVES_EMPTY, NO_RECEIVE)
    return np.int64(ENDED)


@step
def _end_badly(nics, d, head):
    """A message is there that could not go where its receive says, which ends so.

    Whose sends are done when they have been delivered learns no more than that the connection is
    over.
    """
    p = np.int64(taker_of(nics.ports, d, head))
    stream = stream_to(nics.ports, d, head.peer)
    _report(nics, d, p, head.receive, head.said, head)
    if not is_reliable(nics.ports, stream):
        return np.int64(SWALLOWED)
    is_longer = head.said == TOO_LONG and nics.ports.table[d, p].by_verbs == 1
    verdict = REMOTE_INVALID if is_longer else REMOTE_FAILED
    if stream.level == DELIVERY:
        verdict = FLUSHED
        if may_confirm(stream, head.sequence):
            confirm_packet(nics, d, head, np.uint64(0))
    head.why = REFUSED
    break_connection(nics, d, p, BROKEN, RECEIVE_FAILED, verdict)
    return np.int64(ENDED)


@step
def _report(nics, d, p, number, status, head):
    """Tell the process of port ``p`` how its receive of that number ended, with which message."""
    first = np.int64(nics.ports.table[d, p].received)
    if head.datagram == 1:  # others, of other ways, may have begun before, and go on
        move_receive(nics, d, p, number, first)
        number = first
    length, word, has_word = np.int64(0), np.int64(0), np.int64(0)
    if status == DONE:
        length = head.total + room_of(head)
        if head.options & IMMEDIATE:
            word, has_word = head.immediate, np.int64(HAS_WORD)
        if head.options & INVALIDATES:
            unbind(nics, d, p, head.immediate)
            word, has_word = head.immediate, np.int64(HAS_KEY)
        if head.options & SOLICITED:
            has_word |= IS_SOLICITED
    report_receive(nics, d, p, number, head.kind, status, length, word, has_word)
    if head.datagram == 1:
        say_whence(nics, d, p, number, head)
