"""VI-MSG's receiving half: which frame is taken, where its bytes go, which receive it completes."""

from __future__ import annotations

from nicscope.kernel.decorators import kernel, step
from nicscope.nic.reception import WANTED as SEQUENCE_WANTED
from nicscope.nic.reception import ack_is_due, confirm, judge, judge_unreliable, take_ack
from nicscope.nic.vimsg.codes import Error, Status
from nicscope.nic.vimsg.layout import (
    MAY_READ,
    MAY_WRITE,
    MESSAGE,
    NOWHERE,
    READ_REQUEST,
    READ_RESPONSE,
    WRITE,
)
from nicscope.nic.vimsg.outcomes import (
    CONNECTED,
    DELIVERY,
    RECEPTION,
    UNRELIABLE,
    nothing_wrong,
    wrong,
)
from nicscope.nic.vimsg.regions import is_permitted, protection
from nicscope.nic.vimsg.requests import IMMEDIATE, OP_REMOTE_WRITE, STATUS_IMMEDIATE
from nicscope.nic.vimsg.rooms import leave_room, room_for

# What ``take_frame`` finds.
IGNORED = 0  # of no connection, out of order, or of a message that is given up
TAKEN = 1
ARRIVED = 2  # with it the whole message
REFUSED = 3  # ``vimsg.outcome`` says why
WANTED = 4  # the other end wants bytes from here
NO_ROOM = 5  # a reliable message waits until some is free

RECEIVED = 1  # side of the rooms
LENGTH_ERROR = int(Status.VIP_STATUS_LENGTH_ERROR)
TRANSPORT_ERROR = int(Status.VIP_STATUS_TRANSPORT_ERROR)
RDMA_PROT_ERROR = int(Status.VIP_STATUS_RDMA_PROT_ERROR)
REMOTE_DESC_ERROR = int(Status.VIP_STATUS_REMOTE_DESC_ERROR)
RECVQ_EMPTY = int(Error.VIP_ERROR_RECVQ_EMPTY)
RDMAW_PROT = int(Error.VIP_ERROR_RDMAW_PROT)
RDMAR_PROT = int(Error.VIP_ERROR_RDMAR_PROT)
COMP_PROT = int(Error.VIP_ERROR_COMP_PROT)


@kernel
def hear_frame(vimsg, frame):
    """Whether messaging is to take the frame, and what is acknowledged, or ``NOWHERE``.

    The network's engine decides this as the frame comes.
    """
    header = frame[0]
    vi = vimsg.vis[header.target]
    link = vimsg.links[header.target]
    if not _is_of_connection(vimsg, header):
        return False, NOWHERE
    if vi.level == UNRELIABLE:
        return judge_unreliable(link, header.sequence) == SEQUENCE_WANTED, NOWHERE
    wanted = judge(link, header.sequence) == SEQUENCE_WANTED
    if wanted:
        confirm(link, header.sequence)
    return wanted, take_ack(link) if ack_is_due(link) else NOWHERE


@kernel
def take_frame(vimsg, frame, memory, payload):
    """What becomes of the frame whose header is ``frame[0]`` and whose bytes are ``payload``."""
    nothing_wrong(vimsg)
    header = frame[0]
    vi = vimsg.vis[header.target]
    if not _is_of_connection(vimsg, header) or not _is_next(vimsg, vi, header):
        return IGNORED
    if header.kind == READ_REQUEST:
        if _may_reach(vimsg, vi, header, MAY_READ):
            return WANTED
        vimsg.outcome[0].tell_last = RDMA_PROT_ERROR
        wrong(vimsg, vi, RDMAR_PROT)
        return REFUSED
    if header.index == 0 and _is_refused(vimsg, vi, header):
        vi.expected = header.number + 1
        vi.fragment = 0
        return REFUSED
    return _place(vimsg, vi, header, memory, payload)


@kernel
def place_frame(vimsg, frame, memory, payload):
    """The same for a frame that has waited for room."""
    header = frame[0]
    vi = vimsg.vis[header.target]
    if not _is_of_connection(vimsg, header):
        return IGNORED
    return _place(vimsg, vi, header, memory, payload)


@step
def _is_of_connection(vimsg, header):
    """Whether the frame is of the connection that its target has now, not of one before it."""
    vi = vimsg.vis[header.target]
    if vi.state != CONNECTED or header.epoch != vimsg.links[header.target].epoch:
        return False
    return vi.peer == header.source and vi.peer_node == header.source_node


