"""Work queues: receives that say where one message goes, registered memory, completion queues.

A port that takes ONE (``layout``) has a peer, as a VI or a queue pair has.  Its process posts
receives, each a list of pieces of registered memory; a message takes the oldest.  A completion
queue announces ends of several ports' work in one place.  Clusters without such ports have arrays
of no length here, but for where payloads go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.nic.ports.layout import SEGMENT
from nicscope.room import zeroed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.room import Shapes

TROUBLES = 16  # of a port that are kept, the newest

# Errors that no descriptor tells of (``WorkQueues.troubles``).
POSTED_BADLY = 0  # a request was refused
CONNECTION_LOST = 1
RECEIVES_EMPTY = 2  # a message found no receive
WRITE_REFUSED = 4  # a remote write may not go where it names
FETCH_REFUSED = 7
RECEIVE_FAILED = 8  # a message did not fit the receive that it took
QUEUE_FULL = 10  # a completion found no room in its completion queue
RECEIVES_LOW = 11  # fewer receives are left than the process wished to be told of
REQUEST_INVALID = 12  # a request that nobody may make here, or that names no word

RECEIVE = np.dtype(
    [
        ("cookie", "i8"),
        ("segments", "i8"),
        ("length", "i8"),  # bytes of all of them
        ("status", "i8"),  # what the library or the NIC found when it was posted
        ("kept", "i8"),  # 1: its pages stay pinned for it
        ("queue", "i8"),  # 1 more than where its end is announced beside, or 0
        ("serial", "i8"),  # how many its port has had before: what stays when its number changes
    ],
    align=True,
)
REGION = np.dtype(
    [
        ("key", "i8"),  # 0: none; its place is the remainder
        ("space", "i8"),
        ("domain", "i8"),  # ports with the same may use it
        ("address", "i8"),
        ("length", "i8"),
        ("rights", "i8"),  # of their peers, and what nobody may
        ("port", "i8"),  # the only one that may have it used, of a window; or 0
        ("shift", "i8"),  # bytes from the addresses that name it to those of its memory
        ("kind", "i8"),  # 1: of a window; 2: of one that only the port may use which bound it
        ("of", "i8"),  # the key of the region that a window is a part of, or 0
    ],
    align=True,
)
QUEUE = np.dtype(
    [
        ("open", "i8"),
        ("entries", "i8"),  # that it has room for
        ("written", "i8"),
        ("shown", "i8"),  # of these, what has crossed to the host's memory
        ("read", "i8"),
        ("notices", "i8"),  # 1 more than the queue where its entries are announced too, or 0
    ],
    align=True,
)
ENTRY = np.dtype(
    [
        ("port", "i8"),  # whose work has ended; NOBODY: it is to be passed by
        ("side", "i8"),  # SENT, ...
        ("number", "i8"),  # of the report, if that is of a receive
        ("urgent", "i8"),  # 1: it has failed, or its sender wants it seen
    ],
    align=True,
)
RUN = np.dtype(
    [
        ("address", "i8"),  # physical
        ("count", "i8"),  # bytes
        ("key", "i8"),  # of its translation, which is held, or NO_KEY
        ("frame", "i8"),
        ("generation", "i8"),
        ("before", "i8"),  # bytes of the same piece, and behind
        ("after", "i8"),
    ],
    align=True,
)


class WorkQueues(NamedTuple):
    """All with the node first."""

    receives: NDArray[Any]  # RECEIVE, shape (nodes, ports, receives)
    pieces: NDArray[Any]  # SEGMENT, shape (nodes, ports, receives, segments)
    regions: NDArray[Any]  # REGION, shape (nodes, regions)
    queues: NDArray[Any]  # QUEUE, shape (nodes, queues)
    entries: NDArray[Any]  # ENTRY, shape (nodes, queues, entries)
    runs: NDArray[Any]  # RUN, shape (nodes, receive_ring, runs): where arriving payloads go
    # SEGMENT, shape (nodes, receive_ring, 1): where the export of an arriving store is redirected
    redirected: NDArray[Any]
    fetched: NDArray[Any]  # SEGMENT, shape (nodes, ports, ring, segments): where answers go
    # Shape (nodes, ports, ring): the token of a descriptor in its host's memory that the NIC has
    # not fetched, 0 of one that is on the NIC.
    tokens: NDArray[np.int64]
    # SEGMENT, of the same shape: where in registered memory a descriptor is, of no length if on the
    # NIC from the first.
    descriptors: NDArray[Any]
    troubles: NDArray[np.int64]  # shape (nodes, ports, TROUBLES)


def work_shapes(extent: Any) -> Shapes:
    """The arrays of ``WorkQueues`` for an ``Extent``."""
    n, p, receives, segments = extent.nodes, extent.ports, extent.receives, extent.segments
    has = 1 if receives else 0
    # What comes for an exported buffer, too, may go to two places, if that is redirected.
    scattered = extent.rings[1] if receives or extent.exports else 0
    return {
        "receives": ((n, p, receives), RECEIVE),
        "pieces": ((n, p, receives, segments), SEGMENT),
        "regions": ((n, extent.regions), REGION),
        "queues": ((n, extent.queues), QUEUE),
        "entries": ((n, extent.queues, extent.entries), ENTRY),
        # A payload is at most a page: each of its pieces may lie over the end of one.
        "runs": ((n, scattered, 2 * (segments if has else 1)), RUN),
        "redirected": ((n, scattered, 1), SEGMENT),
        "fetched": ((n, p, has * extent.ring, segments), SEGMENT),
        "tokens": ((n, p, has * extent.ring), np.dtype(np.int64)),
        "descriptors": ((n, p, has * extent.ring), SEGMENT),
        "troubles": ((n, p, TROUBLES if has or extent.queues else 0), np.dtype(np.int64)),
    }


def new_work_queues(extent: Any) -> WorkQueues:
    """Nothing posted, registered or open."""
    return WorkQueues(**zeroed(work_shapes(extent)))
