"""Go-back-n in virtual time: frames of a VI in its window, sent again when nothing is acknowledged.

What is sent next, and what an acknowledgement settles, ``nic.transport`` says.  The network's
engine acknowledges a frame as it comes, so that only losses leave frames unsettled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.interfaces.via.journal import Part
from nicscope.interfaces.via.names import Error, Status
from nicscope.nic.vimsg.layout import NOWHERE

if TYPE_CHECKING:
    from nicscope.interfaces.via.endpoint import Endpoint
    from nicscope.interfaces.via.messaging import Messaging
    from nicscope.interfaces.via.network import Frame


async def put(ni: Messaging, frame: Frame) -> bool:
    """Send a frame, as soon as the window has room for it; False if the connection breaks."""
    vi = frame.source
    if not vi.reliable:
        ni.firmware.number(vi.place, frame.header)
        await _send(ni, frame)
        return vi.has(frame.epoch)
    while not ni.firmware.is_window_open(vi.place):
        await ni.turns.until(vi.resend_at)
        if vi.has(frame.epoch):
            await repeat(ni, vi)
        if not vi.has(frame.epoch):
            return False
    ni.firmware.number(vi.place, frame.header)
    vi.unsettled.append(frame)
    await _go_on(ni, vi)
    return vi.has(frame.epoch)


async def repeat(ni: Messaging, vi: Endpoint) -> None:
    """Send all that is not acknowledged again, or if that was to no avail lose the connection."""
    if not ni.firmware.is_given_up(vi.place):
        await _go_on(ni, vi)
        return
    work = vi.unsettled[0].work
    if work is None:
        ni.break_connection(vi, Error.VIP_ERROR_RDMA_TRANSPORT)
    else:
        await ni.refuse(work, Status.VIP_STATUS_TRANSPORT_ERROR)


async def _go_on(ni: Messaging, vi: Endpoint) -> None:
    """Send the frames whose turn it is."""
    while vi.connected:
        place = ni.firmware.next_to_send(vi.place)
        if place is None:
            break
        frame = vi.unsettled[place]
        journal = frame.message.journal
        if journal is not None and journal.at < ni.turns.now:
            journal.resume(ni.turns.now)  # nothing came back in time
        acknowledgement = await _send(ni, frame)
        if not vi.has(frame.epoch):
            break
        settled = ni.firmware.settle(vi.place, acknowledgement)
        ni.observer.acknowledged += settled
        for _ in range(settled):
            vi.unsettled.popleft()
        if settled or place == 0:
            vi.resend_at = ni.turns.now + ni.settings.retry_timeout
    if vi.unsettled:
        ni.unsettled[vi.place] = vi
    else:
        ni.unsettled.pop(vi.place, None)


async def _send(ni: Messaging, frame: Frame) -> int:
    """Send one frame; the acknowledgement that comes back, or ``NOWHERE``."""
    message, other = frame.message, ni.neighbours[frame.target.node]
    number = ni.observer.next_number
    await ni.spend("vimsg_send_frame", message.journal, Part.SEND, (ni.port.number, number))
    ni.observer.note_sent(frame)
    if ni.network.loses():
        other.observer.note_came("lost")
        return NOWHERE
    heard, acknowledgement = other.firmware.hear_frame(frame.header)
    if not heard:
        other.observer.note_turned_away(frame, other.firmware.memory.links)
    else:
        other.observer.note_came()
        frame.number = number
        if frame.last:
            frame.journal, message.journal = message.journal, None
        other.submit(frame)
    if acknowledgement == NOWHERE:
        return NOWHERE
    other.observer.acknowledgements += 1
    is_lost = ni.network.loses()
    ni.observer.note_came("lost" if is_lost else "acknowledgements")
    return NOWHERE if is_lost else acknowledgement
