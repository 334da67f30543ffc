"""Packets that arrive: the verdict on each, acknowledgement, store-and-forward by message."""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import distant, routine, step
from nicscope.nic.delivery import has_ring_entry, place_in
from nicscope.nic.ports import layout, streams
from nicscope.nic.ports.calls import has_valid_checksum_on_nic, place_in_receive
from nicscope.nic.ports.lookup import NO_KEY, complete_reservation
from nicscope.nic.ports.traffic import (
    DELIVERED,
    DUPLICATE,
    OUT_OF_TURN,
    VOID,
)
from nicscope.nic.ports.window import schedule_acknowledgement
from nicscope.nic.transport import DUPLICATE as HAD_BEFORE
from nicscope.nic.transport import (
    GAP,
    WANTED,
    check_sequence,
    check_unreliable_sequence,
    confirm,
    distance,
    may_acknowledge,
    refuse,
)

# What is known of an arriving packet (``head.status``).
UNCLASSIFIED = 0
TAKEN = 1  # in sequence, and not refused so far
DROPPED = 2  # in sequence, but it cannot be taken now: it must be retransmitted
REFUSED_FOR_GOOD = 3  # it is taken, and its sender learns that it was rejected
DISCARDED = 4  # a duplicate or out of sequence: nothing is done with it
NO_PLACE = 5  # as REFUSED_FOR_GOOD, but for want of an entry or a frame
# Of messages that take a receive.
CONSUMED = 6  # it is taken, though its message cannot be placed
ENDED = 7  # the connection is over with it


@step
def last_arrival(nics, d):
    """Ring slot of the packet that node ``d`` accepted last."""
    endpoint = nics.endpoints[d]
    return place_in(endpoint.accepted - 1, endpoint.receive_ring)


@step
def record_header(nics, d, sent):
    """Copy the header ``sent`` with the packet that came last; its slot."""
    ports = nics.ports
    slot = last_arrival(nics, d)
    ports.arrival_heads[d, slot] = sent
    head = ports.arrival_heads[d, slot]
    head.key = NO_KEY
    head.lone = 0
    head.runs = -1
    head.receive = -1
    head.said = layout.DONE
    head.filled = -1
    head.status = UNCLASSIFIED
    head.fate = 0
    head.why = VOID if head.kind & layout.VOIDED else DELIVERED
    return slot


@step
def classify_packet(nics, d, head):
    """Classify the packet of ``head`` that reached node ``d``: wanted, duplicate or gap."""
    stream = streams.open_stream(nics, d, head.peer)
    if head.kind == layout.ACKNOWLEDGEMENT:
        return
    head.status = TAKEN
    if head.datagram == 1:
        streams.resolve_datagram_port(nics, d, head)
    if streams.is_reliable(nics.ports, stream):
        found = check_sequence(stream, head.sequence) if stream.pending_verdict == 0 else GAP
        if found != WANTED and stream.begins == 1 and distance(head.sequence, stream.first) < 0:
            stream.ack_due = 0  # no packet of this connection had that number
    else:
        found = check_unreliable_sequence(stream, head.sequence)
    if found != WANTED:
        head.status = DISCARDED
        head.why = DUPLICATE if found == HAD_BEFORE else OUT_OF_TURN
    elif head.total == 0 and consumes_receive(nics, d, head):
        place_in_receive(nics, d)  # in its turn: without a payload nobody looks for its place


@step
def consumes_receive(nics, d, head):
    """Whether the message of ``head`` consumes a posted receive."""
    ports = nics.ports
    if ports.work.receives.shape[2] == 0:
        return False
    if head.kind == layout.WRITE:
        return head.options & layout.IMMEDIATE != 0 and streams.is_of_work(nics, d, head)
    if head.kind != layout.SEND or head.name < 0 or head.name >= ports.channels.shape[1]:
        return False
    p = streams.destination_port_of(ports, d, head)
    return p != layout.NOBODY and ports.table[d, p].takes == layout.WORK_QUEUE


