"""VI-MSG's receiving half: put frames together, bring messages to their place, tell the host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.interfaces.via import outgoing
from nicscope.interfaces.via.descriptor import Request
from nicscope.interfaces.via.journal import Part
from nicscope.interfaces.via.names import Control, Error, Reliability, State, Status
from nicscope.interfaces.via.network import MESSAGE, READ_REQUEST, READ_RESPONSE, WRITE
from nicscope.interfaces.via.turns import hear
from nicscope.interfaces.via.vi import RECEIVE_QUEUE, SEND_QUEUE

if TYPE_CHECKING:
    from nicscope.interfaces.via.messaging import Messaging
    from nicscope.interfaces.via.network import Frame
    from nicscope.interfaces.via.vi import Vi, Work


async def receive(ni: Messaging, frame: Frame) -> None:
    """Take one frame; with the last of a message, bring the message to its place."""
    vi, journal = frame.target, frame.journal
    if journal is not None:
        # Until now this processor had the frames before this one, or something else.
        journal.spend(Part.RECEIVE if frame.index else Part.WAIT, ni.turns.now)
    await ni.spend("vimsg_receive_frame", journal, Part.RECEIVE)
    if vi.state is not State.VIP_STATE_CONNECTED or vi.peer is not frame.source:
        return
    if not _in_order(ni, vi, frame):
        return
    if frame.kind == READ_REQUEST:
        await _read_for(ni, vi, frame)
        return
    wrong = _refused(ni, vi, frame) if frame.index == 0 else Status(0)
    if wrong:
        vi.expected = (frame.number + 1, 0)
        await _fail(ni, vi, frame, wrong)
        return
    if frame.index == 0:
        vi.assembly = await _room(ni, frame)
    if vi.assembly is None:
        return  # an unreliable message without room, or of a connection that is gone
    ni.port.stage(vi.assembly + frame.offset, frame.raw)
    if frame.last:
        await _arrived(ni, vi, frame)


def _in_order(ni: Messaging, vi: Vi, frame: Frame) -> bool:
    """Whether this is the next frame; a repeated one is not, nor one behind a lost one."""
    number, index = vi.expected
    if (frame.number, frame.index) != (number, index):
        if frame.number < number or frame.index != 0 or vi.reliable:
            return False
        if vi.assembly is not None:  # the rest of an unreliable message was lost
            ni.give(RECEIVE_QUEUE, vi.assembly)
            vi.assembly = None
    vi.expected = (frame.number + 1, 0) if frame.last else (frame.number, frame.index + 1)
    return True


def _refused(ni: Messaging, vi: Vi, frame: Frame) -> Status:
    """What of a message can be seen to be wrong from its first frame; 0 if nothing."""
    needs_receive = frame.kind == MESSAGE or (
        frame.kind == WRITE and frame.control & Control.VIP_CONTROL_IMMEDIATE
    )
    if needs_receive and not vi.ready:
        return Status.VIP_STATUS_TRANSPORT_ERROR
    if frame.kind == WRITE:
        remote = frame.remote
        if remote is None or not (
            vi.attributes.rdma_write
            and ni.registrations.permits(
                remote.handle, remote.address, frame.total, vi.attributes.tag, right="rdma_write"
            )
        ):
            return Status.VIP_STATUS_RDMA_PROT_ERROR
    return Status(0)


async def _fail(ni: Messaging, vi: Vi, frame: Frame, wrong: Status) -> None:
    """A message that cannot be received: dropped, or the end of a reliable connection."""
    error = (
        Error.VIP_ERROR_RDMAW_PROT
        if wrong & Status.VIP_STATUS_RDMA_PROT_ERROR
        else Error.VIP_ERROR_RECVQ_EMPTY
    )
    if not vi.reliable:
        vi.errors.append(error)
        return
    _tell_sender(ni, vi, frame.work, wrong)
    ni.break_connection(vi, error)


def _tell_sender(ni: Messaging, vi: Vi, work: Work | None, status: Status) -> None:
    """Complete the sender's descriptor with what became of the message."""
    if work is not None and vi.peer is not None:
        length = 0 if status or work.request is None else work.request.length
        ni.neighbours[vi.peer.node].submit((work, status, length))


async def _room(ni: Messaging, frame: Frame) -> int | None:
    """A room for the message; an unreliable one does not wait for it."""
    place = ni.rooms[RECEIVE_QUEUE].take(frame.total)
    while place is None and frame.target.reliable:
        await hear(ni.freed)
        if frame.target.state is not State.VIP_STATE_CONNECTED:
            return None
        place = ni.rooms[RECEIVE_QUEUE].take(frame.total)
    if frame.journal is not None and frame.journal.at < ni.turns.now:
        frame.journal.resume(ni.turns.now)
    return place


