"""VI-MSG's sending half in virtual time: gather, and send frame by frame as the firmware says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from nicscope.interfaces.via.engine import Piece
from nicscope.interfaces.via.journal import Part
from nicscope.interfaces.via.names import Error, Status
from nicscope.interfaces.via.network import NO_BYTES, Frame
from nicscope.interfaces.via.vi import SEND_QUEUE
from nicscope.nic.vimsg.layout import MESSAGE, NOWHERE, READ_RESPONSE
from nicscope.nic.vimsg.sending import HELD, READ, REFUSED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.interfaces.via.journal import Journal
    from nicscope.interfaces.via.messaging import Messaging
    from nicscope.interfaces.via.vi import Vi, Work


async def send(ni: Messaging, work: Work, request: int) -> None:
    """Do what a descriptor of the send queue asks for."""
    vi = work.vi
    found, outcome = ni.firmware.admit(vi.place, request)
    if found == HELD:
        vi.held.append(work)
        return
    if found == REFUSED:
        await ni.complete(work, outcome.status)
        ni.carry_out(vi, outcome)
        return
    if ni.cut_through and found != READ:
        whole = await _stream(ni, work, request)
        await _sent(ni, work, ni.firmware.length_of(request), whole=whole)
        return
    if found == READ:
        raw = NO_BYTES
    else:
        raw = work.raw if work.raw is not None else await ni.take_message(work, request)
    whole = await _transmit(ni, vi, MESSAGE, raw, work, work.journal)
    await _sent(ni, work, len(raw), whole=whole)


async def _sent(ni: Messaging, work: Work, count: int, *, whole: bool) -> None:
    """The message has left, or a reliable one got lost for good."""
    if not whole:
        await ni.refuse(work, Status.VIP_STATUS_TRANSPORT_ERROR)
    elif not work.vi.reliable:  # else the other NIC says when
        await ni.complete(work, Status(0), count)


async def _stream(ni: Messaging, work: Work, request: int) -> bool:
    """Send each fragment as soon as the engine has brought it, while it brings the next."""
    vi, journal, engine = work.vi, work.journal, ni.engines[SEND_QUEUE]
    runs = ni.firmware.runs_of_request(request)
    for run in runs:
        await ni.translate(run, journal, Part.SEND, receive=False)
    if vi.peer is None or not vi.connected:
        return True
    raw = np.zeros(ni.firmware.length_of(request), np.uint8)
    place = ni.room_to_send(len(raw))
    frames = list(ni.firmware.fragments(vi.place, vi.node, request, MESSAGE, raw))
    pieces = []
    for header, payload in frames:
        piece = Piece(runs, int(header[0]["offset"]), len(payload), place)
        engine.fetch(piece, raw, vi)
        pieces.append(piece)
    passed = True
    for (header, payload), piece in zip(frames, pieces, strict=True):
        await engine.wait(piece, journal)
        last = piece is pieces[-1]
        frame = Frame(header, payload, vi, vi.peer, work, journal if last else None)
        passed = await _pass(ni, frame, journal)
        if not passed or not vi.connected:
            break
    await engine.wait(pieces[-1], None)
    ni.give(place)
    return passed


async def respond(ni: Messaging, vi: Vi, raw: NDArray[np.uint8], journal: Journal | None) -> None:
    """Send the bytes that the other end's RDMA read asked for."""
    if not await _transmit(ni, vi, READ_RESPONSE, raw, None, journal):
        ni.break_connection(vi, Error.VIP_ERROR_RDMA_TRANSPORT)


async def _transmit(
    ni: Messaging,
    vi: Vi,
    kind: int,
    raw: NDArray[np.uint8],
    work: Work | None,
    journal: Journal | None,
) -> bool:
    """Send a message frame by frame; False if a reliable one got lost for good."""
    if vi.peer is None or not vi.connected:
        return True  # broken while its bytes were fetched; the descriptor has been flushed
    request = None if work is None else work.request
    for header, payload in ni.firmware.fragments(vi.place, vi.node, request, kind, raw):
        last = bool(header[0]["last"])
        frame = Frame(header, payload, vi, vi.peer, work, journal if last else None)
        if not await _pass(ni, frame, journal):
            return False
        if not vi.connected:
            return True  # broken meanwhile; whoever broke it has flushed the descriptor
    return True


async def _pass(ni: Messaging, frame: Frame, journal: Journal | None) -> bool:
    """Send one frame; if the level promises delivery, again until it is acknowledged."""
    other = ni.neighbours[frame.target.node]
    source = frame.source
    while True:
        await ni.spend("vimsg_send_frame", journal, Part.SEND)
        heard, acknowledgement = False, NOWHERE
        if not ni.network.loses():
            heard, acknowledgement = other.firmware.hear_frame(frame.header)
        if heard:
            other.submit(frame)
            if frame.journal is not None:
                # The journal goes on with this frame.
                frame, journal = msgspec.structs.replace(frame, journal=None), None
        if acknowledgement != NOWHERE and ni.network.loses():
            acknowledgement = NOWHERE
        if ni.firmware.is_settled(source.place, acknowledgement):
            return True
        await ni.turns.until(ni.turns.now + ni.settings.retry_timeout)
        if journal is not None and journal.at < ni.turns.now:
            journal.resume(ni.turns.now)
        if not source.connected:
            return True
        if ni.firmware.is_given_up(source.place):
            return False
