"""VI-MSG's sending half: gather, cut into frames, send until the level's promise is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from nicscope.interfaces.via.descriptor import RDMA_READ, RDMA_WRITE
from nicscope.interfaces.via.journal import Part
from nicscope.interfaces.via.names import Error, State, Status
from nicscope.interfaces.via.network import MESSAGE, READ_REQUEST, READ_RESPONSE, WRITE, Frame
from nicscope.interfaces.via.turns import until

if TYPE_CHECKING:
    from nicscope.interfaces.via.descriptor import AddressSegment, Request
    from nicscope.interfaces.via.journal import Journal
    from nicscope.interfaces.via.messaging import Messaging
    from nicscope.interfaces.via.vi import Vi, Work


async def send(ni: Messaging, work: Work, request: Request) -> None:
    """Do what a descriptor of the send queue asks for."""
    vi = work.vi
    if vi.state is not State.VIP_STATE_CONNECTED or vi.peer is None:
        await ni.refuse(work, Status.VIP_STATUS_DESC_FLUSHED_ERROR)
        return
    if vi.reading is not None:
        vi.held.append(work)  # sends end in the order in which they were posted
        return
    wrong = ni.check(vi, request)
    if request.operation == RDMA_READ and not vi.attributes.rdma_read:
        wrong |= Status.VIP_STATUS_RDMA_PROT_ERROR
    if wrong:
        await ni.refuse(work, wrong)
        return
    if request.operation == RDMA_READ:
        vi.reading = work
        await _transmit(ni, vi, READ_REQUEST, b"", request, work, work.journal)
        return
    raw = work.raw
    if raw is None:
        raw = await ni.take_message(work, [(one.address, one.length) for one in request.data])
    kind = WRITE if request.operation == RDMA_WRITE else MESSAGE
    sent = await _transmit(ni, vi, kind, raw, request, work, work.journal)
    if not sent:
        await ni.refuse(work, Status.VIP_STATUS_TRANSPORT_ERROR)
    elif not vi.reliable:  # else the other NIC says when
        await ni.complete(work, Status(0), request.length)


async def respond(
    ni: Messaging, vi: Vi, raw: bytes, request: Request, journal: Journal | None
) -> None:
    """Send the bytes that the other end's RDMA read asked for."""
    if not await _transmit(ni, vi, READ_RESPONSE, raw, request, None, journal):
        ni.break_connection(vi, Error.VIP_ERROR_RDMA_TRANSPORT)


async def _transmit(
    ni: Messaging,
    vi: Vi,
    kind: int,
    raw: bytes,
    request: Request,
    work: Work | None,
    journal: Journal | None,
) -> bool:
    """Send a message in frames of at most an MTU; False if a reliable one got lost for good."""
    assert vi.peer is not None
    mtu = ni.settings.mtu
    total = request.length if kind == READ_REQUEST else len(raw)
    frames = max(-(-len(raw) // mtu), 1)
    number, vi.sent = vi.sent, vi.sent + 1
    remote: AddressSegment | None = request.remote
    for index in range(frames):
        last = index == frames - 1
        frame = Frame(
            kind, vi, vi.peer, number, index, last, index * mtu, total,
            raw[index * mtu : (index + 1) * mtu],
            request.control, request.immediate, remote, work, journal if last else None,
        )  # fmt: skip
        if not await _pass(ni, frame, journal):
            return False
        if vi.state is not State.VIP_STATE_CONNECTED:
            return True  # broken meanwhile; whoever broke it has flushed the descriptor
    return True


async def _pass(ni: Messaging, frame: Frame, journal: Journal | None) -> bool:
    """Send one frame; if the level promises delivery, again until it is acknowledged."""
    other = ni.neighbours[frame.target.node]
    for _ in range(ni.settings.retries + 1):
        await ni.spend("vimsg_send_frame", journal, Part.SEND)
        arrives = not ni.network.loses()
        if arrives:
            other.submit(frame)
            if frame.journal is not None:
                # The journal goes on with this frame; one that repeats it has none.
                frame, journal = msgspec.structs.replace(frame, journal=None), None
        if not frame.source.reliable:
            return True
        if arrives and not ni.network.loses():
            return True
        await until(ni.turns.now + ni.settings.retry_timeout)
        if journal is not None and journal.at < ni.turns.now:
            journal.resume(ni.turns.now)
    return False
