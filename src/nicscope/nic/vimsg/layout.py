"""What VI-MSG keeps on the NIC: registrations and their translations, VIs, descriptors, rooms.

Numbers of records are places in these arrays; ``NOWHERE`` is none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.kernel.records import longer, records
from nicscope.nic.transport import TRANSPORT

if TYPE_CHECKING:
    from numpy.typing import NDArray

NOWHERE = -1
PAGE = 4096  # bytes
FIRST_PAGE = 0x40000  # virtual: no virtual address is an address of the host by chance
ROOM_BLOCK = 128  # bytes; rooms begin on blocks, so that engines do not share one
MOST_SEGMENTS = 63  # a token is a descriptor's address, and their number below it

MAY_WRITE = 1  # rights of an RDMA from afar
MAY_READ = 2

# Kinds of frames.
MESSAGE = 0
WRITE = 1  # RDMA
READ_REQUEST = 2
READ_RESPONSE = 3

CONFIG = np.dtype(
    [
        ("mtu", "i8"),  # bytes of a message in a frame
        ("retries", "i8"),  # of a frame before a connection is lost
        ("window", "i8"),  # frames of a VI on their way
        ("rooms", "i8"),  # in use, of both sides
        ("staging", "i8"),  # bytes of NIC memory of each side, from 0 on
    ],
    align=True,
)
REGION = np.dtype(
    [
        ("handle", "i8"),  # 0: none
        ("address", "i8"),  # virtual
        ("length", "i8"),
        ("tag", "i8"),
        ("rights", "i8"),
    ],
    align=True,
)
VI = np.dtype(
    [
        ("state", "i8"),
        ("level", "i8"),  # of reliability
        ("tag", "i8"),
        ("longest", "i8"),  # bytes of a message
        ("rights", "i8"),
        ("peer_node", "i8"),
        ("peer", "i8"),
        ("sent", "i8"),  # messages so far
        ("expected", "i8"),  # number and fragment of the next frame
        ("fragment", "i8"),
        ("assembly", "i8"),  # where the message that is arriving is put together
        ("reading", "i8"),  # the request of an RDMA read that waits for its bytes
        ("first", "i8"),  # receives that the NIC has read, oldest and newest
        ("last", "i8"),
    ],
    align=True,
)
REQUEST = np.dtype(
    [
        ("control", "i8"),
        ("immediate", "i8"),
        ("remote_address", "i8"),
        ("remote_handle", "i8"),
        ("segments", "i8"),
        ("length", "i8"),  # bytes in all of them
        ("next", "i8"),  # the receive behind it
    ],
    align=True,
)
SEGMENT = np.dtype([("address", "i8"), ("handle", "i8"), ("length", "i8")], align=True)
HEADER = np.dtype(
    [
        ("kind", "i8"),
        ("source_node", "i8"),
        ("source", "i8"),  # VI
        ("target_node", "i8"),
        ("target", "i8"),
        ("number", "i8"),  # of the message, by its sender's VI
        ("epoch", "i8"),  # of the connection (``nic.transport``)
        ("sequence", "i8"),  # of the frame, by its sender's VI
        ("index", "i8"),  # of the fragment
        ("last", "i8"),  # 1 if it is the message's last
        ("offset", "i8"),
        ("count", "i8"),  # bytes of it in this frame
        ("total", "i8"),  # bytes of the message
        ("control", "i8"),
        ("immediate", "i8"),
        ("remote_address", "i8"),
        ("remote_handle", "i8"),
    ],
    align=True,
)
ROOM = np.dtype([("begin", "i8"), ("end", "i8")], align=True)
RUN = np.dtype(
    [
        ("first", "i8"),  # 1 where a segment begins
        ("address", "i8"),  # of the host
        ("count", "i8"),  # bytes, one behind the other there; 0 for a segment without any
        ("page", "i8"),  # virtual, of its first byte, counted from FIRST_PAGE
    ],
    align=True,
)
OUTCOME = np.dtype(
    [
        ("request", "i8"),  # the receive that a message takes, or NOWHERE
        ("status", "i8"),  # of the receive, or of the send that is refused
        ("tell_first", "i8"),  # status for the sender as the message has come, or NOWHERE
        ("tell_last", "i8"),  # once it is where it belongs
        ("error", "i8"),  # that the library hears of, or NOWHERE
        ("breaks", "i8"),  # 1 if the connection is lost
    ],
    align=True,
)


class Vimsg(NamedTuple):
    """One NIC's messaging."""

    config: NDArray[Any]  # CONFIG, shape (1,)
    regions: NDArray[Any]  # REGION; a handle is at its remainder
    frames: NDArray[np.int64]  # of the host, by virtual page from FIRST_PAGE on, or NOWHERE
    vis: NDArray[Any]  # VI
    links: NDArray[Any]  # TRANSPORT: each VI's, with its other end
    requests: NDArray[Any]  # REQUEST: descriptors that the NIC has read
    segments: NDArray[Any]  # SEGMENT, shape (requests, MOST_SEGMENTS)
    rooms: NDArray[Any]  # ROOM, ascending: places in NIC memory that are taken
    header: NDArray[Any]  # HEADER, shape (1,): of the message that is being sent
    runs: NDArray[Any]  # RUN: the last translation
    outcome: NDArray[Any]  # OUTCOME, shape (1,): of the last step


def new_vimsg(
    mtu: int, retries: int, longest: int, staging: int, pages: int, window: int = 1
) -> Vimsg:
    """Messaging with nothing registered, for messages of up to ``longest`` bytes.

    ``staging`` bytes of NIC memory are half for what is sent, half for what is received;
    a process has up to ``pages`` pages, a VI up to ``window`` frames on their way.
    """
    config = records(1, CONFIG)
    config[0]["mtu"], config[0]["retries"] = mtu, retries
    config[0]["staging"] = staging // 2
    config[0]["window"] = window
    return Vimsg(
        config=config,
        regions=records(64, REGION),
        frames=np.full(pages, NOWHERE, np.int64),
        vis=records(16, VI),
        links=records(16, TRANSPORT),
        requests=records(64, REQUEST),
        segments=records((64, MOST_SEGMENTS), SEGMENT),
        rooms=records(staging // ROOM_BLOCK + 2, ROOM),
        header=records(1, HEADER),
        runs=records(longest // PAGE + 2 * MOST_SEGMENTS + 2, RUN),
        outcome=records(1, OUTCOME),
    )


def with_room(vimsg: Vimsg, *, vis: int = 0, requests: int = 0) -> Vimsg:
    """The same with at least that many records of those kinds."""
    if requests > len(vimsg.requests):
        requests *= 2
        segments = records((requests, MOST_SEGMENTS), SEGMENT)
        segments[: len(vimsg.segments)] = vimsg.segments
        vimsg = vimsg._replace(requests=longer(vimsg.requests, requests), segments=segments)
    if vis > len(vimsg.vis):
        vis *= 2
        vimsg = vimsg._replace(vis=longer(vimsg.vis, vis), links=longer(vimsg.links, vis))
    return vimsg