@step
def is_connected(nics, d, packet, head):
    """Whether the packet belongs to the present connection of its port."""
    if not is_for_port(nics, d, packet, head):
        return False
    return (
        nics.ports.table[d, streams.destination_port_of(nics.ports, d, head)].state
        == layout.CONNECTED
    )


@step
def add_to_message(channel, packet, head):
    """Add a complete packet to its message; whether that completes the message."""
    if head.offset == 0:
        channel.finishing = head.message
        channel.arrived = 0
    channel.arrived += packet.payload
    return head.last == 1 and channel.finishing == head.message and channel.arrived == head.total


@step
def discard_payload(packet, head, status):
    """Discard the payload of a packet."""
    packet.broken = 1
    head.status = status


@step
def drop_for_retransmit(nics, d, packet, head):
    """Drop the packet: its sender must retransmit it and all that follow."""
    discard_payload(packet, head, DROPPED)
    revoke_acceptance(nics, d, head)


@step
def revoke_acceptance(nics, d, head):
    """Revoke the acceptance of the packet; its sender still gets an acknowledgement."""
    stream = streams.stream_to(nics.ports, d, head.peer)
    if streams.is_reliable(nics.ports, stream):
        refuse(stream, head.sequence)
        stream.ack_due = 1


@step
def status_without_buffer(nics, d, head):
    """Status of a packet whose port has no buffer, or no free report.

    It comes again, but not for ever: one port that takes nothing must not keep two nodes apart.
    """
    if not streams.is_reliable(nics.ports, streams.stream_to(nics.ports, d, head.peer)):
        return np.int64(DROPPED)
    if exceeds_drop_limit(nics, d, head.peer, head.sequence):
        return np.int64(REFUSED_FOR_GOOD)
    revoke_acceptance(nics, d, head)
    return np.int64(DROPPED)


@routine
def exceeds_drop_limit(nics, d, peer, sequence):
    """Count a packet that was dropped; whether it has exceeded the number of retries."""
    stream = streams.stream_to(nics.ports, d, peer)
    if stream.unwanted != sequence:
        stream.unwanted = sequence
        stream.unwanted_times = 0
    stream.unwanted_times += 1
    if stream.unwanted_times <= nics.ports.rules[0].most_retries:
        return False
    stream.unwanted = -1
    return True


@routine
def makes_no_progress(nics, d, head):
    """Whether a dropped packet has exceeded its retries without finding another of its pages.

    While one is brought another may go: the host has to have frames for all of them at once.
    """
    stream = streams.stream_to(nics.ports, d, head.peer)
    if stream.unwanted != head.sequence:
        stream.laid = -1
    if head.runs > stream.laid:
        stream.laid = head.runs
        stream.unwanted = -1
    return exceeds_drop_limit(nics, d, head.peer, head.sequence)


@routine
def is_for_port(nics, d, packet, head):
    """Whether the tag of the packet is registered here, for this sender and its tag."""
    ports = nics.ports
    if head.datagram == 1:
        return streams.accepts_datagrams(nics, d, head.remote)
    if head.name < 0 or head.name >= ports.channels.shape[1]:
        return False
    channel = ports.channels[d, head.name]
    if (
        channel.port == layout.NOBODY
        or channel.node != packet.sender
        or channel.tag != head.from_name
    ):
        return False
    if channel.stream != 0 and channel.stream != head.peer:
        return False  # of a connection that was over before
    return ports.table[d, channel.port].open == 1


@distant
def update_store_and_forward(nics, n, fetching):
    """Update whether the oldest packets of ``n`` wait for the rest of their messages.

    ``fetching``: the packet that hostTx is moving, or -1.
    """
    endpoint = nics.endpoints[n]
    endpoint.holds_sent = 1 if _waits_to_send(nics, n, fetching) else 0
    endpoint.holds_drained = 1 if _waits_to_drain(nics, n) else 0


