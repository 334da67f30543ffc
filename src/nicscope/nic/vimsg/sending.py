"""VI-MSG's sending half: what a send may do, its message in frames, and when one is done with.

Reliability is ``nic.transport``'s: go-back-n between a VI and its other end.
"""

from __future__ import annotations

from nicscope.kernel.decorators import kernel
from nicscope.nic.transport import (
    DEAD,
    NONE,
    distance,
    next_to_send,
    note_sent,
    number_next,
    number_unreliable,
    take_acknowledgement,
    time_out,
    window_open,
)
from nicscope.nic.vimsg.codes import CONTROL_OP_MASK, Error, Status
from nicscope.nic.vimsg.layout import MAY_READ, MESSAGE, NOWHERE, READ_REQUEST, WRITE
from nicscope.nic.vimsg.outcomes import CONNECTED, UNRELIABLE, nothing_wrong, wrong
from nicscope.nic.vimsg.regions import protection
from nicscope.nic.vimsg.requests import RDMA_READ, RDMA_WRITE

# What ``admit`` finds.
SEND = 0
HELD = 1  # behind an RDMA read, as sends end in the order in which they were posted
REFUSED = 2  # ``vimsg.outcome`` says why
READ = 3  # the message is a request for the other end's bytes

FLUSHED = int(Status.VIP_STATUS_DESC_FLUSHED_ERROR)
LENGTH_ERROR = int(Status.VIP_STATUS_LENGTH_ERROR)
RDMA_PROT_ERROR = int(Status.VIP_STATUS_RDMA_PROT_ERROR)
POST_DESC = int(Error.VIP_ERROR_POST_DESC)


@kernel
def admit(vimsg, v, request):
    """What becomes of a descriptor of VI ``v``'s send queue; a read is noted."""
    nothing_wrong(vimsg)
    vi = vimsg.vis[v]
    if vi.state != CONNECTED:
        vimsg.outcome[0].status = FLUSHED
        return REFUSED
    if vi.reading != NOWHERE:
        return HELD
    asked = vimsg.requests[request]
    operation = asked.control & CONTROL_OP_MASK
    status = LENGTH_ERROR if asked.length > vi.longest else protection(vimsg, request, vi.tag)
    if operation == RDMA_READ and vi.rights & MAY_READ == 0:
        status |= RDMA_PROT_ERROR
    if status != 0:
        refuse(vimsg, v, status)
        return REFUSED
    if operation == RDMA_READ:
        vi.reading = request
        return READ
    return SEND


@kernel
def refuse(vimsg, v, status):
    """An error of a request itself: reported, and with reliability the end of the connection."""
    nothing_wrong(vimsg)
    vimsg.outcome[0].status = status
    if status & FLUSHED == 0 and vimsg.vis[v].level != UNRELIABLE:
        wrong(vimsg, vimsg.vis[v], POST_DESC)


@kernel
def open_message(vimsg, v, node, request, kind, count):
    """Begin a message of ``count`` bytes from VI ``v`` of ``node``; its header is made.

    ``request`` is what asked for it, or ``NOWHERE`` for the answer to a read of the other end.
    """
    vi = vimsg.vis[v]
    header = vimsg.header[0]
    header.kind = kind
    header.control = 0
    header.immediate = 0
    header.remote_address = 0
    header.remote_handle = 0
    if request != NOWHERE:
        asked = vimsg.requests[request]
        operation = asked.control & CONTROL_OP_MASK
        header.kind = WRITE if operation == RDMA_WRITE else MESSAGE
        if operation == RDMA_READ:
            header.kind = READ_REQUEST
            count = asked.length
        header.control = asked.control
        header.immediate = asked.immediate
        header.remote_address = asked.remote_address
        header.remote_handle = asked.remote_handle
    header.source_node = node
    header.source = v
    header.target_node = vi.peer_node
    header.target = vi.peer
    header.number = vi.sent
    header.epoch = vimsg.links[v].epoch
    vi.sent += 1
    header.index = NOWHERE
    header.offset = 0
    header.count = 0
    header.total = count
    header.last = 0


@kernel
def next_fragment(vimsg):
    """Make ``vimsg.header`` that of the message's next frame, of at most an MTU; 1 if its last."""
    header = vimsg.header[0]
    header.index += 1
    header.offset += header.count
    left = 0 if header.kind == READ_REQUEST else header.total - header.offset
    header.count = min(left, vimsg.config[0].mtu)
    header.last = 1 if header.count == left else 0
    return header.last


@kernel
def is_window_open(vimsg, v):
    """Whether VI ``v`` may number one more frame."""
    return vimsg.vis[v].level == UNRELIABLE or window_open(vimsg.links[v], vimsg.config[0].window)


@kernel
def number_frame(vimsg, v):
    """The sequence number of VI ``v``'s next frame; an unreliable one is sent now, and forgotten.

    Others wait, with those before, until ``next_frame`` says that they are to be sent.
    """
    link = vimsg.links[v]
    if vimsg.vis[v].level == UNRELIABLE:
        return number_unreliable(link)
    return number_next(link)


@kernel
def next_frame(vimsg, v):
    """Which of the frames that are not acknowledged is sent next, from 0 on; or ``NOWHERE``."""
    link = vimsg.links[v]
    sequence = next_to_send(link)
    return NOWHERE if sequence == NONE else distance(sequence, link.oldest)


@kernel
def settle(vimsg, v, acknowledgement):
    """How many of VI ``v``'s frames are done with, now that ``next_frame``'s was sent.

    ``acknowledgement`` is what came back for it, or ``NOWHERE``.
    """
    link = vimsg.links[v]
    note_sent(link, next_to_send(link))
    return 0 if acknowledgement == NOWHERE else take_acknowledgement(link, acknowledgement)


@kernel
def is_given_up(vimsg, v):
    """Whether the connection is lost, as time is up once more; else all is sent again."""
    return time_out(vimsg.links[v], vimsg.config[0].retries) == DEAD
