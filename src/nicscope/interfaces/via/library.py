"""VIPL, the library that programs call: the calls that the kernel agent carries out.

``VipPostSend`` is ``post_send``, and so on.  What C returns as an error code is raised as
``VipError``; ``VIP_NOT_DONE`` is None.  Times are microseconds of virtual time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from nicscope.interfaces.arguments import LEAST
from nicscope.interfaces.via.addresses import Region
from nicscope.interfaces.via.connections import Request
from nicscope.interfaces.via.descriptor import ALIGNMENT
from nicscope.interfaces.via.names import Error, Reliability, Return, VipError
from nicscope.interfaces.via.numbers import a_name, whole
from nicscope.interfaces.via.places import Descriptors, place_bytes
from nicscope.interfaces.via.program import Program
from nicscope.interfaces.via.vi import Attributes, CompletionQueue, Vi, check_attributes

if TYPE_CHECKING:
    from nicscope.interfaces.buffers import Stretch
    from nicscope.interfaces.ports.buffers import Buffer
    from nicscope.nic.coherent.mechanism import Mechanism


CQ_ENTRY = 8  # bytes: VI and work queue
MOST_AT_ONCE = 1 << 20  # descriptors, or entries of a queue


class NicAttributes(msgspec.Struct, frozen=True):
    """What ``query_nic`` tells."""

    mechanism: Mechanism | None  # None: the NIC is on an I/O bus
    mtu: int
    max_transfer: int
    max_segments: int
    descriptor_alignment: int
    reliability: tuple[Reliability, ...]
    rdma: bool


class Library(Program):
    """An open NIC, as far as the kernel agent is asked."""

    # --- NIC, protection tags, memory ----------------------------------------------------

    def query_nic(self) -> NicAttributes:
        """What this NIC can do."""
        self._enter()
        cluster = self._agent.cluster
        return NicAttributes(
            cluster.mechanism,
            cluster.settings.mtu,
            cluster.settings.max_transfer,
            cluster.size.segments,
            ALIGNMENT,
            tuple(Reliability),
            rdma=True,
        )

    async def create_ptag(self) -> int:
        """A protection tag: VIs and memory that have the same one belong together."""
        self._enter()
        await self._agent.call()
        return self._agent.create_tag(self._owner)

    async def destroy_ptag(self, tag: int) -> None:
        """Errors: ``VIP_INVALID_PARAMETER``; ``VIP_ERROR_RESOURCE`` while in use."""
        self._enter()
        self._agent.known_tag(self._owner, tag, Return.VIP_INVALID_PARAMETER)
        await self._agent.call()
        self._agent.destroy_tag(self._owner, tag)

    async def register_mem(
        self,
        buffer: Stretch,
        tag: int,
        *,
        enable_rdma_write: bool = False,
        enable_rdma_read: bool = False,
    ) -> Region:
        """``buffer`` pinned and known to the NIC.

        Errors: ``VIP_INVALID_PTAG``, ``VIP_INVALID_PARAMETER``.
        """
        self._enter()
        region = await self._agent.register(
            self._owner, buffer, tag, rdma_write=enable_rdma_write, rdma_read=enable_rdma_read
        )
        return self._owner.give(region, region.handle)

    async def deregister_mem(self, region: Region) -> None:
        """Take the registration back.  Errors: ``VIP_INVALID_PARAMETER``."""
        self._enter()
        handle = self._owner.record_of(region, Region)
        self._owner.take_back(region, "deregistered")
        await self._agent.deregister(handle)

    async def descriptors(self, tag: int, count: int = 64, segments: int = 2) -> Descriptors:
        """Fresh registered memory for ``count`` descriptors of up to ``segments`` segments."""
        self._enter()
        many = whole(count, "a number of descriptors", 1, MOST_AT_ONCE)
        each = whole(segments, "a number of segments")
        most = self._agent.cluster.size.segments
        if each > most:
            raise VipError(
                Return.VIP_INVALID_PARAMETER,
                f"a NIC has descriptors of up to {most} segments, got {each}",
            )
        memory, region = await self._registered(many * place_bytes(each), tag)
        self._words.place(region.address, region.length, self._memory.page_size)
        return self._owner.give(Descriptors(region, each), (memory, region.handle))

    async def destroy_descriptors(self, places: Descriptors) -> None:
        """Take their memory back.  Errors: ``VIP_ERROR_RESOURCE`` while one of them is posted."""
        self._enter()
        memory, handle = self._owner.record_of(places, Descriptors)
        for vi in self._agent.vis:
            if any(work.among is places for queue in vi.posted for work in queue):
                raise VipError(
                    Return.VIP_ERROR_RESOURCE,
                    f"VI {vi.number} has one posted, or not yet taken",
                )
        self._owner.take_back(places, "destroyed")
        await self._agent.deregister(handle)
        self._space.give_back(self._owner, memory)

    async def _registered(self, byte_count: int, tag: int) -> tuple[Buffer, Region]:
        """Memory of the library's own, and its registration."""
        self._agent.known_tag(self._owner, tag, Return.VIP_INVALID_PTAG)
        memory = self._space.allocate(self._owner, byte_count)
        region = await self._agent.register(
            self._owner, memory, tag, rdma_write=False, rdma_read=False
        )
        return memory, region

    # --- virtual interfaces and completion queues ----------------------------------------

    async def create_vi(
        self,
        tag: int,
        reliability: Reliability = Reliability.VIP_SERVICE_RELIABLE_DELIVERY,
        *,
        max_transfer: int | None = None,
        enable_rdma_write: bool = False,
        enable_rdma_read: bool = False,
        qos: int = 0,
        send_cq: CompletionQueue | None = None,
        recv_cq: CompletionQueue | None = None,
    ) -> Vi:
        """An idle VI.  Errors: the ``VIP_INVALID_...`` of what is wrong."""
        self._enter()
        known = self._agent.known_tag(self._owner, tag, Return.VIP_INVALID_PTAG)
        send, receive = (
            None if queue is None else self._owner.record_of(queue, CompletionQueue)
            for queue in (send_cq, recv_cq)
        )
        longest = self._agent.cluster.settings.max_transfer
        most = longest if max_transfer is None else max_transfer
        attributes = Attributes(
            known, reliability, most, bool(enable_rdma_write), bool(enable_rdma_read), qos
        )
        check_attributes(attributes, longest)
        await self._agent.call()
        made = self._agent.create_vi(self._owner, attributes, send, receive)
        return self._owner.give(made.handle, made)

    async def destroy_vi(self, vi: Vi) -> None:
        """Errors: ``VIP_INVALID_STATE``, ``VIP_ERROR_RESOURCE``, ``VIP_INVALID_PARAMETER``."""
        self._enter()
        known = self._owner.record_of(vi, Vi)
        await self._agent.call()
        self._agent.destroy_vi(known)
        self._owner.take_back(vi, "destroyed")

    async def create_cq(self, tag: int, entries: int = 64) -> CompletionQueue:
        """A completion queue with room for so many completions not yet taken."""
        self._enter()
        many = whole(entries, "a queue's number of entries", 1, MOST_AT_ONCE)
        memory, region = await self._registered(many * CQ_ENTRY, tag)
        made = self._agent.create_completion_queue(memory, region.handle, many)
        return self._owner.give(made.handle, made)

    async def destroy_cq(self, queue: CompletionQueue) -> None:
        """Errors: ``VIP_ERROR_RESOURCE`` while a VI has it."""
        self._enter()
        ring = self._owner.record_of(queue, CompletionQueue)
        if ring.users:
            raise VipError(Return.VIP_ERROR_RESOURCE, "VIs still have this completion queue")
        self._owner.take_back(queue, "destroyed")
        self._agent.destroy_completion_queue(ring)
        await self._agent.deregister(ring.region)
        self._space.give_back(self._owner, ring.memory)

    def errors(self, vi: Vi) -> list[Error]:
        """What the error callback would have been told of the VI, in order."""
        self._enter()
        return list(self._owner.record_of(vi, Vi).errors)

    # --- connections ---------------------------------------------------------------------

    async def connect_request(
        self, vi: Vi, node: int, discriminator: str, timeout_us: float | None = None
    ) -> Attributes:
        """Connect ``vi`` with one that waits on ``node`` under ``discriminator``; what that has.

        Errors: ``VIP_INVALID_STATE``, ``VIP_NOT_REACHABLE``, ``VIP_NO_MATCH``, ``VIP_TIMEOUT``,
        ``VIP_REJECT``.
        """
        self._enter()
        known = self._owner.record_of(vi, Vi)
        there, name = whole(node, "a node", LEAST), a_name(discriminator)
        return await self._agent.connect_request(known, there, name, self._latest(timeout_us))

    async def connect_wait(self, discriminator: str, timeout_us: float | None = None) -> Request:
        """The next request for that discriminator.  Errors: ``VIP_TIMEOUT``."""
        self._enter()
        name = a_name(discriminator)
        asking = await self._agent.connect_wait(name, self._latest(timeout_us))
        return self._owner.give(Request(asking), asking)

    async def connect_accept(self, request: Request, vi: Vi) -> None:
        """Connect ``vi`` with the VI that asks.

        Errors: ``VIP_INVALID_STATE``, ``..._RELIABILITY_LEVEL``, ``..._MTU``, ``..._QOS``;
        ``VIP_TIMEOUT`` if the side that asked has given up.
        """
        self._enter()
        known = self._owner.record_of(vi, Vi)
        asking = self._owner.record_of(request, Request)
        await self._agent.connect_accept(asking, known)
        self._owner.take_back(request, "accepted")

    async def connect_reject(self, request: Request) -> None:
        """The other side gets ``VIP_REJECT``."""
        self._enter()
        asking = self._owner.record_of(request, Request)
        await self._agent.connect_reject(asking)
        self._owner.take_back(request, "rejected")

    async def disconnect(self, vi: Vi) -> None:
        """Back to idle, from any state; what is posted is flushed."""
        self._enter()
        known = self._owner.record_of(vi, Vi)
        await self._agent.disconnect(known)
