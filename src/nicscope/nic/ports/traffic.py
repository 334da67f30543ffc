"""What becomes of packets: counts of those that are made, and of those that have come.

Every packet that a NIC makes is counted once, and every one that has come once, when it is done
with; so none is missing and none is counted twice (``docs/programs.md``, Counts).
"""

from __future__ import annotations

import numpy as np

from nicscope.kernel.decorators import routine, step
from nicscope.nic.ports.accounts import port_of_arrival
from nicscope.nic.ports.layout import ACKNOWLEDGEMENT, OWN_PORT, PROBE, REPLY
from nicscope.nic.ports.streams import stream_to
from nicscope.nic.ports.tallies import tally_again, tally_came, tally_request

# Why a packet is made.
FIRST = 0  # something is sent for the first time
AGAIN = 1  # it was not acknowledged in time
BARE = 2  # an acknowledgement that found no other packet to go with
COPIED = 3  # by the network, which doubles packets or has them overtaken
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
TAKEN_BACK = 8  # one before it came in vain, so it must come again
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
HAPPENING = np.dtype(
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
    """A packet waits for the engines of node ``n``."""
    nics.ports.made[n, why] += 1
    nics.ports.port_made[n, head.from_port, why] += 1
    _log(nics, n, 0, why, packet, head)


@step
def count_ended(nics, d, packet, head, what):
    """A packet that has come to node ``d`` is done with."""
    nics.ports.ended[d, what] += 1
    nics.ports.port_sent[packet.sender, head.from_port, what] += 1
    nics.ports.port_came[d, port_of_arrival(nics, d, head), what] += 1
    _tally(nics, d, packet, head, what)
    _log(nics, d, 1, what, packet, head)


@step
def _tally(nics, d, packet, head, what):
    if what in (LOST, CUT_OFF, OVERTAKEN):
        return  # it has not come
    tally_came(nics, d, packet)
    if what == DELIVERED:
        tally_request(nics, d, head)
    elif what == DUPLICATE:
        tally_again(nics, d, head)


@step
def _log(nics, node, came, what, packet, head):
    """Keep one record for the observer, if there is room."""
    ports = nics.ports
    if ports.happened[0] < ports.happenings.size:
        _write_down(nics, node, came, what, packet, head)
    ports.happened[0] += 1


@routine
def _write_down(nics, node, came, what, packet, head):
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
    if head.kind == REPLY:
        record.of = packet.destination
        record.port = head.name
    elif head.kind in (ACKNOWLEDGEMENT, PROBE):
        record.port = stream_to(ports, node, head.own).port
        return
    if record.port <= OWN_PORT or record.port >= ports.table.shape[1]:
        return
    pending = ports.pending[record.of, record.port, head.slot]
    if pending.busy == 1 and (head.kind == REPLY or pending.number == head.cookie):
        record.cookie = pending.cookie
