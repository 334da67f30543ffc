"""Counts of messages, packets and lookups: by port, by node, as RDMA NICs name them."""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import routine, step
from nicscope.nic.ports import layout
from nicscope.nic.ports.regions import is_flush
from nicscope.nic.ports.streams import destination_port_of, is_of_work, is_reliable, stream_to

ACCOUNT_NAMES = (
    "messages_out",
    "bytes_out",
    "messages_in",
    "bytes_in",
    "lookups_send",
    "lookups_receive",
    "misses_send",
    "misses_receive",
    "lookups_handles",
    "misses_handles",
)
MESSAGES_OUT, BYTES_OUT, MESSAGES_IN, BYTES_IN = range(4)
LOOKUPS = 4  # and behind it those of receives
MISSES = 6
HANDLE_LOOKUPS = 8
HANDLE_MISSES = 9


@step
def port_of_arrival(nics, d, head):
    """The port of node ``d`` that a packet with ``head`` is for, or the firmware's own."""
    ports = nics.ports
    kind, name = head.kind, head.name
    p = layout.OWN_PORT
    if kind == layout.REPLY:
        p = name
    elif kind == layout.SEND and name >= 0 and name < ports.channels.shape[1]:
        p = destination_port_of(ports, d, head)
    elif kind in (layout.WRITE, layout.FETCH):
        if is_of_work(nics, d, head):
            p = stream_to(ports, d, head.peer).port
        elif name >= 0 and name < ports.shared.exports.shape[1]:
            p = ports.shared.exports[d, name].port
    return p if p > layout.NOBODY and p < ports.table.shape[1] else layout.OWN_PORT


@step
def count_looked(nics, n, p, receive, missed):
    """Port ``p`` of node ``n`` had a page looked up; ``missed``: 1 if it was not on the NIC."""
    account = nics.ports.accounts[n, p]
    account[LOOKUPS + receive] += 1
    account[MISSES + receive] += missed


@step
def count_handle(nics, n, p, missed):
    """Count a lookup of a buffer's or a process's handle by port ``p``, and its miss."""
    account = nics.ports.accounts[n, p]
    account[HANDLE_LOOKUPS] += 1
    account[HANDLE_MISSES] += missed


TALLY_NAMES = (
    "packets_out",
    "payload_out",  # bytes
    "packets_in",
    "payload_in",
    "writes_in",  # messages that have been taken
    "reads_in",
    "atomics_in",
    "had_before",  # packets of requests
    "rests",  # RNR NAKs of a peer without a receive
    "time_outs",  # time-outs after which a peer was not given up
    "access_refused",  # messages that named memory which their sender may not use so
)
(
    PACKETS_OUT,
    PAYLOAD_OUT,
    PACKETS_IN,
    PAYLOAD_IN,
    WRITES_IN,
    READS_IN,
    ATOMICS_IN,
    HAD_BEFORE,
    RESTS,
    TIME_OUTS,
    ACCESS_REFUSED,
) = range(len(TALLY_NAMES))


@step
def tally_packet_out(nics, n, packet, head):
    """Count a packet that has left node ``n``, unless the network copied it."""
    if head.copied == 1:
        return
    tallies = nics.ports.tallies
    tallies[n, PACKETS_OUT] += 1 + head.further
    tallies[n, PAYLOAD_OUT] += packet.payload


@step
def tally_request(nics, d, head):
    """Count a request that node ``d`` has executed, with its last packet."""
    if head.last == 0 or not is_of_work(nics, d, head):
        return
    tallies = nics.ports.tallies
    if head.kind == layout.WRITE:
        tallies[d, WRITES_IN] += 1
    elif head.kind == layout.FETCH:
        if head.atomic != 0:
            tallies[d, ATOMICS_IN] += 1
        elif not is_flush(head):
            tallies[d, READS_IN] += 1


@step
def tally_completion(nics, n, p, side, status):
    """Count a completion at port ``p``, unless its queue pair has been reset."""
    port = nics.ports.table[n, p]
    if port.state != layout.IDLE or port.rules & layout.ENDS_UNCOUNTED == 0:
        nics.ports.told_by_side[n, side, status] += 1


# Why a packet is made.
FIRST = 0  # something is sent for the first time
AGAIN = 1  # it was not acknowledged in time
BARE = 2  # an acknowledgement without a packet to piggyback on
COPIED = 3  # by the network, which duplicates or reorders packets
MADE_NAMES = ("first", "again", "acknowledgements", "copies")

