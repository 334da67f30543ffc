"""VI-MSG's sending half in virtual time: gather, and send frame by frame as the firmware says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from nicscope.interfaces.via.journal import Part
from nicscope.interfaces.via.names import Error, State, Status
from nicscope.interfaces.via.network import NO_BYTES, Frame
from nicscope.interfaces.via.turns import until
from nicscope.nic.vimsg.layout import MESSAGE, NOWHERE, READ_RESPONSE
from nicscope.nic.vimsg.sending import HELD, READ, REFUSED

if TYPE_CHECKING:
    import numpy as np
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
    if found == READ:
        raw = NO_BYTES
    else:
        raw = work.raw if work.raw is not None else await ni.take_message(work, request)
    if not await _transmit(ni, vi, MESSAGE, raw, work, work.journal):
        await ni.refuse(work, Status.VIP_STATUS_TRANSPORT_ERROR)
    elif not vi.reliable:  # else the other NIC says when
        await ni.complete(work, Status(0), len(raw))


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
    if vi.peer is None or vi.state is not State.VIP_STATE_CONNECTED:
        return True  # broken while its bytes were fetched; the descriptor has been flushed
    request = None if work is None else work.request
    for header, payload in ni.firmware.fragments(vi.place, vi.node, request, kind, raw):
        last = bool(header[0]["last"])
        frame = Frame(header, payload, vi, vi.peer, work, journal if last else None)
        if not await _pass(ni, frame, journal):
            return False
        if vi.state is not State.VIP_STATE_CONNECTED:
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
        await until(ni.turns.now + ni.settings.retry_timeout)
        if journal is not None and journal.at < ni.turns.now:
            journal.resume(ni.turns.now)
        if source.state is not State.VIP_STATE_CONNECTED:
            return True
        if ni.firmware.is_given_up(source.place):
            return False
