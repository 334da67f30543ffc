"""VI-KA, the kernel agent of one node: VIs, memory, connections.

Everything here is a system call.  Source: EDT, 6; VIA Specification 1.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.drivers.coherent.registration import POSTPONED
from nicscope.interfaces.buffers import stretch_of
from nicscope.interfaces.via.addresses import Region
from nicscope.interfaces.via.connections import Asked, Connections
from nicscope.interfaces.via.endpoint import Endpoint, Ring
from nicscope.interfaces.via.names import Error, Return, State, VipError
from nicscope.interfaces.via.tables import rights_of
from nicscope.interfaces.via.tags import Tags
from nicscope.interfaces.via.turns import Bell, hear
from nicscope.interfaces.via.vi import check_idle
from nicscope.nic.coherent.mechanism import Mechanism
from nicscope.nic.vimsg.layout import PAGE

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from nicscope.interfaces.ownership import Owner
    from nicscope.interfaces.via.addresses import Buffer
    from nicscope.interfaces.via.messaging import Messaging
    from nicscope.interfaces.via.vi import Attributes


def _pages(address: int, length: int) -> int:
    return (address % PAGE + length + PAGE - 1) // PAGE


class Agent(Connections[Bell]):
    """The kernel agent beside one NIC."""

    def __init__(self, ni: Messaging) -> None:
        self.ni = ni
        self.node = ni.port.number
        self.own_asked = Asked(Bell(ni.turns))
        self._tags = Tags()
        self._made = 0  # VIs and completion queues, for numbers
        self._vis: list[Endpoint] = []
        self._unpinned = Bell(ni.turns)
        self.outcomes: list[int] = []  # of registrations for EDT

    @property
    def now(self) -> int:
        """Ps of virtual time."""
        return self.ni.turns.now

    async def call(self) -> None:
        """Enter the kernel and come back."""
        end = self.ni.turns.now + self.ni.settings.costs["ka_call"]
        await self.ni.turns.until(end, "system call")

    # --- connections ---------------------------------------------------------------------

    def _bell(self) -> Bell:
        return Bell(self.ni.turns)

    def _hear(self, bell: Bell, latest: int | None) -> Awaitable[None]:
        return hear(bell, latest)

    def _enter(self, vi: Endpoint, state: State) -> None:
        vi._enter(state)

    def _join(self, vi: Endpoint, other: Endpoint) -> None:
        ends = vi, other
        mine, theirs = (self.ni.neighbours[end.node].firmware for end in ends)
        epoch = max(mine.epoch(vi.place), theirs.epoch(other.place)) + 1
        for one, its_peer, its, their in ((*ends, mine, theirs), (*ends[::-1], theirs, mine)):
            sent = their.sent(its_peer.place)
            its.connect(one.place, its_peer.node, its_peer.place, sent, epoch)
            one.peer, one.epoch = its_peer, epoch

    async def disconnect(self, vi: Endpoint) -> None:
        """Back to idle; what is posted is flushed, and the other side loses its connection."""
        await self.call()
        peer = vi.peer
        was = vi.state
        vi._enter(State.VIP_STATE_IDLE)
        vi.peer = None
        self.ni.flush(vi)
        if was is State.VIP_STATE_CONNECTED and peer is not None:
            self.ni.neighbours[peer.node].fail(peer, Error.VIP_ERROR_CONN_LOST)

    # --- protection and memory -----------------------------------------------------------

    def create_tag(self, owner: Owner) -> int:
        """A protection tag of that process."""
        self._made += 1
        return self._tags.make(owner, self._made)

    def destroy_tag(self, owner: Owner, tag: object) -> None:
        """Forget the tag.  Errors: ``VIP_INVALID_PARAMETER``, ``VIP_ERROR_RESOURCE`` if in use."""
        self._tags.forget(owner, tag, self._is_in_use)

    def _is_in_use(self, tag: int) -> bool:
        return self.ni.firmware.is_tagged(tag) or any(vi.attributes.tag == tag for vi in self.vis)

    def known_tag(self, owner: Owner, tag: object, code: Return) -> int:
        """The tag, if it is that process's; else raise ``code``."""
        return self._tags.known(owner, tag, code)

    @property
    def vis(self) -> Sequence[Endpoint]:
        """Those of the node."""
        return self._vis

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
        """A VI with such attributes, which are checked, idle."""
        self.known_tag(owner, attributes.tag, Return.VIP_INVALID_PTAG)
        self._made += 1
        node = self.ni.port.number
        queues = (send_queue, receive_queue)
        vi = Endpoint(owner, node, self._made, attributes, queues, self.ni.turns, self.ni.firmware)
        self._vis.append(vi)
        self.ni.idle.extend(vi.bells)
        for queue in (send_queue, receive_queue):
            if queue is not None:
                queue.users += 1
        return vi

    def destroy_vi(self, vi: Endpoint) -> None:
        """Errors: ``VIP_INVALID_STATE`` unless idle, ``VIP_ERROR_RESOURCE`` with descriptors."""
        check_idle(vi)
        self._vis.remove(vi)
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
