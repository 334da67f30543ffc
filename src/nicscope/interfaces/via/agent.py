"""VI-KA, the kernel agent of one node: VIs, memory, connections.

Everything here is a system call.  Source: EDT, 6; VIA Specification 1.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.drivers.coherent.registration import POSTPONED
from nicscope.interfaces.arguments import shown
from nicscope.interfaces.buffers import stretch_of
from nicscope.interfaces.via.addresses import Region
from nicscope.interfaces.via.connections import Connections
from nicscope.interfaces.via.endpoint import Endpoint, Ring
from nicscope.interfaces.via.names import Reliability, Return, State, VipError
from nicscope.interfaces.via.numbers import whole
from nicscope.interfaces.via.tables import rights_of
from nicscope.interfaces.via.turns import Bell, hear
from nicscope.nic.coherent.mechanism import Mechanism
from nicscope.nic.vimsg.layout import PAGE

if TYPE_CHECKING:
    from nicscope.interfaces.ownership import Owner
    from nicscope.interfaces.via.addresses import Buffer
    from nicscope.interfaces.via.messaging import Messaging
    from nicscope.interfaces.via.vi import Attributes


def _pages(address: int, length: int) -> int:
    return (address % PAGE + length + PAGE - 1) // PAGE


class Agent(Connections):
    """The kernel agent beside one NIC."""

    def __init__(self, ni: Messaging) -> None:
        super().__init__(ni)
        self._tags: dict[int, Owner] = {}
        self._made = 0  # VIs and completion queues, for numbers
        self.vis: list[Endpoint] = []
        self._unpinned = Bell(ni.turns)
        self.outcomes: list[int] = []  # of registrations for EDT

    # --- protection and memory -----------------------------------------------------------

    def create_tag(self, owner: Owner) -> int:
        """A protection tag of that process."""
        self._made += 1
        self._tags[self._made] = owner
        return self._made

    def destroy_tag(self, owner: Owner, tag: object) -> None:
        """Forget the tag.  Errors: ``VIP_INVALID_PARAMETER``, ``VIP_ERROR_RESOURCE`` if in use."""
        known = self.known_tag(owner, tag, Return.VIP_INVALID_PARAMETER)
        if self.ni.firmware.is_tagged(known) or any(vi.attributes.tag == known for vi in self.vis):
            raise VipError(Return.VIP_ERROR_RESOURCE, f"protection tag {known} is in use")
        del self._tags[known]

    def known_tag(self, owner: Owner, tag: object, code: Return) -> int:
        """The tag, if it is that process's; else raise ``code``."""
        try:
            number = whole(tag, "a protection tag", 1)
        except VipError as error:
            raise VipError(code, str(error).partition(": ")[2]) from None
        holder = self._tags.get(number)
        if holder is None:
            raise VipError(code, f"no protection tag {number}; create_ptag makes one")
        if holder is not owner:
            raise VipError(
                code,
                f"protection tag {number} is {holder.name}'s, not {owner.name}'s; create_ptag "
                "makes one",
            )
        return number

    async def register(
        self, owner: Owner, buffer: Buffer, tag: object, *, rdma_write: bool, rdma_read: bool
    ) -> Region:
        """Pin the buffer, tell the NIC its translations, and give it a buffer there (EDT)."""
        known = self.known_tag(owner, tag, Return.VIP_INVALID_PTAG)
        space = self.ni.space
        address, length = stretch_of(owner, space, buffer)
        if length < 1:
            raise VipError(
                Return.VIP_INVALID_PARAMETER, "0 bytes are not registered; give it a buffer of 1"
            )
        await self.call()
        pages = _pages(address, length)
        cost = self.ni.settings.costs["ka_register_page"]
        self.ni.observer.pins += pages
        await self.ni.turns.until(self.ni.turns.now + pages * cost, "register")
        if self.ni.port.mechanism is Mechanism.EDT:
            for at, size in space.runs(address, length):
                await self._keep(at, size)
        rights = rights_of(rdma_write=rdma_write, rdma_read=rdma_read)
        frames = space.frames(address, length)
        handle = self.ni.firmware.add_region(address, frames, length, known, rights)
        return Region(handle, space.node, address, length, known, rdma_write, rdma_read)

    async def _keep(self, at: int, size: int) -> None:
        """Give the stretch its buffer on the NIC; wait for room if registrations may wait."""
        while True:
            found, end = self.ni.port.register(at, size, self.ni.turns.now)
            await self.ni.turns.until(end, "register")
            if found != POSTPONED:
                self.outcomes.append(found)
                return
            await hear(self._unpinned)

    async def deregister(self, handle: int) -> None:
        """Take the registration back.  Errors: ``VIP_INVALID_PARAMETER``."""
        gone = self.ni.firmware.drop_region(handle)
        if gone is None:
            raise VipError(Return.VIP_INVALID_PARAMETER, f"no registered memory {handle}")
        address, length = gone
        self.ni.observer.unpins += _pages(address, length)
        await self.call()
        if self.ni.port.mechanism is Mechanism.EDT:
            for at, size in self.ni.space.runs(*gone):
                _, end = self.ni.port.deregister(at, size, self.ni.turns.now)
                await self.ni.turns.until(end, "deregister")
        self._unpinned.ring()

    # --- virtual interfaces --------------------------------------------------------------

    def create_vi(
        self,
        owner: Owner,
        attributes: Attributes,
        send_queue: Ring | None,
        receive_queue: Ring | None,
    ) -> Endpoint:
        """A VI, idle.  Errors: the ``VIP_INVALID_...`` of the attribute that is wrong."""
        self.known_tag(owner, attributes.tag, Return.VIP_INVALID_PTAG)
        level = attributes.reliability
        if isinstance(level, bool) or level not in list(Reliability):
            raise VipError(Return.VIP_INVALID_RELIABILITY_LEVEL, f"no level {shown(level)}")
        most, longest = self.ni.settings.max_transfer, attributes.max_transfer
        if type(longest) is not int or not 1 <= longest <= most:
            raise VipError(
                Return.VIP_INVALID_MTU,
                f"max_transfer must be from 1 to {most}, got {shown(longest)}",
            )
        if attributes.rdma_read and attributes.reliability == Reliability.VIP_SERVICE_UNRELIABLE:
            raise VipError(Return.VIP_INVALID_RDMAREAD, "an unreliable VI has no RDMA read")
        self._made += 1
        node = self.ni.port.number
        queues = (send_queue, receive_queue)
        vi = Endpoint(owner, node, self._made, attributes, queues, self.ni.turns, self.ni.firmware)
        self.vis.append(vi)
        self.ni.idle.extend(vi.bells)
        for queue in (send_queue, receive_queue):
            if queue is not None:
                queue.users += 1
        return vi

    def destroy_vi(self, vi: Endpoint) -> None:
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
        vi.close()
        for bell in vi.bells:
            self.ni.idle.remove(bell)
        for queue in vi.completion_queues:
            if queue is not None:
                queue.users -= 1

    def create_completion_queue(self, memory: Buffer, handle: int, entries: int) -> Ring:
        """A completion queue in that memory, which is registered."""
        self._made += 1
        queue = Ring(self._made, memory, handle, entries, self.ni.turns)
        self.ni.idle.append(queue.bell)
        return queue

    def destroy_completion_queue(self, queue: Ring) -> None:
        """Nobody waits for it any more."""
        self.ni.idle.remove(queue.bell)
