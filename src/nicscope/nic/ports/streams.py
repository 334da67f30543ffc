"""Streams between pairs of nodes: kept in pools, marked for what is due; datagrams have none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.clock import NEVER
from nicscope.kernel.decorators import copy_bytes, routine, step
from nicscope.kernel.layout import Growing, renew
from nicscope.kernel.records import longer
from nicscope.memory_limit import check_memory, zeroed
from nicscope.nic.delivery import PACKET, place_in
from nicscope.nic.ports import layout
from nicscope.nic.transport import TRANSPORT, distance

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.memory_limit import Shapes


# State that a node keeps for a peer: the transport's own record, and more.
STREAM = np.dtype(
    [
        ("node", "i8"),  # the peer's, of a connection's own stream
        ("there", "i8"),  # the number that the peer has for it
        ("urgent", "i8"),  # 1: an acknowledgement is to go now
        ("retransmitting", "i8"),  # 1: packets are to be retransmitted
        ("heard_at", "i8"),  # ps: when a packet of the peer was last in
        ("message_due_at", "i8"),  # ps, or NEVER: when a begun message is overdue
        ("timed_out_at", "i8"),  # for the observer: when the retransmission timer last expired
        ("fetching", "i8"),  # fetches that wait for their answers
        ("missed", "i8"),  # the packet that was dropped for want of its translation, or -1
        ("route", "i8"),  # how often the way there has been changed, by either end
        ("back", "i8"),  # the path by which the peer is to answer since then
        ("tried", "i8"),  # 1: a route was looked for, and nothing has been acknowledged since
        ("unwanted", "i8"),  # the packet that its port dropped last, or -1
        ("unwanted_times", "i8"),
        ("laid", "i8"),  # of one that goes to several pages: how many it had found then
        ("missed_handle", "i8"),  # or for want of a handle
        ("missed_at", "i8"),  # the lookup that it was: 1 buffer, 2 process
        ("waits", "i8"),  # the one that was dropped last for want of something, or -1
        ("since", "i8"),  # ps: when it was first
        ("hopeless", "i8"),  # the packet for whose page the host had no frame, or -1
        ("rejects", "u8"),  # which of the last 64 packets confirmed were rejected
        ("oldest_kept", "i8"),  # of the packets not acknowledged, a chain in the pool; or NO_ENTRY
        ("newest_kept", "i8"),
        ("stores", "i8"),  # its row of the stores that arrive, or 0
        ("level", "i8"),  # what it promises
        ("port", "i8"),  # whose connection it is, of one with a stream of its own
        ("verdict", "i8"),  # how this end has ended the connection, or 0
        ("answers", "i8"),  # that a queue pair owes, or that are not acknowledged
        ("pending_verdict", "i8"),  # the verdict to send when no answer is owed any more, or 0
        ("pending_error", "i8"),  # and the asynchronous error of its process then
        ("heard", "i8"),  # 1: the other end is known to have ended it too
        ("time_out", "i8"),  # ps, of its own; 0: as the cluster's transport
        ("tries", "i8"),  # 1 more than its own retries; 0: likewise
        ("rnr_delay", "i8"),  # RNR timer (ps) that the peer is to be sent, or 0
        ("rnr_waiting", "i8"),  # 1: waiting after an RNR NAK of the peer
        ("rests", "i8"),  # RNR NAKs since the last progress
        ("first", "i8"),  # the number before which the peer cannot have sent, if ``begins`` is 1
        ("begins", "i8"),
        ("max_rnr_retries", "i8"),  # RNR retries; negative: any number
        # Of a way of datagrams:
        ("channel", "i8"),  # where its messages arrive, or 0
        ("begun", "i8"),  # messages
        ("amid", "i8"),  # the port that has sent a part of a message, or 0
        # Last: a record that begins as another does is one of that kind to the compiler.
        *((name, "i8") for name in TRANSPORT.names or ()),
    ],
    align=True,
)
# The store that arrives from a port of another node.
STORING = np.dtype([("message", "i8"), ("arrived", "i8")], align=True)  # its number, its bytes
# How far the pools are used.
POOLS = np.dtype(
    [
        ("streams", "i8"),  # the blank one among them
        ("stores", "i8"),  # rows, likewise
        ("kept", "i8"),  # packets not acknowledged
        ("unused", "i8"),  # the first entry without one, of a chain
        ("most_kept", "i8"),  # packets that one event may add
    ],
    align=True,
)
ROOM = 2  # in ``tally.wants``: a pool has not what the next event may add
BLANK = 0  # the stream of pairs that have not talked: nobody writes to it
NO_ENTRY = -1
AT_ONCE = 2  # streams, and rows of stores, that one event may add: it is about one packet
FIRST = 256  # of each pool, to begin with


class Pools(Growing):
    """Streams by number, the stores that arrive by them, packets that wait to be acknowledged."""

    streams: NDArray[Any]  # STREAM
    storing: NDArray[Any]  # STORING, shape (rows, ports): by the port that they come from
    packets: NDArray[Any]  # PACKET
    heads: NDArray[Any]  # HEAD, likewise
    inline: NDArray[np.uint8]  # shape (packets, INLINE_BYTES)
    behind: NDArray[np.int64]  # shape (packets,): the next of its chain, or NO_ENTRY


def pool_shapes(ports: int, send_ring: int) -> Shapes:
    """The pools of a cluster whose nodes have ``ports`` ports, when nothing has been sent."""
    packets = FIRST + most_kept(send_ring)
    return {
        "streams": ((FIRST + AT_ONCE,), STREAM),
        "storing": ((FIRST + AT_ONCE, ports), STORING),
        "packets": ((packets,), PACKET),
        "heads": ((packets,), layout.HEAD),
        "inline": ((packets, layout.INLINE_BYTES), np.dtype(np.uint8)),
        "behind": ((packets,), np.dtype(np.int64)),
    }


def most_kept(send_ring: int) -> int:
    """Packets that one event may add: each takes a place of its node's send ring, at most all."""
    return send_ring + 1


