"""VIPL, the library that programs call: the specification's calls under their own names.

``VipPostSend`` is ``post_send``, and so on.  What C returns as an error code is raised as
``VipError``; ``VIP_NOT_DONE`` is None.  Times are microseconds of virtual time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from nicscope.interfaces.via.completions import Completions
from nicscope.interfaces.via.descriptor import ALIGNMENT
from nicscope.interfaces.via.names import Error, Reliability, Return, VipError
from nicscope.interfaces.via.places import Descriptors
from nicscope.interfaces.via.posting import Posting
from nicscope.interfaces.via.reporting import CQ_ENTRY
from nicscope.interfaces.via.vi import Attributes
from nicscope.nic.vimsg.layout import MOST_SEGMENTS

if TYPE_CHECKING:
    from nicscope.interfaces.via.addresses import Buffer, Region
    from nicscope.interfaces.via.connections import Request
    from nicscope.interfaces.via.vi import CompletionQueue, Vi
    from nicscope.nic.coherent.mechanism import Mechanism


class NicAttributes(msgspec.Struct, frozen=True):
    """What ``query_nic`` tells."""

    mechanism: Mechanism
    mtu: int
    max_transfer: int
    max_segments: int
    descriptor_alignment: int
    reliability: tuple[Reliability, ...]
    rdma: bool


class Nic(Posting, Completions):
    """An open NIC, as one program on its node has it."""

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