# What becomes of a packet that has come.  ``head.why``, until it is done with.
DELIVERED = 0  # it had its effect
ACKNOWLEDGED = 1  # it was an acknowledgement alone
LOST = 2  # by the network
CUT_OFF = 3  # a dead node or link was on its way
OVERTAKEN = 4  # the network holds it back: it comes behind others
CORRUPTED = 5
DUPLICATE = 6  # it had come before
OUT_OF_TURN = 7  # one before it is missing
TAKEN_BACK = 8  # one before it was dropped, so it must be retransmitted
REFUSED = 9  # for good: its sender learns that it was rejected
INCOMPLETE = 10  # a piece of its message is missing, or was refused
BROKEN_OFF = 11  # by the watchdog of the network
VOID = 12  # its sender had given this node up, or their connection was over
# Dropped: it could not be taken then.
NO_TRANSLATION = 13
NO_HANDLE = 14
NO_ENTRY = 15  # transfers used all entries that its page could have had
NO_BUFFER = 16
NO_REPORT = 17  # the reports of its port had no place
NO_ANSWER = 18  # the answer that it asks for had no place
ENDED_NAMES = (
    "delivered",
    "acknowledgements",
    "lost",
    "cut_off",
    "overtaken",
    "corrupted",
    "duplicates",
    "out_of_turn",
    "taken_back",
    "refused",
    "incomplete",
    "broken_off",
    "void",
    "no_translation",
    "no_handle",
    "no_entry",
    "no_buffer",
    "no_report",
    "no_answer",
)
FIRST_DROPPED = NO_TRANSLATION

# A packet that was made at ``node``, or has come there: ``what`` became of it.
PACKET_EVENT = np.dtype(
    [
        ("time", "i8"),  # ps
        ("node", "i8"),
        ("came", "i8"),  # 0: it was made; 1: it has come
        ("what", "i8"),
        ("sender", "i8"),
        ("number", "i8"),  # of the sender's packets
        ("destination", "i8"),
        ("kind", "i8"),  # as ``nic.ports`` names what a packet carries; 8: not looked at
        ("sequence", "i8"),
        ("copied", "i8"),
        ("payload", "i8"),  # bytes
        # of one that was made: for which descriptor
        ("of", "i8"),  # the node of that
        ("port", "i8"),
        ("cookie", "i8"),  # or -1
    ],
    align=True,
)


@step
def count_made(nics, n, packet, head, why):
    """Count a packet put on the send ring of node ``n``."""
    nics.ports.made[n, why] += 1
    nics.ports.port_made[n, head.from_port, why] += 1
    _log(nics, n, 0, why, packet, head)


@step
def count_ended(nics, d, packet, head, what):
    """Count the outcome of a packet that has arrived at node ``d``."""
    nics.ports.ended[d, what] += 1
    nics.ports.port_sent[packet.sender, head.from_port, what] += 1
    nics.ports.port_came[d, port_of_arrival(nics, d, head), what] += 1
    _tally(nics, d, packet, head, what)
    _log(nics, d, 1, what, packet, head)


@step
def _tally(nics, d, packet, head, what):
    if what in (LOST, CUT_OFF, OVERTAKEN):
        return  # it has not come
    tallies = nics.ports.tallies
    tallies[d, PACKETS_IN] += 1 + head.further
    tallies[d, PAYLOAD_IN] += packet.payload
    if what == DELIVERED:
        tally_request(nics, d, head)
    elif what == DUPLICATE and head.kind in (layout.SEND, layout.WRITE, layout.FETCH):
        tallies[d, HAD_BEFORE] += is_reliable(nics.ports, stream_to(nics.ports, d, head.peer))


@step
def _log(nics, node, came, what, packet, head):
    """Keep one record for the observer, if there is room."""
    ports = nics.ports
    if ports.happened[0] < ports.happenings.size:
        _write_record(nics, node, came, what, packet, head)
    ports.happened[0] += 1


@routine
def _write_record(nics, node, came, what, packet, head):
    record = nics.ports.happenings[nics.ports.happened[0]]
    record.time = nics.tally[0].now
    record.node = node
    record.came = came
    record.what = what
    record.sender = packet.sender
    record.number = packet.number
    record.destination = packet.destination
    record.kind = head.kind
    record.sequence = head.sequence
    record.copied = head.copied
    record.payload = packet.payload
    _name_descriptor(nics, node, packet, head, record)


@step
def _name_descriptor(nics, node, packet, head, record):
    """Say for which descriptor a packet is made: an answer for the one that asked, over there."""
    ports = nics.ports
    record.of = node
    record.port = head.from_port
    record.cookie = -1
    if head.kind == layout.REPLY:
        record.of = packet.destination
        record.port = head.name
    elif head.kind in (layout.ACKNOWLEDGEMENT, layout.PROBE):
        record.port = stream_to(ports, node, head.own).port
        return
    if record.port <= layout.OWN_PORT or record.port >= ports.table.shape[1]:
        return
    pending = ports.pending[record.of, record.port, head.slot]
    if pending.busy == 1 and (head.kind == layout.REPLY or pending.number == head.cookie):
        record.cookie = pending.cookie