def new_pools(ports: int, send_ring: int, pool: NDArray[Any]) -> Pools:
    """The pools, of which ``pool`` (POOLS, shape (1,)) now says that nothing is used."""
    pools = Pools(zeroed(pool_shapes(ports, send_ring)))
    blank = pools.streams[BLANK]
    for name in ("retransmit_at", "ack_at", "message_due_at"):
        blank[name] = NEVER
    for name in ("missed", "unwanted", "missed_handle", "hopeless", "waits"):
        blank[name] = -1
    blank["oldest_kept"] = NO_ENTRY
    pool["streams"] = BLANK + 1
    pool["stores"] = 1
    pool["unused"] = NO_ENTRY
    pool["most_kept"] = most_kept(send_ring)
    _chain(pools, pool, 0)
    return pools


def _chain(pools: Pools, pool: NDArray[Any], begin: int) -> None:
    """Entries from ``begin`` on hold nothing: the lowest is used first."""
    pools.behind[begin:] = np.arange(begin + 1, pools.behind.size + 1)
    pools.behind[-1] = pool[0]["unused"]
    pool["unused"] = begin


def grow(pools: Pools, pool: NDArray[Any]) -> None:
    """Double each pool that has not what one event may add.  Errors: ``RoomError``."""
    used = pool[0]
    if lacks(pools.streams.size, used["streams"], AT_ONCE):
        _double(pools, "streams")
    if lacks(len(pools.storing), used["stores"], AT_ONCE):
        _double(pools, "storing")
    if lacks(pools.behind.size, used["kept"], used["most_kept"]):
        size = pools.behind.size
        _double(pools, "packets", "heads", "inline", "behind")
        _chain(pools, pool, size)


def _double(pools: Pools, *names: str) -> None:
    arrays = {name: getattr(pools, name) for name in names}
    check_memory(
        2 * sum(array.nbytes for array in arrays.values()),
        "what the nodes of this cluster keep for each other",
        "ask for fewer nodes, or have fewer of them talk",
    )
    for name, array in arrays.items():
        setattr(pools, name, longer(array, 2 * len(array)))
    renew(pools)


@step
def lacks(size, used, at_once):
    """Whether a pool of ``size`` has no room for ``at_once`` more than the ``used`` in it."""
    return size - used < at_once


MARKS = 5  # bits of a peer's number that say which mark of a word is its own


@step
def stream_to(ports, n, d):
    """What node ``n`` keeps about ``d``, to be read: a blank record if they have not talked."""
    return ports.pools.streams[ports.stream_of[n, d]]


@step
def packets_of(nics, n, d, head, begin, count):
    """How many packets would carry ``count`` bytes from byte ``begin`` of the message of ``head``.

    They end at the connection's unit, and at pages' ends: at its sender, and where a remote write
    goes.  ``d``: its stream at ``n``.
    """
    ports = nics.ports
    p = stream_to(ports, n, d).port
    packets = np.int64(1)
    if p == layout.OWN_PORT:
        return packets  # a datagram
    unit = max(np.int64(1), ports.channels[n, ports.table[n, p].channel].unit)
    end = begin + count
    begin = _end_of_packet(ports, head, unit, begin)
    while begin < end:
        packets += 1
        begin = _end_of_packet(ports, head, unit, begin)
    return packets


