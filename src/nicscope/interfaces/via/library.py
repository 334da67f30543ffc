"""VIPL, the library that programs call: the specification's calls under their own names.

``VipPostSend`` is ``post_send``, and so on.  What C returns as an error code is raised as
``VipError``; ``VIP_NOT_DONE`` is None.  Times are microseconds of virtual time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from nicscope.interfaces.via.assistance import begin_posting, end_posting, in_order, take
from nicscope.interfaces.via.descriptor import (
    ALIGNMENT,
    STATUS_WORDS,
    AddressSegment,
    DataSegment,
    Descriptor,
    token_of,
)
from nicscope.interfaces.via.journal import Journal, Part
from nicscope.interfaces.via.messaging import CQ_ENTRY
from nicscope.interfaces.via.names import (
    STATUS_ERROR_MASK,
    Control,
    Error,
    Reliability,
    Return,
    Status,
    VipError,
)
from nicscope.interfaces.via.turns import hear
from nicscope.interfaces.via.vi import RECEIVE_QUEUE, SEND_QUEUE, Attributes, Work
from nicscope.nic.vimsg.layout import MOST_SEGMENTS
from nicscope.nic.vimsg.requests import RDMA_READ, STATUS_AT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nicscope.interfaces.via.addresses import Buffer, Region
    from nicscope.interfaces.via.agent import Agent, Request
    from nicscope.interfaces.via.turns import Bell
    from nicscope.interfaces.via.vi import CompletionQueue, Vi
    from nicscope.nic.coherent.mechanism import Mechanism

PS_PER_US = 10**6


class NicAttributes(msgspec.Struct, frozen=True):
    """What ``query_nic`` tells."""

    mechanism: Mechanism
    mtu: int
    max_transfer: int
    max_segments: int
    descriptor_alignment: int
    reliability: tuple[Reliability, ...]
    rdma: bool


class Descriptors:
    """Registered memory cut into places for descriptors; each call takes the next place."""

    def __init__(self, region: Region, segments: int) -> None:
        self._region = region
        self._size = -(-(32 + 16 * segments) // ALIGNMENT) * ALIGNMENT
        self._count = region.length // self._size
        self._most = segments
        self._next = 0
        if self._count < 1:
            raise VipError(
                Return.VIP_INVALID_PARAMETER,
                f"{region.length} bytes have no room for a descriptor of {self._size}",
            )

    def request(
        self,
        *data: DataSegment,
        control: Control = Control.VIP_CONTROL_OP_SENDRECV,
        remote: AddressSegment | None = None,
        immediate: int | None = None,
    ) -> Descriptor:
        """A descriptor for a send or a receive of ``data``, or as ``control`` says."""
        if len(data) + (remote is not None) > self._most:
            raise VipError(
                Return.VIP_INVALID_PARAMETER,
                f"these descriptors have room for {self._most} segments, got {len(data)}",
            )
        address = self._region.address + self._next % self._count * self._size
        self._next += 1
        if immediate is not None:
            control |= Control.VIP_CONTROL_IMMEDIATE
        return Descriptor(
            address, self._region.handle, data, control, remote, immediate=immediate or 0
        )


class Nic:
    """An open NIC, as one program on its node has it."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._ni = agent.ni
        self._turns = agent.ni.turns
        self._port = agent.ni.port
        self._space = agent.ni.space

    @property
    def node(self) -> int:
        """Its number."""
        return self._port.number

    @property
    def now_us(self) -> float:
        """Microseconds of virtual time."""
        return self._turns.now / PS_PER_US

    @property
    def now_ps(self) -> int:
        """The same in whole picoseconds."""
        return self._turns.now

    # --- the program's own memory --------------------------------------------------------

    def allocate(self, byte_count: int) -> Buffer:
        """Fresh memory, in whole pages."""
        return self._space.allocate(byte_count)

    async def write(self, address: int, raw: bytes) -> None:
        """Store ``raw`` word by word, through the caches."""
        self._own(address, len(raw))
        done = 0
        for at, size in self._space.runs(address, len(raw)):
            await self._turns.until(self._port.write(at, raw[done : done + size], self._turns.now))
            done += size

    async def read(self, address: int, byte_count: int) -> bytes:
        """Load that many bytes, through the caches."""
        self._own(address, byte_count)
        parts = []
        for at, size in self._space.runs(address, byte_count):
            raw, end = self._port.read(at, size, self._turns.now)
            await self._turns.until(end)
            parts.append(raw)
        return b"".join(parts)

    async def compute(self, microseconds: float) -> None:
        """Do something else for a while."""
        if microseconds < 0:
            raise VipError(Return.VIP_INVALID_PARAMETER, f"a negative time, {microseconds} us")
        await self._turns.until(self._turns.now + round(microseconds * PS_PER_US))

    def _own(self, address: int, byte_count: int) -> None:
        if byte_count < 0 or not self._space.holds(address, byte_count):
            raise VipError(
                Return.VIP_INVALID_PARAMETER,
                f"{byte_count} bytes at {address:#x} are not the process's memory",
            )

    # --- NIC, protection tags, memory ----------------------------------------------------

    def query_nic(self) -> NicAttributes:
        """What this NIC can do."""
        settings = self._ni.settings
        return NicAttributes(
            self._port.mechanism,
            settings.mtu,
            settings.max_transfer,
            MOST_SEGMENTS,
            ALIGNMENT,
            tuple(Reliability),
            rdma=True,
        )

    async def create_ptag(self) -> int:
        """A protection tag: VIs and memory that have the same one belong together."""
        await self._agent.call()
        return self._agent.create_tag()

    async def destroy_ptag(self, tag: int) -> None:
        """Errors: ``VIP_INVALID_PARAMETER``; ``VIP_ERROR_RESOURCE`` while in use."""
        await self._agent.call()
        self._agent.destroy_tag(tag)

    async def register_mem(
        self,
        buffer: Buffer,
        tag: int,
        *,
        enable_rdma_write: bool = False,
        enable_rdma_read: bool = False,
    ) -> Region:
        """``buffer`` pinned and known to the NIC.

        Errors: ``VIP_INVALID_PTAG``, ``VIP_INVALID_PARAMETER``.
        """
        return await self._agent.register(
            buffer, tag, rdma_write=enable_rdma_write, rdma_read=enable_rdma_read
        )

    async def deregister_mem(self, region: Region) -> None:
        """Take the registration back.  Errors: ``VIP_INVALID_PARAMETER``."""
        await self._agent.deregister(region.handle)

    async def descriptors(self, tag: int, count: int = 64, segments: int = 2) -> Descriptors:
        """Fresh registered memory for ``count`` descriptors of up to ``segments`` segments."""
        if count < 1 or not 0 <= segments <= MOST_SEGMENTS:
            raise VipError(
                Return.VIP_INVALID_PARAMETER,
                f"a NIC has descriptors of up to {MOST_SEGMENTS} segments, got {segments!r}",
            )
        size = -(-(32 + 16 * segments) // ALIGNMENT) * ALIGNMENT
        return Descriptors(await self.register_mem(self.allocate(count * size), tag), segments)

    # --- virtual interfaces and completion queues ----------------------------------------

    async def create_vi(
        self,
        tag: int,
        reliability: Reliability = Reliability.VIP_SERVICE_RELIABLE_DELIVERY,
        *,
        max_transfer: int | None = None,
        enable_rdma_write: bool = False,
        enable_rdma_read: bool = False,
        send_cq: CompletionQueue | None = None,
        recv_cq: CompletionQueue | None = None,
    ) -> Vi:
        """An idle VI.  Errors: the ``VIP_INVALID_...`` of what is wrong."""
        await self._agent.call()
        most = self._ni.settings.max_transfer if max_transfer is None else max_transfer
        attributes = Attributes(tag, reliability, most, enable_rdma_write, enable_rdma_read)
        return self._agent.create_vi(attributes, send_cq, recv_cq)

    async def destroy_vi(self, vi: Vi) -> None:
        """Errors: ``VIP_INVALID_STATE``, ``VIP_ERROR_RESOURCE``, ``VIP_INVALID_PARAMETER``."""
        self._known(vi)
        await self._agent.call()
        self._agent.destroy_vi(vi)

    async def create_cq(self, tag: int, entries: int = 64) -> CompletionQueue:
        """A completion queue with room for so many completions not yet taken."""
        if entries < 1:
            raise VipError(Return.VIP_INVALID_PARAMETER, f"a queue of {entries!r} entries")
        region = await self.register_mem(self.allocate(entries * CQ_ENTRY), tag)
        return self._agent.create_completion_queue(region, entries)

    async def destroy_cq(self, queue: CompletionQueue) -> None:
        """Errors: ``VIP_ERROR_RESOURCE`` while a VI has it."""
        if queue.users:
            raise VipError(Return.VIP_ERROR_RESOURCE, "VIs still have this completion queue")
        await self.deregister_mem(queue.region)

    def errors(self, vi: Vi) -> list[Error]:
        """What the error callback would have been told of the VI, in order."""
        return list(vi.errors)

    # --- connections ---------------------------------------------------------------------

    async def connect_request(
        self, vi: Vi, node: int, discriminator: str, timeout_us: float | None = None
    ) -> None:
        """Connect ``vi`` with one that waits on ``node`` under ``discriminator``.

        Errors: ``VIP_INVALID_STATE``, ``VIP_NOT_REACHABLE``, ``VIP_NO_MATCH``, ``VIP_TIMEOUT``,
        ``VIP_REJECT``.
        """
        self._known(vi)
        await self._agent.connect_request(vi, node, discriminator, self._latest(timeout_us))

    async def connect_wait(self, discriminator: str, timeout_us: float | None = None) -> Request:
        """The next request for that discriminator.  Errors: ``VIP_TIMEOUT``."""
        return await self._agent.connect_wait(discriminator, self._latest(timeout_us))

    async def connect_accept(self, request: Request, vi: Vi) -> None:
        """Errors: ``VIP_INVALID_STATE``, ``..._RELIABILITY_LEVEL``, ``..._MTU``, ``TIMEOUT``."""
        self._known(vi)
        await self._agent.connect_accept(request, vi)

    async def connect_reject(self, request: Request) -> None:
        """The other side gets ``VIP_REJECT``."""
        await self._agent.connect_reject(request)

    async def disconnect(self, vi: Vi) -> None:
        """Back to idle, from any state; what is posted is flushed."""
        self._known(vi)
        await self._agent.disconnect(vi)

    # --- transfers -----------------------------------------------------------------------

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
        descriptor = places.request(
            *data, control=Control.VIP_CONTROL_OP_RDMAWRITE, remote=remote, immediate=immediate
        )
        await self.post_send(vi, descriptor)
        return descriptor

    async def rdma_read(
        self, vi: Vi, places: Descriptors, data: Sequence[DataSegment], remote: AddressSegment
    ) -> Descriptor:
        """Read the other node's memory from ``remote`` on into ``data``; the descriptor."""
        descriptor = places.request(*data, control=Control.VIP_CONTROL_OP_RDMAREAD, remote=remote)
        await self.post_send(vi, descriptor)
        return descriptor

    async def _post(self, vi: Vi, queue: int, descriptor: Descriptor) -> None:
        """Build the descriptor, do the processor's share, ring the doorbell.

        Errors: ``VIP_INVALID_PARAMETER`` for a VI that is not this NIC's, or a descriptor that is
        not in registered memory, not aligned, or still posted.
        """
        self._known(vi)
        raw = descriptor.encode()
        tag = vi.attributes.tag
        if descriptor.address % ALIGNMENT or not self._ni.firmware.permits(
            descriptor.handle, descriptor.address, len(raw), tag
        ):
            raise VipError(
                Return.VIP_INVALID_PARAMETER,
                f"a descriptor must lie in registered memory of tag {tag}, aligned to {ALIGNMENT}",
            )
        if any(work.descriptor.address == descriptor.address for one in vi.posted for work in one):
            raise VipError(
                Return.VIP_INVALID_PARAMETER, "the descriptor's place is still in a queue of the VI"
            )
        descriptor.status, descriptor.length = Status(0), 0
        journal = Journal(self._turns.now) if queue == SEND_QUEUE else None
        descriptor.journal = journal
        count = len(descriptor.data) + (descriptor.remote is not None)
        work = Work(vi, queue, descriptor, token_of(descriptor.address, count), journal=journal)
        await self._ni.spend("vipl_post", journal, Part.LIBRARY)
        await self.write(descriptor.address, raw)
        if journal is not None:
            journal.spend(Part.LIBRARY, self._turns.now)
        receive = queue == RECEIVE_QUEUE
        await self._ni.pin(descriptor.address, len(raw), journal, receive=False)
        for one in descriptor.data:
            if self._ni.firmware.permits(one.handle, one.address, one.length, tag):
                await self._ni.pin(one.address, one.length, journal, receive=receive)
        await begin_posting(self._ni)
        await self._hand_over(work, len(raw))
        vi.posted[queue].append(work)
        end = self._port.doorbell(work.token, self._turns.now)
        if journal is not None:
            journal.spend(Part.LIBRARY, end)
        await self._turns.until(end)
        self._ni.submit(work)
        end_posting(self._ni)

    async def _hand_over(self, work: Work, byte_count: int) -> None:
        """The processor's share of a transfer: to copy, or to flush."""
        descriptor = work.descriptor
        stretches = [(one.address, one.length) for one in descriptor.data]
        tag = work.vi.attributes.tag
        mine = all(
            self._ni.firmware.permits(one.handle, one.address, one.length, tag)
            for one in descriptor.data
        )
        mine = mine and sum(n for _, n in stretches) <= work.vi.attributes.max_transfer
        to_fill = work.queue == RECEIVE_QUEUE or descriptor.operation == RDMA_READ
        if mine and not to_fill:
            work.published = stretches
        if self._port.by_processor:
            work.places = tuple(
                [await self._room(count, work) for count in self._room_sizes(work, byte_count)]
            )
        place = work.places[0] if work.places else 0
        await self._publish([(descriptor.address, byte_count)], place, work)
        if work.published is not None:
            place = work.places[1] if work.places else 0
            await self._publish(work.published, place, work)
        elif mine and to_fill:
            await self._flush(work, None)

    async def _flush(self, work: Work, journal: Journal | None) -> None:
        """Have no line of a receive's buffers in the caches, if the DMA engine passes them by."""
        if not self._port.flushed:
            return
        for one in work.descriptor.data:
            for at, size in self._space.runs(one.address, one.length):
                await self._turns.until(self._port.clear(at, size, self._turns.now, journal))

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
                await self._turns.until(end)
                place += size

    # --- completions ---------------------------------------------------------------------

    async def send_done(self, vi: Vi) -> Descriptor | None:
        """The oldest posted send if it is done, taken off its queue; else None.

        Errors: ``VIP_DESCRIPTOR_ERROR`` if none is posted.
        """
        return await self._done(vi, SEND_QUEUE)

    async def recv_done(self, vi: Vi) -> Descriptor | None:
        """The oldest posted receive if it is done, likewise."""
        return await self._done(vi, RECEIVE_QUEUE)

    async def send_wait(self, vi: Vi, timeout_us: float | None = None) -> Descriptor:
        """The oldest posted send, when it is done.  Errors: also ``VIP_TIMEOUT``."""
        return await self._wait(vi, SEND_QUEUE, timeout_us)

    async def recv_wait(self, vi: Vi, timeout_us: float | None = None) -> Descriptor:
        """The oldest posted receive, likewise."""
        return await self._wait(vi, RECEIVE_QUEUE, timeout_us)

    async def cq_done(self, queue: CompletionQueue) -> tuple[Vi, bool] | None:
        """The VI that has the next completion, and whether it is a receive; None if none has."""
        await self._turns.until(self._turns.now + self._ni.settings.costs["vipl_poll"])
        entry = queue.region.address + queue.read % queue.entries * CQ_ENTRY
        word = int.from_bytes(await self.read(entry, CQ_ENTRY), "little") - 1
        if queue.read == queue.written:
            return None
        queue.read += 1
        vi = next(one for one in self._agent.vis if one.number == word >> 1)
        return vi, bool(word & 1)

    async def cq_wait(
        self, queue: CompletionQueue, timeout_us: float | None = None
    ) -> tuple[Vi, bool]:
        """The same, when there is one.  Errors: ``VIP_TIMEOUT``."""
        latest = self._latest(timeout_us)
        while queue.read == queue.written:
            if latest is not None and self._turns.now >= latest:
                raise VipError(Return.VIP_TIMEOUT, "no completion in time")
            await self._idle(queue.bell, latest)
        found = await self.cq_done(queue)
        assert found is not None
        return found

    async def _wait(self, vi: Vi, queue: int, timeout_us: float | None) -> Descriptor:
        latest = self._latest(timeout_us)
        while not self._head(vi, queue).done:
            if latest is not None and self._turns.now >= latest:
                raise VipError(Return.VIP_TIMEOUT, "the descriptor is not done in time")
            await self._idle(vi.bells[queue], latest)
        found = await self._done(vi, queue)
        assert found is not None
        return found

    async def _done(self, vi: Vi, queue: int) -> Descriptor | None:
        work = self._head(vi, queue)
        journal = work.journal if queue == RECEIVE_QUEUE and work.done else None
        if journal is not None:
            journal.resume(self._turns.now)
        await self._ni.spend("vipl_poll", journal, Part.LIBRARY)
        descriptor = work.descriptor
        raw = await self.read(descriptor.address + STATUS_AT, STATUS_WORDS.size)
        immediate, length, status = STATUS_WORDS.unpack(raw)
        if not work.done or not status & Status.VIP_STATUS_DONE:
            return None
        if journal is not None:
            journal.spend(Part.LIBRARY, self._turns.now)
        await self._collect(work, journal)
        filled = queue == RECEIVE_QUEUE or descriptor.operation == RDMA_READ
        if filled and status & STATUS_ERROR_MASK == 0:
            await self._flush(work, journal)
        vi.posted[queue].popleft()
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

    def _head(self, vi: Vi, queue: int) -> Work:
        self._known(vi)
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

    def _known(self, vi: Vi) -> None:
        if vi not in self._agent.vis:
            raise VipError(Return.VIP_INVALID_PARAMETER, f"node {self.node} has no such VI")

    def _latest(self, timeout_us: float | None) -> int | None:
        return None if timeout_us is None else self._turns.now + round(timeout_us * PS_PER_US)
