"""The half of VIPL that learns what is done: polls and waits, on work and completion queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.interfaces.via.assistance import in_order, take
from nicscope.interfaces.via.descriptor import STATUS_WORDS, Descriptor, place_in
from nicscope.interfaces.via.endpoint import RECEIVE_QUEUE, SEND_QUEUE, Endpoint, Work
from nicscope.interfaces.via.journal import Journal, Part
from nicscope.interfaces.via.names import STATUS_ERROR_MASK, Return, Status, VipError
from nicscope.interfaces.via.program import Program
from nicscope.interfaces.via.reporting import CQ_ENTRY
from nicscope.interfaces.via.turns import hear
from nicscope.interfaces.via.vi import CompletionQueue, Vi
from nicscope.nic.vimsg.requests import DONE, RDMA_READ, STATUS_AT

if TYPE_CHECKING:
    from nicscope.interfaces.via.turns import Bell

NAMES = ("send", "receive")  # by work queue
DONE_CALLS = ("send_done", "recv_done")


class Completions(Program):
    """Calls that take completed work back."""

    async def send_done(self, vi: Vi) -> Descriptor | None:
        """The oldest posted send if it is done, taken off its queue; else None.

        Errors: ``VIP_DESCRIPTOR_ERROR`` if none is posted.
        """
        return await self._done(vi, SEND_QUEUE)

    async def recv_done(self, vi: Vi) -> Descriptor | None:
        """The oldest posted receive if it is done, likewise."""
        return await self._done(vi, RECEIVE_QUEUE)

    async def send_wait(self, vi: Vi, timeout_us: float | None = None) -> Descriptor:
        """The oldest posted send, when it is done.

        Errors: also ``VIP_TIMEOUT``; ``VIP_INVALID_PARAMETER`` for a queue that has a completion
        queue, as all waiting is done there then.
        """
        return await self._wait(vi, SEND_QUEUE, timeout_us)

    async def recv_wait(self, vi: Vi, timeout_us: float | None = None) -> Descriptor:
        """The oldest posted receive, likewise."""
        return await self._wait(vi, RECEIVE_QUEUE, timeout_us)

    async def cq_done(self, queue: CompletionQueue) -> tuple[Vi, bool] | None:
        """The VI that has the next completion, and whether it is a receive; None if none has.

        A completion that was taken off its work queue before is passed by.
        """
        self._enter()
        ring = self._owner.record_of(queue, CompletionQueue)
        await self._turns.until(self._turns.now + self._ni.settings.costs["vipl_poll"], "poll")
        await self.read(ring.address + ring.read % ring.entries * CQ_ENTRY, CQ_ENTRY)
        if ring.read == ring.written:
            return None
        vi, which = ring._take()
        return vi.handle, which == RECEIVE_QUEUE

    async def cq_wait(
        self, queue: CompletionQueue, timeout_us: float | None = None
    ) -> tuple[Vi, bool]:
        """The same, when there is one.  Errors: ``VIP_TIMEOUT``."""
        self._enter()
        ring = self._owner.record_of(queue, CompletionQueue)
        latest = self._latest(timeout_us)
        while (found := await self.cq_done(queue) if ring.read < ring.written else None) is None:
            if latest is not None and self._turns.now >= latest:
                raise VipError(Return.VIP_TIMEOUT, "no completion in time")
            await self._idle(ring.bell, latest)
        return found

    async def _wait(self, handle: Vi, queue: int, timeout_us: float | None) -> Descriptor:
        self._enter()
        vi = self._owner.record_of(handle, Vi)
        if vi.completion_queues[queue] is not None:
            raise VipError(
                Return.VIP_INVALID_PARAMETER,
                f"VI {vi.number} has a completion queue for its {NAMES[queue]}s, where they are "
                f"waited for: call cq_wait, then {DONE_CALLS[queue]}",
            )
        latest = self._latest(timeout_us)
        while not self._head(handle, queue).done:
            if latest is not None and self._turns.now >= latest:
                raise VipError(Return.VIP_TIMEOUT, "the descriptor is not done in time")
            await self._idle(vi.bells[queue], latest)
        found = await self._done(handle, queue)
        assert found is not None
        return found

    async def _done(self, handle: Vi, queue: int) -> Descriptor | None:
        self._enter()
        work = self._head(handle, queue)
        vi = work.vi
        journal = work.journal if queue == RECEIVE_QUEUE and work.done else None
        if journal is not None:
            journal.resume(self._turns.now)
        await self._ni.spend("vipl_poll", journal, Part.LIBRARY)
        descriptor, address = work.descriptor, place_in(work.token)[0]
        raw = await self.read(address + STATUS_AT, STATUS_WORDS.size)
        immediate, length, status = STATUS_WORDS.unpack(raw)
        if not work.done or not status & DONE:
            return None
        if journal is not None:
            journal.spend(Part.LIBRARY, self._turns.now)
        await self._collect(work, journal)
        filled = queue == RECEIVE_QUEUE or work.operation == RDMA_READ
        if filled and status & STATUS_ERROR_MASK == 0:
            await self._flush_buffers(work, journal)
        vi.posted[queue].popleft()
        vi.addresses.discard(address)
        completions = vi.completion_queues[queue]
        if completions is not None and work.noted:
            completions._spend(vi, queue)
        descriptor.immediate, descriptor.length = immediate, length
        descriptor.status = Status(status)
        if queue == RECEIVE_QUEUE:
            descriptor.journal = work.journal
        return descriptor

    async def _idle(self, bell: Bell, latest: int | None) -> None:
        """Wait; meanwhile take what is in the way of others out of a queue."""
        waiting = self._ni.deliveries
        if in_order(self._ni) and waiting and bell not in waiting[0].bells:
            await take(self._ni, waiting[0], None)
        else:
            await hear(bell, latest)

    def _head(self, handle: Vi, queue: int) -> Work:
        vi: Endpoint = self._owner.record_of(handle, Vi)
        if not vi.posted[queue]:
            raise VipError(Return.VIP_DESCRIPTOR_ERROR, "no descriptor is posted")
        return vi.posted[queue][0]

    async def _collect(self, work: Work, journal: Journal | None) -> None:
        """Bring a received message to its buffer where the NIC could not.

        Out of a queue that means all messages before it as well, each to its own buffer.
        """
        mine, work.delivery = work.delivery, None
        while mine is not None and not mine.collected:
            waiting = self._ni.deliveries
            if mine not in waiting:  # another program of this node is about to
                await hear(self._ni.freed)
            else:
                await take(self._ni, waiting[0] if in_order(self._ni) else mine, journal)
