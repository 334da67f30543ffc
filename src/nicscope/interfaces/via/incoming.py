"""VI-MSG's receiving half in virtual time: take frames, bring messages to their place, tell."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from nicscope.interfaces.via import assistance
from nicscope.interfaces.via.endpoint import RECEIVE_QUEUE
from nicscope.interfaces.via.engine import Piece
from nicscope.interfaces.via.journal import Part
from nicscope.interfaces.via.names import STATUS_ERROR_MASK
from nicscope.interfaces.via.turns import hear
from nicscope.nic.vimsg.layout import READ_RESPONSE, WRITE
from nicscope.nic.vimsg.receiving import ARRIVED, NO_ROOM, REFUSED, TAKEN, WANTED
from nicscope.nic.vimsg.requests import STATUS_IMMEDIATE

if TYPE_CHECKING:
    from nicscope.interfaces.via.endpoint import Endpoint, Work
    from nicscope.interfaces.via.messaging import Messaging
    from nicscope.interfaces.via.network import Frame
    from nicscope.interfaces.via.tables import Outcome


async def receive(ni: Messaging, frame: Frame) -> None:
    """Take one frame; with the last of a message, bring the message to its place."""
    journal = frame.journal
    if journal is not None:
        # Until now this processor had the frames before this one, or something else.
        journal.spend(Part.RECEIVE if frame.index else Part.WAIT, ni.turns.now)
    about = frame.source.node, frame.number
    await ni.spend("vimsg_receive_frame", journal, Part.RECEIVE, about)
    found = ni.firmware.take_frame(frame.header, frame.raw, waited=False)
    while found == NO_ROOM:
        await hear(ni.freed)
        found = ni.firmware.take_frame(frame.header, frame.raw, waited=True)
        if journal is not None and journal.at < ni.turns.now:
            journal.resume(ni.turns.now)
    ni.observer.note_found(frame, found)
    if ni.cut_through and found in (TAKEN, ARRIVED):
        await _stream(ni, frame.target, frame)
    if found == ARRIVED:
        await _arrived(ni, frame.target, frame)
    elif found == WANTED:
        ni.observer.note_message(frame, "delivered")
        await _read_for(ni, frame)
    elif found == REFUSED:
        ni.observer.note_message(frame, "refused")
        outcome = ni.firmware.outcome()
        _tell(ni, frame, outcome.tell_last)
        ni.carry_out(frame.target, outcome, frame.epoch)


async def _stream(ni: Messaging, vi: Endpoint, frame: Frame) -> None:
    """Have the engine bring a fragment to where the message belongs, if that is known already."""
    if frame.index == 0:
        vi.stream = None
        request = ni.firmware.receive_ahead(frame.header)
        if request is not None:
            vi.stream = []
            vi.stream_runs = ni.firmware.runs_of_request(request, frame.total)
            for run in vi.stream_runs:
                await ni.translate(run, frame.journal, Part.RECEIVE, receive=True)
    if vi.stream is None or not vi.has(frame.epoch):
        return
    place = ni.firmware.assembly(vi.place)
    vi.stream.append(Piece(vi.stream_runs, frame.begin, len(frame.raw), place))
    ni.engines[RECEIVE_QUEUE].deliver(vi.stream[-1], vi)


def _tell(ni: Messaging, frame: Frame, status: int | None) -> None:
    """Complete the sender's descriptor with what became of the message, if it is to know."""
    work = frame.work
    if status is None or work is None:
        return
    other = ni.neighbours[frame.source.node]
    request = work.request
    length = 0 if status or request is None else other.firmware.length_of(request)
    other.submit((work, status, length))


async def _arrived(ni: Messaging, vi: Endpoint, frame: Frame) -> None:
    """All bytes of a message are in NIC memory."""
    if not vi.has(frame.epoch):
        ni.observer.note_message(frame, "void")
        return  # broken while its bytes were translated
    place, outcome = ni.firmware.match(frame.header)
    _tell(ni, frame, outcome.tell_first)
    work = None if outcome.request is None else ni.works[outcome.request]
    if outcome.status & STATUS_ERROR_MASK:
        assert work is not None
        ni.give(place)
        ni.observer.note_message(frame, "refused")
        await ni.complete(work, outcome.status)
    elif frame.kind == WRITE and not ni.port.coherent:
        await assistance.write_for(ni, frame, place, partial(_written, ni, frame, work, outcome))
        return
    else:
        await _deliver(ni, frame, place, work, outcome)
    _tell(ni, frame, outcome.tell_last)
    ni.carry_out(vi, outcome, frame.epoch)


def _written(ni: Messaging, frame: Frame, work: Work | None, outcome: Outcome) -> None:
    """The host has brought an RDMA write's bytes to where they belong."""
    if work is not None and not work.told:
        if outcome.status & STATUS_IMMEDIATE:
            work.immediate = frame.immediate
        ni.submit((work, outcome.status, frame.total))
    ni.observer.note_message(frame, "delivered")
    _tell(ni, frame, outcome.tell_last)


async def _deliver(
    ni: Messaging, frame: Frame, place: int, work: Work | None, outcome: Outcome
) -> None:
    """Bring a message that is as it should be to where it belongs, and report it."""
    if frame.kind == WRITE:
        runs = ni.firmware.runs_of_stretch(frame.remote_address, frame.total)
        await ni.scatter(runs, place, frame.journal)
        ni.give(place)
    elif work is None:
        ni.give(place)  # the read that wanted it is gone
    else:
        await _bring(ni, work, frame, place)
    is_void = frame.kind == READ_RESPONSE and work is None
    ni.observer.note_message(frame, "void" if is_void else "delivered")
    if work is None:
        return
    if work.queue == RECEIVE_QUEUE:
        work.journal = frame.journal
        if outcome.status & STATUS_IMMEDIATE:
            work.immediate = frame.immediate
    await ni.complete(work, outcome.status, frame.total)
    if frame.kind == READ_RESPONSE:
        while work.vi.held:
            ni.submit(work.vi.held.popleft())


async def _bring(ni: Messaging, work: Work, frame: Frame, place: int) -> None:
    """Scatter the message over the segments of the descriptor."""
    assert work.request is not None
    if frame.target.stream is not None:
        for piece in frame.target.stream:
            await ni.engines[RECEIVE_QUEUE].wait(piece, frame.journal)
        frame.target.stream = None
        ni.give(place)
        return
    runs = ni.firmware.runs_of_request(work.request, frame.total)
    delivery = await ni.scatter(runs, place, frame.journal)
    if not ni.port.by_processor:
        ni.give(place)
        return
    work.delivery = delivery
    queue = work.vi.completion_queues[work.queue]
    bell = work.vi.bells[work.queue]
    delivery.bells = (bell, *([queue.bell] if queue is not None else []))
    ni.deliveries.append(delivery)
    for one in ni.idle:  # whoever waits for something else may have to make way
        one.ring()


async def _read_for(ni: Messaging, frame: Frame) -> None:
    """The other end wants to read this node's memory."""
    if not ni.port.coherent:
        assistance.read_for(ni, frame)
        return
    place = ni.room_to_send(frame.total)
    runs = ni.firmware.runs_of_stretch(frame.remote_address, frame.total)
    await assistance.answer(ni, frame, runs, place, frame.journal)
