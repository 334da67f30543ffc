"""VI-MSG's sending half in virtual time: gather, cut into frames, hand them to the transport."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nicscope.interfaces.via import repetition
from nicscope.interfaces.via.endpoint import SEND_QUEUE
from nicscope.interfaces.via.engine import Piece
from nicscope.interfaces.via.journal import Part
from nicscope.interfaces.via.network import NO_BYTES, Frame, Sending
from nicscope.nic.vimsg.layout import MESSAGE, READ_RESPONSE
from nicscope.nic.vimsg.sending import HELD, READ, REFUSED

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.interfaces.via.endpoint import Endpoint, Work
    from nicscope.interfaces.via.journal import Journal
    from nicscope.interfaces.via.messaging import Messaging


async def send(ni: Messaging, work: Work, request: int) -> None:
    """Do what a descriptor of the send queue asks for."""
    vi = work.vi
    found = ni.firmware.admit(vi.place, request)
    if found == HELD:
        vi.held.append(work)
        return
    if found == REFUSED:
        epoch, outcome = vi.epoch, ni.firmware.outcome()
        await ni.complete(work, outcome.status)
        ni.carry_out(vi, outcome, epoch)
        return
    if ni.cut_through and found != READ:
        await _stream(ni, work, request)
        await _sent(ni, work, ni.firmware.length_of(request))
        return
    if found == READ:
        raw = NO_BYTES
    else:
        raw = work.raw if work.raw is not None else await ni.take_message(work, request)
    await _transmit(ni, vi, MESSAGE, raw, Sending(work, work.journal))
    await _sent(ni, work, len(raw))


async def _sent(ni: Messaging, work: Work, count: int) -> None:
    """All frames of the message are the transport's; of a reliable one the other NIC tells more."""
    if not work.vi.reliable:
        await ni.complete(work, 0, count)


async def _stream(ni: Messaging, work: Work, request: int) -> None:
    """Send each fragment as soon as the engine has brought it, while it brings the next."""
    vi, journal, engine = work.vi, work.journal, ni.engines[SEND_QUEUE]
    runs = ni.firmware.runs_of_request(request)
    for run in runs:
        await ni.translate(run, journal, Part.SEND, receive=False)
    if vi.peer is None or work.flushed:
        return
    raw = np.zeros(ni.firmware.length_of(request), np.uint8)
    place = ni.room_to_send(len(raw))
    message = Sending(work, journal)
    frames = [
        Frame(header, raw, vi, vi.peer, message)
        for header in ni.firmware.fragments(vi.place, vi.node, request, MESSAGE, len(raw))
    ]
    pieces = []
    for frame in frames:
        piece = Piece(runs, frame.begin, len(frame.raw), place)
        engine.fetch(piece, raw, vi)
        pieces.append(piece)
    for frame, piece in zip(frames, pieces, strict=True):
        await engine.wait(piece, journal)
        if not await repetition.put(ni, frame):
            break
    await engine.wait(pieces[-1], None)
    ni.give(place)


async def respond(
    ni: Messaging, vi: Endpoint, raw: NDArray[np.uint8], journal: Journal | None
) -> None:
    """Send the bytes that the other end's RDMA read asked for."""
    await _transmit(ni, vi, READ_RESPONSE, raw, Sending(None, journal))


async def _transmit(
    ni: Messaging, vi: Endpoint, kind: int, raw: NDArray[np.uint8], message: Sending
) -> None:
    """Send a message frame by frame, unless the connection breaks, which flushes its descriptor."""
    work = message.work
    if vi.peer is None or (work is not None and work.flushed):
        return  # broken while its bytes were fetched
    peer, request = vi.peer, None if work is None else work.request
    for header in ni.firmware.fragments(vi.place, vi.node, request, kind, len(raw)):
        if not await repetition.put(ni, Frame(header, raw, vi, peer, message)):
            return
