"""What RDMA NICs count and no other count here says: by node, the observer's.

Packets are counted as they cross the node's own end of the link: once each when they leave, for
what the network makes of them is no work of the NIC's; and when they come, as often as they do.
"""

from __future__ import annotations

from nicscope.kernel.decorators import step
from nicscope.nic.ports.flushes import is_flush
from nicscope.nic.ports.layout import FETCH, IDLE, SEND, WRITE
from nicscope.nic.ports.streams import is_of_work, is_reliable, stream_to

TALLY_NAMES = (
    "packets_out",
    "payload_out",  # bytes
    "packets_in",
    "payload_in",
    "writes_in",  # messages that have been taken
    "reads_in",
    "atomics_in",
    "had_before",  # packets of requests
    "rests",  # times that a peer without a receive has asked to be left alone
    "time_outs",  # times that a peer was not heard of in time, and not given up for that
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
def tally_left(nics, n, packet, head):
    """The last byte of a packet has left node ``n``; a copy of it is the network's."""
    if head.copied == 1:
        return
    tallies = nics.ports.tallies
    tallies[n, PACKETS_OUT] += 1
    tallies[n, PAYLOAD_OUT] += packet.payload


@step
def tally_came(nics, d, packet):
    """A packet has come to node ``d``, whatever is made of it."""
    tallies = nics.ports.tallies
    tallies[d, PACKETS_IN] += 1
    tallies[d, PAYLOAD_IN] += packet.payload


@step
def tally_request(nics, d, head):
    """A packet for node ``d`` has had its effect; what counts is the last one of a message."""
    if head.last == 0 or not is_of_work(nics, d, head):
        return
    tallies = nics.ports.tallies
    if head.kind == WRITE:
        tallies[d, WRITES_IN] += 1
    elif head.kind == FETCH:
        if head.atomic != 0:
            tallies[d, ATOMICS_IN] += 1
        elif not is_flush(head):
            tallies[d, READS_IN] += 1


@step
def tally_again(nics, d, head):
    """A packet that had come to node ``d`` before has come again."""
    is_request = head.kind in (SEND, WRITE, FETCH)
    if is_request and is_reliable(nics.ports, stream_to(nics.ports, d, head.peer)):
        nics.ports.tallies[d, HAD_BEFORE] += 1


@step
def tally_told(nics, n, p, side, status):
    """Work at port ``p`` has ended; with a queue pair that is reset it goes, and nobody is told."""
    port = nics.ports.table[n, p]
    if port.by_verbs == 0 or port.state != IDLE:
        nics.ports.told_by_side[n, side, status] += 1