@step
def _end_of_packet(ports, head, unit, begin):
    """Where a packet of the message of ``head`` that begins at byte ``begin`` would end at most."""
    page = np.int64(1) << ports.rules[0].page_bits
    count = min(unit - begin % unit, page - ((head.into + begin) & (page - 1)))
    if head.kind == layout.WRITE:
        there = head.remote - head.offset + begin
        count = min(count, page - (there & (page - 1)))
    return begin + count


@step
def is_reliable(ports, stream):
    """Whether packets of ``stream`` are retransmitted until they are acknowledged.

    A connection with a stream of its own may promise less than its cluster's transport, or more.
    """
    if stream.level == layout.AS_ALL:
        return ports.rules[0].reliable == 1
    return stream.level != layout.UNRELIABLE


@step
def is_of_work(nics, d, head):
    """Whether the packet of ``head`` is for a port with work queues."""
    ports = nics.ports
    if head.datagram == 1:
        return True
    p = stream_to(ports, d, head.peer).port
    return p != layout.OWN_PORT and ports.table[d, p].takes == layout.WORK_QUEUE


@step
def destination_port_of(ports, d, head):
    """Destination port of a packet: its tag's, or the one that a datagram names."""
    return head.remote if head.datagram == 1 else ports.channels[d, head.name].port


@step
def node_of(ports, n, d):
    """The node of peer ``d`` of ``n``: itself, or the other end's of a connection."""
    return d if d < ports.stream_of.shape[0] else stream_to(ports, n, d).node


@step
def remote_stream_of(ports, n, d):
    """Number that peer ``d`` of node ``n`` has for their stream."""
    return n if d < ports.stream_of.shape[0] else stream_to(ports, n, d).there


@step
def is_own_peer(ports, n, d):
    """Whether the stream of ``n`` to ``d`` is a loopback."""
    return node_of(ports, n, d) == n and remote_stream_of(ports, n, d) == d


@step
def peer_of(record):
    """The peer that a channel or an import names: its own stream, or the node."""
    return record.stream if record.stream != 0 else record.node


@step
def open_stream(nics, n, d):
    """What node ``n`` keeps about ``d``, to be written; with their first packet it is made."""
    ports = nics.ports
    if ports.stream_of[n, d] == BLANK:
        _make_stream(nics, n, d)
    return ports.pools.streams[ports.stream_of[n, d]]


@routine
def _make_stream(nics, n, d):
    ports = nics.ports
    pool = ports.pool[0]
    streams = ports.pools.streams
    ports.stream_of[n, d] = pool.streams
    streams[pool.streams] = streams[BLANK]
    pool.streams += 1
    if lacks(streams.size, pool.streams, AT_ONCE):
        nics.tally[0].wants |= ROOM


@step
def store_from(nics, n, d, p):
    """The store that arrives at node ``n`` from port ``p`` of ``d``, whose stream is there."""
    ports = nics.ports
    stream = stream_to(ports, n, d)
    if stream.stores == 0:
        pool = ports.pool[0]
        stream.stores = pool.stores
        pool.stores += 1
        if lacks(ports.pools.storing.shape[0], pool.stores, AT_ONCE):
            nics.tally[0].wants |= ROOM
    return ports.pools.storing[stream.stores, p]


@step
def keep_unacknowledged(nics, stream, packet, head, inline):
    """Keep a packet, with the bytes of its descriptor, as the newest of ``stream``."""
    ports = nics.ports
    pool = ports.pool[0]
    pools = ports.pools
    entry = pool.unused
    pool.unused = pools.behind[entry]
    pool.kept += 1
    pools.packets[entry] = packet
    pools.heads[entry] = head
    copy_bytes(pools.inline[entry], 0, inline, 0, layout.INLINE_BYTES)
    pools.behind[entry] = NO_ENTRY
    if stream.oldest_kept == NO_ENTRY:
        stream.oldest_kept = entry
    else:
        pools.behind[stream.newest_kept] = entry
    stream.newest_kept = entry
    if lacks(pools.behind.size, pool.kept, pool.most_kept):
        nics.tally[0].wants |= ROOM


@step
def entry_of(ports, stream, sequence):
    """Where the packet of ``stream`` with that number is kept."""
    entry = stream.oldest_kept
    for _ in range(distance(sequence, stream.oldest)):
        entry = ports.pools.behind[entry]
    return entry


