"""Packets that arrive: what is known of one, and the verdict on it."""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import routine, step
from nicscope.nic.delivery import place_in
from nicscope.nic.ports.calls import place_in_receive
from nicscope.nic.ports.datagrams import meet_datagram, takes_datagrams
from nicscope.nic.ports.holding import NO_KEY
from nicscope.nic.ports.layout import (
    ACKNOWLEDGEMENT,
    BARRED,
    CONNECTED,
    DONE,
    IMMEDIATE,
    NOBODY,
    ONE,
    SEND,
    WRITE,
)
from nicscope.nic.ports.streams import is_of_work, is_reliable, open_stream, stream_to, taker_of
from nicscope.nic.ports.traffic import (
    DELIVERED,
    DUPLICATE,
    OUT_OF_TURN,
    VOID,
)
from nicscope.nic.reception import DUPLICATE as HAD_BEFORE
from nicscope.nic.reception import GAP, WANTED, judge, judge_unreliable, refuse
from nicscope.nic.transport import distance

# What is known of an arriving packet (``head.status``).
UNJUDGED = 0
TAKEN = 1  # the transport wants it, and nothing speaks against it yet
DROPPED = 2  # the transport wants it, but it cannot be taken now: it must come again
REFUSED_FOR_GOOD = 3  # it is taken, and its sender learns that it was rejected
PASSED_BY = 4  # nobody wants it
NO_PLACE = 5  # as REFUSED_FOR_GOOD, but for want of an entry or a frame
# Of messages that take a receive.
SWALLOWED = 6  # it is taken, though the message cannot go where its receive says
ENDED = 7  # the connection is over with it


@step
def last_arrival(nics, d):
    """Place in the rings of what node ``d`` accepted last."""
    endpoint = nics.endpoints[d]
    return place_in(endpoint.accepted - 1, endpoint.receive_ring)


@step
def note_header(nics, d, sender, place):
    """Copy the header at ``place`` of the sender's ring for the packet that came last; its slot."""
    ports = nics.ports
    slot = last_arrival(nics, d)
    ports.arrival_heads[d, slot] = ports.send_heads[sender, place]
    head = ports.arrival_heads[d, slot]
    head.key = NO_KEY
    head.lone = 0
    head.runs = -1
    head.receive = -1
    head.said = DONE
    head.filled = -1
    head.status = UNJUDGED
    head.fate = 0
    head.why = VOID if head.kind & BARRED else DELIVERED
    return slot


@step
def judge_header(nics, d, head):
    """Say what is to become of the packet of ``head``, which has reached node ``d`` unharmed."""
    stream = open_stream(nics, d, head.peer)
    if head.kind == ACKNOWLEDGEMENT:
        return
    head.status = TAKEN
    if head.datagram == 1:
        meet_datagram(nics, d, head)
    if is_reliable(nics.ports, stream):
        found = judge(stream, head.sequence) if stream.sentence == 0 else GAP
        if found != WANTED and stream.begins == 1 and distance(head.sequence, stream.first) < 0:
            stream.ack_due = 0  # no packet of this connection had that number
    else:
        found = judge_unreliable(stream, head.sequence)
    if found != WANTED:
        head.status = PASSED_BY
        head.why = DUPLICATE if found == HAD_BEFORE else OUT_OF_TURN
    elif head.total == 0 and takes_receive(nics, d, head):
        place_in_receive(nics, d)  # in its turn: without a payload nobody looks for its place


@step
def takes_receive(nics, d, head):
    """Whether the packet of ``head`` is of a message that takes a receive, as its port's do."""
    ports = nics.ports
    if ports.work.receives.shape[2] == 0:
        return False
    if head.kind == WRITE:
        return head.options & IMMEDIATE != 0 and is_of_work(nics, d, head)
    if head.kind != SEND or head.name < 0 or head.name >= ports.channels.shape[1]:
        return False
    p = taker_of(ports, d, head)
    return p != NOBODY and ports.table[d, p].takes == ONE


@step
def is_connected(nics, d, packet, head):
    """Whether such a packet is of the connection that its port has now."""
    if not is_for_port(nics, d, packet, head):
        return False
    return nics.ports.table[d, taker_of(nics.ports, d, head)].state == CONNECTED


@step
def add_to_message(channel, packet, head):
    """Add a packet that is wholly in to the message it is of; whether that is whole with it."""
    if head.offset == 0:
        channel.finishing = head.message
        channel.arrived = 0
    channel.arrived += packet.payload
    return head.last == 1 and channel.finishing == head.message and channel.arrived == head.total


@step
def pass_by(packet, head, status):
    """The payload goes nowhere."""
    packet.broken = 1
    head.status = status


@step
def turn_away(nics, d, packet, head):
    """The packet cannot be taken now: it must come again, and so must all that follow it."""
    pass_by(packet, head, DROPPED)
    refuse_packet(nics, d, head)


@step
def refuse_packet(nics, d, head):
    """Have the transport take the packet's acceptance back; its sender gets a sign of life."""
    stream = stream_to(nics.ports, d, head.peer)
    if is_reliable(nics.ports, stream):
        refuse(stream, head.sequence)
        stream.ack_due = 1


@step
def without_room(nics, d, head):
    """What becomes of a packet for which its port has no buffer, or no place for a report.

    It comes again, but not for ever: one port that takes nothing must not keep two nodes apart.
    """
    if not is_reliable(nics.ports, stream_to(nics.ports, d, head.peer)):
        return np.int64(DROPPED)
    if is_too_often_unwanted(nics, d, head.peer, head.sequence):
        return np.int64(REFUSED_FOR_GOOD)
    refuse_packet(nics, d, head)
    return np.int64(DROPPED)


@routine
def is_too_often_unwanted(nics, d, peer, sequence):
    """Note that a packet finds no place; whether it has come in vain often enough."""
    stream = stream_to(nics.ports, d, peer)
    if stream.unwanted != sequence:
        stream.unwanted = sequence
        stream.unwanted_times = 0
    stream.unwanted_times += 1
    if stream.unwanted_times <= nics.ports.rules[0].most_retries:
        return False
    stream.unwanted = -1
    return True


@routine
def is_without_progress(nics, d, head):
    """Whether a packet that is to be dropped has come too often, and found no more pages each time.

    While one is brought another may go: the host has to have frames for all of them at once.
    """
    stream = stream_to(nics.ports, d, head.peer)
    if stream.unwanted != head.sequence:
        stream.laid = -1
    if head.runs > stream.laid:
        stream.laid = head.runs
        stream.unwanted = -1
    return is_too_often_unwanted(nics, d, head.peer, head.sequence)


@routine
def is_for_port(nics, d, packet, head):
    """Whether the tag of the packet is registered here, for this sender and its tag."""
    ports = nics.ports
    if head.datagram == 1:
        return takes_datagrams(nics, d, head.remote)
    if head.name < 0 or head.name >= ports.channels.shape[1]:
        return False
    channel = ports.channels[d, head.name]
    if channel.port == NOBODY or channel.node != packet.sender or channel.tag != head.from_name:
        return False
    if channel.stream != 0 and channel.stream != head.peer:
        return False  # of a connection that was over before
    return ports.table[d, channel.port].open == 1