async def _arrived(ni: Messaging, vi: Vi, frame: Frame) -> None:
    """All bytes of a message are in NIC memory."""
    place, vi.assembly = vi.assembly, None
    assert place is not None
    if vi.attributes.reliability == Reliability.VIP_SERVICE_RELIABLE_DELIVERY:
        _tell_sender(ni, vi, frame.work, Status(0))
    if frame.kind == MESSAGE:
        work = vi.ready.popleft()
        assert work.request is not None
        wrong = _misfit(ni, vi, work.request, frame.total)
        if wrong:
            ni.give(RECEIVE_QUEUE, place)
            await ni.complete(work, wrong)
            if vi.reliable:
                if vi.attributes.reliability == Reliability.VIP_SERVICE_RELIABLE_RECEPTION:
                    _tell_sender(ni, vi, frame.work, Status.VIP_STATUS_REMOTE_DESC_ERROR)
                ni.break_connection(vi, Error.VIP_ERROR_COMP_PROT)
            return
        work.journal = frame.journal
        await _bring(ni, work, work.request, frame, place)
        await _report(ni, work, frame, Status(0))
    elif frame.kind == WRITE:
        assert frame.remote is not None
        await ni.scatter([(frame.remote.address, frame.total)], place, frame.journal)
        ni.give(RECEIVE_QUEUE, place)
        if frame.control & Control.VIP_CONTROL_IMMEDIATE:
            work = vi.ready.popleft()
            work.journal = frame.journal
            await _report(ni, work, frame, Status.VIP_STATUS_OP_REMOTE_RDMA_WRITE)
    elif frame.kind == READ_RESPONSE:
        await _read_done(ni, vi, frame, place)
    if vi.attributes.reliability == Reliability.VIP_SERVICE_RELIABLE_RECEPTION:
        _tell_sender(ni, vi, frame.work, Status(0))


def _misfit(ni: Messaging, vi: Vi, request: Request, total: int) -> Status:
    """Why a message cannot go where a receive descriptor says; 0 if it can."""
    if total > request.length:
        return Status.VIP_STATUS_LENGTH_ERROR
    return ni.protection(vi, request.data)


async def _bring(ni: Messaging, work: Work, request: Request, frame: Frame, place: int) -> None:
    """Scatter the message over the segments of the descriptor."""
    vi = work.vi
    stretches, left = [], frame.total
    for one in request.data:
        size = min(one.length, left)
        if size:
            stretches.append((one.address, size))
        left -= size
    delivery = await ni.scatter(stretches, place, frame.journal)
    delivery.place = place
    if ni.port.by_processor:
        work.delivery = delivery
        queue = vi.completion_queues[RECEIVE_QUEUE]
        delivery.bells = (vi.bells[RECEIVE_QUEUE], *([queue.bell] if queue is not None else []))
        ni.deliveries.append(delivery)
        for bell in ni.idle:  # whoever waits for something else may have to make way
            bell.ring()
    else:
        ni.give(RECEIVE_QUEUE, place)


async def _report(ni: Messaging, work: Work, frame: Frame, status: Status) -> None:
    """Complete a receive descriptor."""
    if frame.control & Control.VIP_CONTROL_IMMEDIATE:
        work.descriptor.immediate = frame.immediate
        status |= Status.VIP_STATUS_IMMEDIATE
    await ni.complete(work, status, frame.total)


async def _read_for(ni: Messaging, vi: Vi, frame: Frame) -> None:
    """The other end wants to read this node's memory."""
    remote = frame.remote
    if remote is None or not (
        vi.attributes.rdma_read
        and ni.registrations.permits(
            remote.handle, remote.address, frame.total, vi.attributes.tag, right="rdma_read"
        )
    ):
        _tell_sender(ni, vi, frame.work, Status.VIP_STATUS_RDMA_PROT_ERROR)
        ni.break_connection(vi, Error.VIP_ERROR_RDMAR_PROT)
        return
    place = ni.rooms[SEND_QUEUE].take(frame.total)
    assert place is not None, "the NIC sends one message at a time"
    raw = await ni.gather([(remote.address, frame.total)], place, frame.journal, Part.SEND)
    ni.give(SEND_QUEUE, place)
    answer = Request(control=0, immediate=0, remote=None, data=())
    await outgoing.respond(ni, vi, raw, answer, frame.journal)


async def _read_done(ni: Messaging, vi: Vi, frame: Frame, place: int) -> None:
    """The bytes that this end's RDMA read asked for are here."""
    work, vi.reading = vi.reading, None
    if work is None or work.request is None:
        ni.give(RECEIVE_QUEUE, place)
        return
    await _bring(ni, work, work.request, frame, place)
    await ni.complete(work, Status(0), frame.total)
    while vi.held:
        ni.submit(vi.held.popleft())