@step
def take_oldest(ports, stream):
    """Take the oldest packet out of ``stream``; its entry, which is to be given back."""
    entry = stream.oldest_kept
    stream.oldest_kept = ports.pools.behind[entry]
    return entry


@step
def free_entry(ports, entry):
    """Free the ``entry`` of a packet."""
    pool = ports.pool[0]
    ports.pools.behind[entry] = pool.unused
    pool.unused = entry
    pool.kept -= 1


@step
def mark(ports, marks, n, d):
    """Set the mark of the stream of ``n`` to ``d``: something may be due."""
    ports.nodes[n].last_marked = max(ports.nodes[n].last_marked, d)
    marks[n, d >> MARKS] |= np.int64(1) << (d & ((1 << MARKS) - 1))


@step
def unmark(marks, n, d):
    """Clear the mark of the stream of ``n`` to ``d``."""
    marks[n, d >> MARKS] &= ~(np.int64(1) << (d & ((1 << MARKS) - 1)))


@step
def next_marked(marks, n, d, end):
    """The first stream of ``n`` from ``d`` up to ``end`` whose mark is set, or ``end``."""
    while d < end:
        left = marks[n, d >> MARKS] >> (d & ((1 << MARKS) - 1))
        if left == 0:
            d = ((d >> MARKS) + 1) << MARKS
        elif left & 1:
            return d
        else:
            d += 1
    return end


GRH_BYTES = 40  # bytes: a global routing header (IBA, 11.4.1.2)


@step
def grh_bytes_of(head):
    """Bytes left for a global routing header before the message of ``head`` in its receive."""
    return GRH_BYTES * head.datagram


# At the end that sends.


@step
def has_datagram_stream(nics, n, port):
    """Whether the descriptor of ``port``, a datagram, names an open stream of datagrams."""
    of = nics.ports.stream_of
    if port.operation != layout.SEND or port.offset < of.shape[0] or port.offset >= of.shape[1]:
        return False
    if of[n, port.offset] == BLANK:
        return False
    return stream_to(nics.ports, n, port.offset).channel != 0


@step
def number_datagram(nics, n, port):
    """Message number, on its stream, of the datagram that ``port`` begins."""
    stream = open_stream(nics, n, port.offset)
    stream.begun += 1
    return stream.begun


@step
def is_datagram_blocked(nics, n, p):
    """Whether port ``p`` must wait: another port is amid a datagram on the same stream."""
    port = nics.ports.table[n, p]
    if port.datagrams == 0:
        return False
    amid = stream_to(nics.ports, n, port.offset).amid
    return amid != layout.OWN_PORT and amid != p


@step
def address_datagram(nics, n, p, head):
    """Address the current datagram of port ``p`` and reserve its stream."""
    port = nics.ports.table[n, p]
    head.datagram = 1
    head.name = port.name
    open_stream(nics, n, port.offset).amid = p


@step
def end_datagram(nics, n, p):
    """End the current datagram of port ``p``: its stream is free for other ports."""
    port = nics.ports.table[n, p]
    if port.datagrams == 1 and port.busy == 1 and has_datagram_stream(nics, n, port):
        stream = open_stream(nics, n, port.offset)
        if stream.amid == p:
            stream.amid = layout.OWN_PORT
            nics.ports.nodes[n].attention = 1


# At the other end.


@step
def resolve_datagram_port(nics, d, head):
    """Find the port of the datagram of ``head``; none unless its Q_Key matches."""
    table = nics.ports.table
    p = head.name
    head.name = stream_to(nics.ports, d, head.peer).channel
    head.remote = layout.NOBODY
    if p >= table.shape[1] or head.name == 0 or not accepts_datagrams(nics, d, p):
        return
    if table[d, p].qkey == head.swap:
        head.remote = p


@step
def accepts_datagrams(nics, d, p):
    """Whether datagrams may come for port ``p``."""
    if p <= layout.OWN_PORT:
        return False
    port = nics.ports.table[d, p]
    return (
        port.open == 1
        and port.takes == layout.WORK_QUEUE
        and port.datagrams == 1
        and port.state == layout.CONNECTED
    )


@step
def write_grh(nics, d, p, number, head):
    """Write the source node and port of a datagram into the report of receive ``number``."""
    place = place_in(number, nics.ports.rules[0].ring)
    report = nics.ports.reports[d, p, layout.RECEIVED, place]
    report.node = stream_to(nics.ports, d, head.peer).node
    report.offset = head.from_port
