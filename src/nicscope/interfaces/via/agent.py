"""VI-KA, the kernel agent of one node: VIs, memory, connections.

Everything here is a system call.  Source: EDT, 6; VIA Specification 1.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.drivers.coherent.registration import POSTPONED
from nicscope.interfaces.via.addresses import Buffer, Region
from nicscope.interfaces.via.connections import Connections
from nicscope.interfaces.via.names import Reliability, Return, State, VipError
from nicscope.interfaces.via.tables import rights_of
from nicscope.interfaces.via.turns import Bell, hear
from nicscope.interfaces.via.vi import Attributes, CompletionQueue, Vi
from nicscope.nic.coherent.mechanism import Mechanism
from nicscope.nic.vimsg.layout import PAGE

if TYPE_CHECKING:
    from nicscope.interfaces.via.messaging import Messaging


class Agent(Connections):
    """The kernel agent beside one NIC."""

    def __init__(self, ni: Messaging) -> None:
        super().__init__(ni)
        self._tags: set[int] = set()
        self._made = 0  # VIs and completion queues, for numbers
        self.vis: list[Vi] = []
        self._unpinned = Bell(ni.turns)
        self.outcomes: list[int] = []  # of registrations for EDT

    # --- protection and memory -----------------------------------------------------------

    def create_tag(self) -> int:
        """A protection tag."""
        self._made += 1
        self._tags.add(self._made)
        return self._made

    def destroy_tag(self, tag: int) -> None:
        """Forget the tag.  Errors: ``VIP_INVALID_PARAMETER``, ``VIP_ERROR_RESOURCE`` if in use."""
        self.known_tag(tag, Return.VIP_INVALID_PARAMETER)
        if self.ni.firmware.is_tagged(tag) or any(vi.attributes.tag == tag for vi in self.vis):
            raise VipError(Return.VIP_ERROR_RESOURCE, f"protection tag {tag} is in use")
        self._tags.remove(tag)

    def known_tag(self, tag: int, code: Return) -> None:
        """Return if the tag exists; else raise ``code``."""
        if tag not in self._tags:
            raise VipError(code, f"no protection tag {tag}; create_ptag makes one")

    async def register(
        self, buffer: Buffer, tag: int, *, rdma_write: bool, rdma_read: bool
    ) -> Region:
        """Pin the buffer, tell the NIC its translations, and give it a buffer there (EDT)."""
        self.known_tag(tag, Return.VIP_INVALID_PTAG)
        space = self.ni.space
        if buffer.length < 1 or not space.holds(buffer.address, buffer.length):
            raise VipError(
                Return.VIP_INVALID_PARAMETER,
                f"{buffer.length} bytes at {buffer.address:#x} are not the process's memory",
            )
        await self.call()
        pages = (buffer.address % PAGE + buffer.length + PAGE - 1) // PAGE
        cost = self.ni.settings.costs["ka_register_page"]
        await self.ni.turns.until(self.ni.turns.now + pages * cost)
        if self.ni.port.mechanism is Mechanism.EDT:
            for at, size in space.runs(buffer.address, buffer.length):
                await self._keep(at, size)
        address, length = buffer.address, buffer.length
        rights = rights_of(rdma_write=rdma_write, rdma_read=rdma_read)
        frames = space.frames(address, length)
        handle = self.ni.firmware.add_region(address, frames, length, tag, rights)
        return Region(handle, buffer.node, address, length, tag, rdma_write, rdma_read)

    async def _keep(self, at: int, size: int) -> None:
        """Give the stretch its buffer on the NIC; wait for room if registrations may wait."""
        while True:
            found, end = self.ni.port.register(at, size, self.ni.turns.now)
            await self.ni.turns.until(end)
            if found != POSTPONED:
                self.outcomes.append(found)
                return
            await hear(self._unpinned)

    async def deregister(self, handle: int) -> None:
        """Take the registration back.  Errors: ``VIP_INVALID_PARAMETER``."""
        gone = self.ni.firmware.drop_region(handle)
        if gone is None:
            raise VipError(Return.VIP_INVALID_PARAMETER, f"no registered memory {handle}")
        await self.call()
        if self.ni.port.mechanism is Mechanism.EDT:
            for at, size in self.ni.space.runs(*gone):
                _, end = self.ni.port.deregister(at, size, self.ni.turns.now)
                await self.ni.turns.until(end)
        self._unpinned.ring()

    # --- virtual interfaces --------------------------------------------------------------

    def create_vi(
        self,
        attributes: Attributes,
        send_queue: CompletionQueue | None,
        receive_queue: CompletionQueue | None,
    ) -> Vi:
        """A VI, idle.  Errors: the ``VIP_INVALID_...`` of the attribute that is wrong."""
        self.known_tag(attributes.tag, Return.VIP_INVALID_PTAG)
        if attributes.reliability not in list(Reliability):
            raise VipError(
                Return.VIP_INVALID_RELIABILITY_LEVEL, f"no level {attributes.reliability!r}"
            )
        most = self.ni.settings.max_transfer
        if not 1 <= attributes.max_transfer <= most:
            raise VipError(
                Return.VIP_INVALID_MTU,
                f"max_transfer must be from 1 to {most}, got {attributes.max_transfer!r}",
            )
        if attributes.rdma_read and attributes.reliability == Reliability.VIP_SERVICE_UNRELIABLE:
            raise VipError(Return.VIP_INVALID_RDMAREAD, "an unreliable VI has no RDMA read")
        self._made += 1
        node = self.ni.port.number
        queues = (send_queue, receive_queue)
        vi = Vi(node, self._made, attributes, queues, self.ni.turns, self.ni.firmware)
        self.vis.append(vi)
        self.ni.idle.extend(vi.bells)
        for queue in (send_queue, receive_queue):
            if queue is not None:
                queue.users += 1
        return vi

    def destroy_vi(self, vi: Vi) -> None:
        """Errors: ``VIP_INVALID_STATE`` unless idle, ``VIP_ERROR_RESOURCE`` with descriptors."""
        if vi.state is not State.VIP_STATE_IDLE:
            raise VipError(
                Return.VIP_INVALID_STATE, f"VI {vi.number} is in {vi.state.name}; disconnect it"
            )
        if any(vi.posted):
            raise VipError(
                Return.VIP_ERROR_RESOURCE, f"VI {vi.number} has descriptors posted or not taken"
            )
        self.vis.remove(vi)
        self.ni.firmware.close_vi(vi.place)
        for bell in vi.bells:
            self.ni.idle.remove(bell)
        for queue in vi.completion_queues:
            if queue is not None:
                queue.users -= 1

    def create_completion_queue(self, region: Region, entries: int) -> CompletionQueue:
        """A completion queue in that memory."""
        self._made += 1
        queue = CompletionQueue(self._made, region, entries, self.ni.turns)
        self.ni.idle.append(queue.bell)
        return queue
