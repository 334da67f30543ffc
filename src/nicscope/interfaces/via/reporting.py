"""What the host is told: completions, errors, connections that break."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.interfaces.via.descriptor import STATUS_WORDS, place_in
from nicscope.interfaces.via.endpoint import RECEIVE_QUEUE
from nicscope.interfaces.via.journal import Part
from nicscope.interfaces.via.names import Error, Status
from nicscope.interfaces.via.node import Node
from nicscope.nic.vimsg.layout import NOWHERE
from nicscope.nic.vimsg.requests import STATUS_AT

if TYPE_CHECKING:
    from nicscope.interfaces.via.endpoint import Endpoint, Work
    from nicscope.interfaces.via.journal import Journal
    from nicscope.interfaces.via.tables import Outcome

CQ_ENTRY = 8  # bytes: VI and work queue


class Reporting(Node):
    """Of one node's NIC."""

    async def refuse(self, work: Work, status: int) -> None:
        """Report an error of the request itself; with reliability it breaks the connection."""
        epoch, outcome = work.vi.epoch, self.firmware.refuse(work.vi.place, status)
        await self.complete(work, status)
        self.carry_out(work.vi, outcome, epoch)

    def carry_out(self, vi: Endpoint, outcome: Outcome, epoch: int) -> None:
        """The library hears of an error, and if that is how it is the connection breaks.

        Nothing happens if ``vi`` has begun another connection than that of ``epoch`` meanwhile.
        """
        if outcome.error is None or vi.epoch != epoch:
            return
        if outcome.breaks:
            self.break_connection(vi, outcome.error)
        else:
            vi.errors.append(outcome.error)

    async def complete(self, work: Work, status: int, length: int = 0) -> None:
        """Write the descriptor's status, then the completion queue's entry."""
        if work.told:
            return
        work.told = True
        journal = work.journal if work.queue == RECEIVE_QUEUE else None
        await self.spend("vimsg_complete", journal, Part.RECEIVE)
        word = self.firmware.status_word(work.request, status, receive=work.queue == RECEIVE_QUEUE)
        raw = STATUS_WORDS.pack(work.immediate, length, word)
        await self._write(place_in(work.token)[0] + STATUS_AT, raw, journal)
        queue = work.vi.completion_queues[work.queue]
        if queue is not None:
            if queue.written - queue.read == queue.entries:
                work.vi.errors.append(Error.VIP_ERROR_CATASTROPHIC)
            else:
                entry = queue.address + queue.written % queue.entries * CQ_ENTRY
                raw = (1 + 2 * work.vi.number + work.queue).to_bytes(CQ_ENTRY, "little")
                await self._write(entry, raw, journal)
                queue._note(work.vi, work.queue)
                work.noted = True
        work.done = True
        self.observer.note_end(status)
        if work.request is not None:
            del self.works[work.request]
            self.firmware.forget_request(work.request)
            work.request = None
        work.vi.bells[work.queue].ring()
        if queue is not None:
            queue.bell.ring()

    async def _write(self, address: int, raw: bytes, journal: Journal | None) -> None:
        """A completion to the user's ``address``."""
        ((at, _),) = self.space.runs(address, len(raw))
        end = self.port.complete(at, raw, self.turns.now)
        if journal is not None:
            journal.spend(Part.RECEIVE, end)
        await self.turns.until(end, "report")

    def break_connection(self, vi: Endpoint, error: Error) -> None:
        """Both ends go to the error state; what they have posted is flushed."""
        peer = vi.peer  # which has this end as its own peer, or there is no connection any more
        if self.fail(vi, error) and peer is not None:
            self.neighbours[peer.node].fail(peer, Error.VIP_ERROR_CONN_LOST)

    def fail(self, vi: Endpoint, error: Error) -> bool:
        """The VI goes to the error state, and what it has posted is flushed; unless it has been."""
        if vi.place == NOWHERE or not self.firmware.lose_connection(vi.place):
            return False
        vi.peer = None
        vi.errors.append(error)
        self.flush(vi)
        return True

    def flush(self, vi: Endpoint) -> None:
        """Have all posted descriptors completed as flushed."""
        self.firmware.forget(vi.place)
        self.observer.note_given_up(vi)
        vi.held.clear()
        vi.unsettled.clear()
        self.unsettled.pop(vi.place, None)
        vi.stream = None
        self.freed.ring()
        for queue in vi.posted:
            for work in queue:
                if not work.told:
                    work.flushed = True
                    self.submit((work, Status.VIP_STATUS_DESC_FLUSHED_ERROR, 0))
        for bell in vi.bells:
            bell.ring()
