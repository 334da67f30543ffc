"""What a cluster keeps for pairs of nodes that talk, in pools that grow.

Of a thousand nodes on one switch most pairs never talk, and of those that do few have packets on
the way at once.  So a pair has a number, ``Ports.stream_of``, and no more until its first packet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.clock import NEVER
from nicscope.kernel.decorators import step
from nicscope.kernel.growing import Growing
from nicscope.kernel.layout import renew
from nicscope.kernel.records import longer
from nicscope.nic.delivery import PACKET
from nicscope.nic.ports.layout import HEAD, INLINE_BYTES
from nicscope.nic.transport import TRANSPORT
from nicscope.room import check_room, zeroed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.room import Shapes

# What a node keeps about a node that it talks with: the transport's own record, and more.
STREAM = np.dtype(
    [
        ("node", "i8"),  # the peer's, of a connection's own stream
        ("there", "i8"),  # what the peer knows it by
        ("urgent", "i8"),  # 1: an acknowledgement is to go now
        ("resending", "i8"),  # 1: packets are to go again
        ("heard_at", "i8"),  # ps: when a packet of the peer was last in
        ("rest_at", "i8"),  # ps, or NEVER: when the rest of a message should have come
        ("ran_out_at", "i8"),  # for the observer: when its packets last had to go again
        ("fetching", "i8"),  # questions that wait for their answers
        ("missed", "i8"),  # the packet that was dropped for want of its translation, or -1
        ("route", "i8"),  # how often the way there has been changed, by either end
        ("back", "i8"),  # the path by which the peer is to answer since then
        ("tried", "i8"),  # 1: a route was looked for, and nothing has been acknowledged since
        ("unwanted", "i8"),  # the one that was last turned away by its port, or -1
        ("unwanted_times", "i8"),
        ("laid", "i8"),  # of one that goes to several pages: how many it had found then
        ("missed_handle", "i8"),  # or for want of a handle
        ("missed_at", "i8"),  # the lookup that it was: 1 buffer, 2 process
        ("waits", "i8"),  # the one that was dropped last for want of something, or -1
        ("since", "i8"),  # ps: when it was first
        ("hopeless", "i8"),  # the one for whose page the host had no frame, or -1
        ("rejects", "u8"),  # which of the last 64 packets confirmed were rejected
        ("oldest_kept", "i8"),  # of the packets not acknowledged, a chain in the pool; or NO_ENTRY
        ("newest_kept", "i8"),
        ("stores", "i8"),  # its row of the stores that arrive, or 0
        ("level", "i8"),  # what it promises
        ("port", "i8"),  # whose connection it is, of one with a stream of its own
        ("verdict", "i8"),  # how this end has ended the connection, or 0
        ("answers", "i8"),  # that a queue pair owes, or that are not acknowledged
        ("sentence", "i8"),  # the verdict when there are none any more, or 0
        ("charge", "i8"),  # and what its process is told then
        ("heard", "i8"),  # 1: the other end is known to have ended it too
        ("time_out", "i8"),  # ps, of its own; 0: as the cluster's transport
        ("tries", "i8"),  # 1 more than its own retries; 0: likewise
        ("unready", "i8"),  # ps that the peer is to be told to wait, or 0
        ("resting", "i8"),  # 1: the peer has asked to be tried again later
        ("rests", "i8"),  # how often since the last progress
        ("first", "i8"),  # the number before which the peer cannot have sent, if ``begins`` is 1
        ("begins", "i8"),
        ("most_rests", "i8"),  # that may be; negative: any number
        # Of a way of datagrams:
        ("channel", "i8"),  # where its messages arrive, or 0
        ("begun", "i8"),  # messages
        ("amid", "i8"),  # the port of which a part of a message has left, or 0
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
        "heads": ((packets,), HEAD),
        "inline": ((packets, INLINE_BYTES), np.dtype(np.uint8)),
        "behind": ((packets,), np.dtype(np.int64)),
    }


def most_kept(send_ring: int) -> int:
    """Packets that one event may add: each takes a place of its node's send ring, at most all."""
    return send_ring + 1


def new_pools(ports: int, send_ring: int, pool: NDArray[Any]) -> Pools:
    """The pools, of which ``pool`` (POOLS, shape (1,)) now says that nothing is used."""
    pools = Pools(zeroed(pool_shapes(ports, send_ring)))
    blank = pools.streams[BLANK]
    for name in ("resend_at", "ack_at", "rest_at"):
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
    check_room(
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
