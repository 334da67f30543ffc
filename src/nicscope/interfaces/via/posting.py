"""The half of VIPL that posts: descriptors built, the processor's share done, doorbells rung."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.interfaces.via.assistance import begin_posting, end_posting
from nicscope.interfaces.via.descriptor import (
    ALIGNMENT,
    AddressSegment,
    DataSegment,
    Descriptor,
    place_in,
    token_of,
)
from nicscope.interfaces.via.endpoint import RECEIVE_QUEUE, SEND_QUEUE, Work
from nicscope.interfaces.via.journal import Journal, Part
from nicscope.interfaces.via.names import Control, Return, Status, VipError
from nicscope.interfaces.via.places import Descriptors, checked
from nicscope.interfaces.via.program import Program
from nicscope.interfaces.via.turns import hear
from nicscope.interfaces.via.vi import Vi
from nicscope.nic.vimsg.requests import RDMA_READ

if TYPE_CHECKING:
    from collections.abc import Sequence


class Posting(Program):
    """Calls that hand work to the NIC."""

    async def post_send(self, vi: Vi, descriptor: Descriptor) -> None:
        """Hand a send or an RDMA to the NIC.  Errors: see ``_post``."""
        await self._post(vi, SEND_QUEUE, descriptor)

    async def post_recv(self, vi: Vi, descriptor: Descriptor) -> None:
        """Hand a receive to the NIC, before the message is sent.  Errors: see ``_post``."""
        await self._post(vi, RECEIVE_QUEUE, descriptor)

    async def rdma_write(
        self,
        vi: Vi,
        places: Descriptors,
        data: Sequence[DataSegment],
        remote: AddressSegment,
        immediate: int | None = None,
    ) -> Descriptor:
        """Write ``data`` to the other node's memory from ``remote`` on; the posted descriptor."""
        self._enter()
        self._owner.record_of(places, Descriptors)
        descriptor = places.request(
            *data, control=Control.VIP_CONTROL_OP_RDMAWRITE, remote=remote, immediate=immediate
        )
        await self.post_send(vi, descriptor)
        return descriptor

    async def rdma_read(
        self, vi: Vi, places: Descriptors, data: Sequence[DataSegment], remote: AddressSegment
    ) -> Descriptor:
        """Read the other node's memory from ``remote`` on into ``data``; the descriptor."""
        self._enter()
        self._owner.record_of(places, Descriptors)
        descriptor = places.request(*data, control=Control.VIP_CONTROL_OP_RDMAREAD, remote=remote)
        await self.post_send(vi, descriptor)
        return descriptor

    async def _post(self, handle: Vi, queue: int, descriptor: Descriptor) -> None:
        """Build the descriptor, do the processor's share, ring the doorbell.

        Errors: ``VIP_INVALID_PARAMETER`` for a VI, or memory, that is not this process's, and for a
        descriptor that is not in registered memory, not aligned, or still posted.
        """
        self._enter()
        vi = self._owner.record_of(handle, Vi)
        _, address, region, among = checked(self._owner, descriptor)
        raw = descriptor.encode()
        tag = vi.attributes.tag
        if not self._ni.firmware.permits(region, address, len(raw), tag):
            raise VipError(
                Return.VIP_INVALID_PARAMETER,
                f"a descriptor must lie in registered memory of tag {tag}, aligned to {ALIGNMENT}",
            )
        if address in vi.addresses:
            raise VipError(
                Return.VIP_INVALID_PARAMETER, "the descriptor's place is still in a queue of the VI"
            )
        descriptor.status, descriptor.length = Status(0), 0
        journal = Journal(self._turns.now) if queue == SEND_QUEUE else None
        descriptor.journal = journal
        data = tuple(descriptor.data)
        token = token_of(address, len(data) + (descriptor.remote is not None))
        what = descriptor.operation, descriptor.immediate
        work = Work(vi, queue, descriptor, token, among, data, *what, journal=journal)
        vi.addresses.add(address)
        await self._ni.spend("vipl_post", journal, Part.LIBRARY)
        await self.write(address, raw)
        if journal is not None:
            journal.spend(Part.LIBRARY, self._turns.now)
        firmware = self._ni.firmware
        mine = [one for one in data if firmware.permits(one.handle, one.address, one.length, tag)]
        if self._ni.translator is not None:
            await self._ni.pin(address, len(raw), journal, receive=False)
            for one in mine:
                receive = queue == RECEIVE_QUEUE
                await self._ni.pin(one.address, one.length, journal, receive=receive)
        if self._port.has_share:
            await begin_posting(self._ni)
            await self._hand_over(work, len(raw), usable=len(mine) == len(data))
        vi.posted[queue].append(work)
        self._ni.observer.posted += 1
        end = self._port.doorbell(work.token, self._turns.now)
        if journal is not None:
            journal.spend(Part.LIBRARY, end)
        await self._turns.until(end, "doorbell")
        self._ni.submit(work)
        if self._port.has_share:
            end_posting(self._ni)

    async def _hand_over(self, work: Work, byte_count: int, *, usable: bool) -> None:
        """The processor's share of a transfer: to copy, or to flush.

        ``usable``: all data are in memory that the VI may use.
        """
        stretches = [(one.address, one.length) for one in work.data]
        mine = usable and sum(n for _, n in stretches) <= work.vi.attributes.max_transfer
        to_fill = work.queue == RECEIVE_QUEUE or work.operation == RDMA_READ
        if mine and not to_fill:
            work.published = stretches
        if self._port.by_processor:
            work.places = tuple(
                [await self._room(count, work) for count in self._room_sizes(work, byte_count)]
            )
        place = work.places[0] if work.places else 0
        await self._publish([(place_in(work.token)[0], byte_count)], place, work)
        if work.published is not None:
            place = work.places[1] if work.places else 0
            await self._publish(work.published, place, work)
        elif mine and to_fill:
            await self._flush_buffers(work, None)

    def _room_sizes(self, work: Work, byte_count: int) -> list[int]:
        if work.published is None:
            return [byte_count]
        return [byte_count, sum(count for _, count in work.published)]

    async def _room(self, count: int, work: Work) -> int:
        while (place := self._ni.firmware.take_room(SEND_QUEUE, count)) is None:
            await hear(self._ni.freed)
            if work.journal is not None:
                work.journal.resume(self._turns.now)
        return place

    async def _publish(self, stretches: list[tuple[int, int]], place: int, work: Work) -> None:
        for address, count in stretches:
            for at, size in self._space.runs(address, count):
                while True:
                    now = self._turns.now
                    end = self._port.hand_out(at, size, place, now, work.journal)
                    if end >= 0:
                        break
                    await hear(self._ni.freed)
                    if work.journal is not None:
                        work.journal.resume(self._turns.now)
                await self._turns.until(end, "publish")
                place += size
