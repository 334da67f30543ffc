"""Streams at work: found, made, marked for what is due, their packets kept.

A node numbers its *peers*: first the nodes, with each of which it has one stream, then the
connections that have streams of their own, where a design gives them such.

A node's streams are walked in the order of their peers.  Where only those count that have a
deadline or a wish, marks say which may have one: a bit a pair, cleared when it is found idle.
"""

from __future__ import annotations

import numpy as np

from nicscope.kernel.bytecopy import copy_bytes
from nicscope.kernel.decorators import routine, step
from nicscope.nic.ports.layout import AS_ALL, INLINE_BYTES, ONE, OWN_PORT, UNRELIABLE
from nicscope.nic.ports.pools import AT_ONCE, BLANK, NO_ENTRY, ROOM, lacks
from nicscope.nic.transport import distance

MARKS = 5  # bits of a peer's number that say which mark of a word is its own


@step
def stream_to(ports, n, d):
    """What node ``n`` keeps about ``d``, to be read: a blank record if they have not talked."""
    return ports.pools.streams[ports.stream_of[n, d]]


@step
def is_reliable(ports, stream):
    """Whether what goes by ``stream`` goes again until it is acknowledged.

    A connection with a stream of its own may promise less than its cluster's transport, or more.
    """
    if stream.level == AS_ALL:
        return ports.rules[0].reliable == 1
    return stream.level != UNRELIABLE


@step
def is_of_work(nics, d, head):
    """Whether the packet of ``head`` came by a connection of a port with work queues."""
    ports = nics.ports
    if head.datagram == 1:
        return True
    p = stream_to(ports, d, head.peer).port
    return p != OWN_PORT and ports.table[d, p].takes == ONE


@step
def taker_of(ports, d, head):
    """The port that a packet of a message is for: its tag's, or what a datagram names."""
    return head.remote if head.datagram == 1 else ports.channels[d, head.name].port


@step
def node_of(ports, n, d):
    """The node of peer ``d`` of ``n``: itself, or the other end's of a connection."""
    return d if d < ports.stream_of.shape[0] else stream_to(ports, n, d).node


@step
def known_there_as(ports, n, d):
    """What peer ``d`` of node ``n`` knows their stream by."""
    return n if d < ports.stream_of.shape[0] else stream_to(ports, n, d).there


@step
def is_own_peer(ports, n, d):
    """Whether both ends of the stream of ``n`` to ``d`` are one."""
    return node_of(ports, n, d) == n and known_there_as(ports, n, d) == d


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
def keep_packet(nics, stream, packet, head, inline):
    """Keep a packet, with the bytes of its descriptor, as the newest of ``stream``."""
    ports = nics.ports
    pool = ports.pool[0]
    pools = ports.pools
    entry = pool.unused
    pool.unused = pools.behind[entry]
    pool.kept += 1
    pools.packets[entry] = packet
    pools.heads[entry] = head
    copy_bytes(pools.inline[entry], 0, inline, 0, INLINE_BYTES)
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
def give_entry_back(ports, entry):
    """The packet in ``entry`` is forgotten."""
    pool = ports.pool[0]
    ports.pools.behind[entry] = pool.unused
    pool.unused = entry
    pool.kept -= 1


@step
def mark(marks, n, d):
    """Note that the stream of ``n`` to ``d`` may have something due."""
    marks[n, d >> MARKS] |= np.int64(1) << (d & ((1 << MARKS) - 1))


@step
def unmark(marks, n, d):
    """Note that it has nothing due."""
    marks[n, d >> MARKS] &= ~(np.int64(1) << (d & ((1 << MARKS) - 1)))


@step
def next_marked(marks, n, d, nodes):
    """The first peer of ``n`` from ``d`` on whose mark is set, or ``nodes``."""
    while d < nodes:
        left = marks[n, d >> MARKS] >> (d & ((1 << MARKS) - 1))
        if left == 0:
            d = ((d >> MARKS) + 1) << MARKS
        elif left & 1:
            return d
        else:
            d += 1
    return nodes