@step
def _waits_to_send(nics, n, fetching):
    """Whether the oldest unsent packet waits until its whole message is on the NIC."""
    endpoint = nics.endpoints[n]
    if endpoint.sent == endpoint.taken or endpoint.control_sent == 1:
        return False
    heads, sends = nics.ports.send_heads, nics.sends
    first = place_in(endpoint.sent, endpoint.send_ring)
    oldest, destination = heads[n, first], sends[n, first].destination
    if oldest.kind not in (layout.SEND, layout.WRITE, layout.REPLY):
        return False
    is_full = endpoint.send_used == endpoint.send_buffers
    for i in range(endpoint.sent, endpoint.written):
        place = place_in(i, endpoint.send_ring)
        head = heads[n, place]
        goes_there = sends[n, place].destination == destination
        if head.last == 1 and goes_there and _is_same_message(head, oldest):
            return i == fetching or (i >= endpoint.taken and not is_full)
    return endpoint.to_serve != 0 and not is_full


@step
def _waits_to_drain(nics, n):
    """Whether the oldest undrained packet waits until its whole message has arrived."""
    endpoint = nics.endpoints[n]
    if endpoint.drained == endpoint.accepted or endpoint.drain_sunk > 0:
        return False
    slot = place_in(endpoint.drained, endpoint.receive_ring)
    oldest, sender = nics.ports.arrival_heads[n, slot], nics.arrivals[n, slot].sender
    if oldest.kind not in (layout.SEND, layout.WRITE, layout.REPLY) or oldest.status != TAKEN:
        return False
    for i in range(endpoint.drained, endpoint.accepted):
        slot = place_in(i, endpoint.receive_ring)
        head = nics.ports.arrival_heads[n, slot]
        if nics.arrivals[n, slot].sender != sender or not _is_same_message(head, oldest):
            return False
        if head.last == 1:
            return i == endpoint.accepted - 1 and endpoint.open == 1
    if endpoint.accepted - endpoint.drained >= nics.ports.rules[0].window:
        return False
    return endpoint.receive_used < endpoint.receive_buffers and has_ring_entry(endpoint)


@step
def _is_same_message(head, other):
    """Whether a packet, lost or not, is of the same message as ``other``, which is not lost.

    Both go between the same two nodes.  An answer that is refused half-way ends with a descriptor
    of its own: it is known by what it answers.
    """
    if head.from_port != other.from_port or head.kind & ~layout.VOIDED != other.kind:
        return False
    if other.kind == layout.REPLY:
        return head.name == other.name and head.slot == other.slot
    return head.cookie == other.cookie


@step
def acknowledge_packet(nics, d, head, reject):
    """Acknowledge the packet of ``head``; ``reject``: 1 if its sender learns of a rejection."""
    stream = streams.stream_to(nics.ports, d, head.peer)
    confirm(stream, head.sequence, np.int64(reject != 0 or head.unasked == 0))
    complete_reservation(nics, d, head.peer, head.sequence)
    stream.rejects = stream.rejects << np.uint64(1) | reject


@step
def acknowledges_on_nic(nics, d, slot):
    """Whether the connection of ``slot`` acknowledges packets once they are on the NIC."""
    ports = nics.ports
    return streams.stream_to(ports, d, ports.arrival_heads[d, slot].peer).level == layout.DELIVERY


@step
def is_acknowledged_by_answer(ports, d, head):
    """Whether the packet, a fetch that was not refused, has no acknowledgement but its answer."""
    if head.kind != layout.FETCH or head.status != TAKEN:
        return False
    port = ports.table[d, streams.stream_to(ports, d, head.peer).port]
    return port.rules & layout.ACKNOWLEDGES_BY_ANSWER != 0


@distant
def acknowledge_on_nic(nics, d, slot, now):
    """Acknowledge the packet in ``slot``, all on the NIC, if its checksum is right.

    One before it that has not been confirmed yet has it wait until it is completed, and so does a
    kernel that takes packets from its NIC, and may have no room for them.
    """
    if nics.ports.rules[0].serves == 0:
        return
    head = nics.ports.arrival_heads[d, slot]
    stream = streams.stream_to(nics.ports, d, head.peer)
    if head.status != TAKEN or not may_acknowledge(stream, head.sequence):
        return
    if has_valid_checksum_on_nic(nics, d, slot):
        acknowledge_packet(nics, d, head, np.uint64(0))
        if not is_acknowledged_by_answer(nics.ports, d, head):
            schedule_acknowledgement(nics, d, head.peer, now)