@step
def _is_next(vimsg, vi, header):
    """Whether the frame goes on with the message that is arriving, or begins the next.

    The first frame of a later message shows that an unreliable one has lost a part.
    """
    if header.number != vi.expected or header.index != vi.fragment:
        if header.number < vi.expected or header.index != 0 or vi.level != UNRELIABLE:
            return False
        if vi.assembly != NOWHERE:
            leave_room(vimsg, vi.assembly)
            vi.assembly = NOWHERE
    vi.expected = header.number + header.last
    vi.fragment = 0 if header.last != 0 else header.index + 1
    return True


@step
def _may_reach(vimsg, vi, header, right):
    """Whether the other end has the right to the stretch of memory that it names."""
    if vi.rights & right == 0:
        return False
    return is_permitted(
        vimsg, header.remote_handle, header.remote_address, header.total, vi.tag, right
    )


@step
def _is_refused(vimsg, vi, header):
    """Whether a message can be seen to be wrong from its first frame: dropped, or the end."""
    to_receive = header.kind == MESSAGE
    if header.kind == WRITE and header.control & IMMEDIATE != 0:
        to_receive = True
    if to_receive and vi.first == NOWHERE:
        status, error = TRANSPORT_ERROR, RECVQ_EMPTY
    elif header.kind == WRITE and not _may_reach(vimsg, vi, header, MAY_WRITE):
        status, error = RDMA_PROT_ERROR, RDMAW_PROT
    else:
        return False
    wrong(vimsg, vi, error)
    if vi.level != UNRELIABLE:
        vimsg.outcome[0].tell_last = status
    return True


@step
def _place(vimsg, vi, header, memory, payload):
    """The network's engine puts the bytes in the message's room, which the first frame takes."""
    if header.index == 0:
        vi.assembly = room_for(vimsg, RECEIVED, header.total)
        if vi.assembly == NOWHERE and vi.level != UNRELIABLE:
            return NO_ROOM
    if vi.assembly == NOWHERE:
        return IGNORED
    for i in range(header.count):
        memory[vi.assembly + header.offset + i] = payload[i]
    return ARRIVED if header.last != 0 else TAKEN


@kernel
def match(vimsg, frame):
    """Where the message that has arrived is put together; ``vimsg.outcome`` says what follows.

    A message takes the oldest receive, and so does an RDMA with immediate data.  The answer to a
    read goes where the read says.
    """
    nothing_wrong(vimsg)
    header = frame[0]
    vi = vimsg.vis[header.target]
    outcome = vimsg.outcome[0]
    place = vi.assembly
    vi.assembly = NOWHERE
    if vi.level == DELIVERY:
        outcome.tell_first = 0
    elif vi.level == RECEPTION:
        outcome.tell_last = 0
    if header.kind == READ_RESPONSE:
        outcome.request = vi.reading
        vi.reading = NOWHERE
        return place
    immediate = header.control & IMMEDIATE != 0
    if header.kind == MESSAGE or immediate:
        outcome.request = vi.first
        vi.first = vimsg.requests[vi.first].next
        if vi.first == NOWHERE:
            vi.last = NOWHERE
        if immediate:
            outcome.status |= STATUS_IMMEDIATE
    if header.kind == WRITE:
        outcome.status |= OP_REMOTE_WRITE
    else:
        _check_fit(vimsg, vi, header.total)
    return place


@kernel
def receive_ahead(vimsg, frame):
    """The receive that the message will take, if it fits there; else ``NOWHERE``.

    So its bytes may go there before all of them have come.
    """
    header = frame[0]
    vi = vimsg.vis[header.target]
    if header.kind != MESSAGE or vi.first == NOWHERE:
        return NOWHERE
    if misfit(vimsg, vi, vi.first, header.total) != 0:
        return NOWHERE
    return vi.first


@step
def misfit(vimsg, vi, request, total):
    """Why ``total`` bytes cannot go where a receive says; 0 if they can."""
    if total > vimsg.requests[request].length:
        return LENGTH_ERROR
    return protection(vimsg, request, vi.tag)


@step
def _check_fit(vimsg, vi, total):
    """A message that cannot go where its receive says is an error of the receive."""
    outcome = vimsg.outcome[0]
    status = misfit(vimsg, vi, outcome.request, total)
    if status == 0:
        return
    outcome.status = status
    if vi.level == RECEPTION:
        outcome.tell_last = REMOTE_DESC_ERROR
    if vi.level != UNRELIABLE:  # else the receive's own status says it all
        wrong(vimsg, vi, COMP_PROT)
