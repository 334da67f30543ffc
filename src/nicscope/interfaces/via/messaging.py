"""VI-MSG in virtual time: the NIC's processor asks the firmware what is next, and spends the time.

It takes tokens from doorbells, reads descriptors, sends and receives frames, and reports
completions.  ``outgoing`` and ``incoming`` are its two halves; the rules are in ``nic.vimsg``.
Source: EDT, 3 and 6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.interfaces.via import incoming, outgoing, repetition
from nicscope.interfaces.via.descriptor import place_in
from nicscope.interfaces.via.endpoint import RECEIVE_QUEUE, SEND_QUEUE, Work
from nicscope.interfaces.via.journal import Part
from nicscope.interfaces.via.moving import Moving
from nicscope.interfaces.via.names import Status
from nicscope.interfaces.via.network import Frame
from nicscope.interfaces.via.reporting import Reporting
from nicscope.interfaces.via.turns import hear

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Messaging(Moving, Reporting):
    """The NIC of one node."""

    async def serve(self) -> None:
        """The firmware's main loop."""
        while True:
            if self.unsettled:
                await self._repeat_what_is_due()
            if not self._tasks:
                latest = min((vi.resend_at for vi in self.unsettled.values()), default=None)
                await hear(self._called, latest)
                continue
            task = self._tasks.popleft()
            if isinstance(task, tuple):
                await self.complete(*task)
            elif isinstance(task, Work):
                await self._take(task)
            elif isinstance(task, Frame):
                await incoming.receive(self, task)
            else:
                await task()

    async def _repeat_what_is_due(self) -> None:
        for vi in list(self.unsettled.values()):
            if vi.unsettled and vi.resend_at <= self.turns.now:
                await repetition.repeat(self, vi)

    # --- doorbells -----------------------------------------------------------------------

    async def _take(self, work: Work) -> None:
        """Read the descriptor that a token names, and do what it says."""
        part = Part.SEND if work.queue == SEND_QUEUE else Part.RECEIVE
        if work.journal is not None:
            work.journal.resume(self.turns.now)
        if not work.read:
            await self._read(work, part)
        if work.told or work.flushed:
            return  # before the NIC came to it
        assert work.request is not None
        if work.bad:
            await self.refuse(work, Status.VIP_STATUS_FORMAT_ERROR)
        elif work.queue == SEND_QUEUE:
            await outgoing.send(self, work, work.request)
        elif not self.firmware.take_receive(work.vi.place, work.request):
            await self.refuse(work, Status.VIP_STATUS_DESC_FLUSHED_ERROR)

    async def _read(self, work: Work, part: Part) -> None:
        """Take the descriptor, and all else that the processor has moved for it, if it did."""
        work.read = True
        await self.spend("vimsg_token", work.journal, part)
        address, count = place_in(work.token)
        place = work.places[0] if work.places else self.room_to_send(count)
        runs = self.firmware.runs_of_stretch(address, count)
        raw = await self.gather(runs, place, work.journal, part)
        if not work.told:
            receive = work.queue == RECEIVE_QUEUE
            work.request, work.bad = self.firmware.read_request(raw, receive=receive)
            self.works[work.request] = work
        if not work.places:
            self.give(place)
            return
        if work.published is not None:
            runs = [
                run for stretch in work.published for run in self.firmware.runs_of_stretch(*stretch)
            ]
            work.raw = await self.gather(runs, work.places[1], work.journal, part)
        for place in work.places:
            self.give(place)

    async def take_message(self, work: Work, request: int) -> NDArray[np.uint8]:
        """The message that a send names, fetched by the NIC itself."""
        place = self.room_to_send(self.firmware.length_of(request))
        raw = await self.gather(
            self.firmware.runs_of_request(request), place, work.journal, Part.SEND
        )
        self.give(place)
        return raw
