"""VIPL, the library that programs call on an open NIC: memory, VIs, peers, posts, attributes."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import msgspec

from nicscope.drivers.simulate.ports.connections import connect_ports
from nicscope.errors import SimulationError
from nicscope.interfaces.arguments import LEAST
from nicscope.interfaces.via.descriptor import (
    ALIGNMENT,
    Descriptors,
    Error,
    Region,
    Reliability,
    Return,
    State,
    SystemInfo,
    VipError,
    VipTimeoutError,
    a_name,
    place_bytes,
    whole,
)
from nicscope.interfaces.via.vi import (
    Attributes,
    CompletionQueue,
    ConnectionRequest,
    Endpoint,
    PeerRequest,
    Request,
    Vi,
    check_attributes,
    check_match,
    peer_timeout,
)
from nicscope.interfaces.via.work import WorkCalls

if TYPE_CHECKING:
    from nicscope.interfaces.buffers import MemoryRange
    from nicscope.interfaces.ports.memory import Buffer
    from nicscope.interfaces.via.vi import Endpoint, Ring
    from nicscope.nic.coherent import Mechanism


CQ_ENTRY = 8  # bytes: VI and work queue
MOST_AT_ONCE = 1 << 20  # descriptors, or entries of a queue


class NicAttributes(msgspec.Struct, frozen=True):
    """The result of ``query_nic``."""

    mechanism: Mechanism | None  # None: the NIC is on an I/O bus
    mtu: int
    max_transfer: int
    max_segments: int
    descriptor_alignment: int
    reliability: tuple[Reliability, ...]
    rdma: bool


class ViFound(msgspec.Struct, frozen=True):
    """The result of ``query_vi``."""

    state: State
    attributes: Attributes
    send_queue_empty: bool  # nothing is posted, or not taken back
    recv_queue_empty: bool


class MemAttributes(msgspec.Struct, frozen=True):
    """Attributes of registered memory (``VIP_MEM_ATTRIBUTES``)."""

    tag: int
    rdma_write: bool
    rdma_read: bool


class Discovered(msgspec.Struct, frozen=True):
    """A reachable node, and how many switches are on the route."""

    node: int
    hops: int


class Nic(WorkCalls):
    """An open NIC, as one program on its node has it: calls that the kernel agent serves."""

    # --- NIC, protection tags, memory ----------------------------------------------------

    def query_nic(self) -> NicAttributes:
        """The NIC's attributes."""
        self._enter()
        cluster = self._cluster
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
        """Create a protection tag: VIs may access memory of the same tag."""
        self._enter()
        await self._agent.call()
        return self._kernel.tags.make(self._owner, self._kernel.number())

    async def destroy_ptag(self, tag: int) -> None:
        """Errors: ``VIP_INVALID_PARAMETER``; ``VIP_ERROR_RESOURCE`` while in use."""
        self._enter()
        self._kernel.tags.known(self._owner, tag, Return.VIP_INVALID_PARAMETER)
        await self._agent.call()
        self._kernel.tags.forget(self._owner, tag, self._agent.is_in_use)

    async def register_mem(
        self,
        buffer: MemoryRange,
        tag: int,
        *,
        enable_rdma_write: bool = False,
        enable_rdma_read: bool = False,
    ) -> Region:
        """Pin ``buffer`` and register it with the NIC.

        Errors: ``VIP_INVALID_PTAG``, ``VIP_INVALID_PARAMETER``.
        """
        self._enter()
        region = await self._agent.register(
            self._owner, buffer, tag, rdma_write=enable_rdma_write, rdma_read=enable_rdma_read
        )
        return self._owner.give(region, region.handle)

    async def deregister_mem(self, region: Region) -> None:
        """Deregister memory.  Errors: ``VIP_INVALID_PARAMETER``."""
        handle = self._entered_with(region, Region)
        self._owner.take_back(region, "deregistered")
        await self._agent.deregister(handle)

    async def descriptors(self, tag: int, count: int = 64, segments: int = 2) -> Descriptors:
        """Allocate registered slots for ``count`` descriptors of up to ``segments`` segments."""
        self._enter()
        many = whole(count, "a number of descriptors", 1, MOST_AT_ONCE)
        each = whole(segments, "a number of segments")
        most = self._cluster.size.segments
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
        memory, handle = self._entered_with(places, Descriptors)
        for vi in self._agent.vis:
            if any(work.among is places for queue in vi.posted for work in queue):
                raise VipError(
                    Return.VIP_ERROR_RESOURCE, f"VI {vi.number} has one posted, or not yet taken"
                )
        self._owner.take_back(places, "destroyed")
        await self._agent.deregister(handle)
        self._space.free_buffer(self._owner, memory)

    async def _registered(self, byte_count: int, tag: int) -> tuple[Buffer, Region]:
        """Memory of the library's own, and its registration."""
        self._kernel.tags.known(self._owner, tag, Return.VIP_INVALID_PTAG)
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
        """Create an idle VI.  Errors: the ``VIP_INVALID_...`` of what is wrong."""
        self._enter()
        known = self._kernel.tags.known(self._owner, tag, Return.VIP_INVALID_PTAG)
        send, receive = (
            None if queue is None else self._owner.record_of(queue, CompletionQueue)
            for queue in (send_cq, recv_cq)
        )
        longest = self._cluster.settings.max_transfer
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
        known = self._entered_with(vi, Vi)
        await self._agent.call()
        self._agent.destroy_vi(known)
        self._owner.take_back(vi, "destroyed")

    async def create_cq(self, tag: int, entries: int = 64) -> CompletionQueue:
        """Create a completion queue for ``entries`` completions not yet taken."""
        self._enter()
        many = whole(entries, "a queue's number of entries", 1, MOST_AT_ONCE)
        memory, region = await self._registered(many * CQ_ENTRY, tag)
        made = self._agent.create_completion_queue(memory, region.handle, many)
        return self._owner.give(made.handle, made)

    async def destroy_cq(self, queue: CompletionQueue) -> None:
        """Errors: ``VIP_ERROR_RESOURCE`` while a VI has it."""
        ring = self._entered_with(queue, CompletionQueue)
        if ring.users:
            raise VipError(Return.VIP_ERROR_RESOURCE, "VIs still have this completion queue")
        self._owner.take_back(queue, "destroyed")
        self._agent.destroy_completion_queue(ring)
        await self._agent.deregister(ring.region)
        self._space.free_buffer(self._owner, ring.memory)

    def errors(self, vi: Vi) -> list[Error]:
        """The asynchronous errors of the VI, in order."""
        return list(self._entered_with(vi, Vi).errors)

    # --- connections ---------------------------------------------------------------------

    async def connect_request(
        self, vi: Vi, node: int, discriminator: str, timeout_us: float | None = None
    ) -> Attributes:
        """Connect ``vi`` with one that waits on ``node`` under ``discriminator``; what that has.

        Errors: ``VIP_INVALID_STATE``, ``VIP_NOT_REACHABLE``, ``VIP_NO_MATCH``, ``VIP_TIMEOUT``,
        ``VIP_REJECT``.
        """
        known: Endpoint = self._entered_with(vi, Vi)
        there, name = whole(node, "a node", LEAST), a_name(discriminator, "a discriminator")
        latest = self._latest(timeout_us)
        self._agent.check_state(known, State.VIP_STATE_IDLE)
        self._check_reachable(there)
        other = self._cluster.kernels[there].asked
        await self._agent.call()
        request = ConnectionRequest(known)
        known.enter(State.VIP_STATE_CONNECT_PENDING)
        waiting = other.waiting.setdefault(name, deque())
        waiting.append(request)
        other.arrived.ring()
        while request.answer is None and (latest is None or self._sim_process.now < latest):
            await self._process.hear(request.answered, latest)
        if request.answer is Return.VIP_SUCCESS:
            assert known.joined is not None
            return known.joined.attributes
        known.enter(State.VIP_STATE_IDLE)
        if request.answer is None:
            if not request.taken:
                waiting.remove(request)
                if not waiting:
                    del other.waiting[name]
                silence = self._sim_process.standings.why_silent(there)
                raise VipError(
                    Return.VIP_NO_MATCH,
                    f"nobody on node {there} waits for {name!r}{silence}",
                )
            request.answer = Return.VIP_TIMEOUT
            raise VipTimeoutError(Return.VIP_TIMEOUT, f"node {there} did not answer in time")
        raise VipError(request.answer, f"node {there} does not want the connection")

    async def connect_wait(self, discriminator: str, timeout_us: float | None = None) -> Request:
        """Wait for the next request for that discriminator.  Errors: ``VIP_TIMEOUT``."""
        self._enter()
        name = a_name(discriminator, "a discriminator")
        latest = self._latest(timeout_us)
        await self._agent.call()
        asked = self._cluster.kernels[self.node].asked
        while name not in asked.waiting:
            if latest is not None and self._sim_process.now >= latest:
                raise VipTimeoutError(Return.VIP_TIMEOUT, f"nobody asked for {name!r} in time")
            await self._process.hear(asked.arrived, latest)
        waiting = asked.waiting[name]
        request = waiting.popleft()
        if not waiting:
            del asked.waiting[name]
        request.taken = True
        return self._owner.give(Request(request), request)

    async def connect_accept(self, request: Request, vi: Vi) -> None:
        """Accept a request: connect ``vi`` with the requesting VI.

        Errors: ``VIP_INVALID_STATE``, ``..._RELIABILITY_LEVEL``, ``..._MTU``, ``..._QOS``;
        ``VIP_TIMEOUT`` if the side that asked has given up.
        """
        known = self._entered_with(vi, Vi)
        asking = self._owner.record_of(request, Request)
        self._agent.check_state(known, State.VIP_STATE_IDLE)
        self._check_waiting(asking)
        check_match(known.attributes, asking.vi.attributes)
        await self._agent.call()
        self._check_waiting(asking)
        self._join(known, asking.vi)
        asking.answer = Return.VIP_SUCCESS
        asking.answered.ring()
        self._owner.take_back(request, "accepted")

    async def connect_reject(self, request: Request) -> None:
        """Reject a request: the other side gets ``VIP_REJECT``."""
        asking = self._entered_with(request, Request)
        self._check_waiting(asking)
        await self._agent.call()
        asking.answer = Return.VIP_REJECT
        asking.answered.ring()
        self._owner.take_back(request, "rejected")

    async def disconnect(self, vi: Vi) -> None:
        """Return to idle from any state; posted descriptors are flushed."""
        known = self._entered_with(vi, Vi)
        await self._agent.call()
        self._cancel_peer_request(known)
        self._agent.disconnect_port(self.node, known.place)
        self._sim_process.wake()

    # --- queries and changes -------------------------------------------------------------

    async def close_nic(self) -> None:
        """Close the NIC.

        Errors: ``VIP_INVALID_PARAMETER`` if it is closed already; ``VIP_ERROR_RESOURCE`` as long as
        the process has VIs, queues, memory or tags there, and has not opened it another time.
        """
        self._enter()
        self._agent.close_nic(self._owner)
        self._is_closed = True
        await self._agent.call()

    async def query_vi(self, vi: Vi) -> ViFound:
        """State and attributes of a VI, and whether its queues are empty."""
        known: Endpoint = self._entered_with(vi, Vi)
        await self._agent.call()
        send, receive = known.posted
        return ViFound(known.state, known.attributes, not send, not receive)

    async def set_vi_attributes(
        self,
        vi: Vi,
        *,
        tag: int | None = None,
        reliability: Reliability | None = None,
        max_transfer: int | None = None,
        enable_rdma_write: bool | None = None,
        enable_rdma_read: bool | None = None,
        qos: int | None = None,
    ) -> None:
        """Change attributes of an idle VI; what is None stays.

        Errors: ``VIP_INVALID_STATE`` unless it is idle, and as ``create_vi``.
        """
        known: Endpoint = self._entered_with(vi, Vi)
        if tag is not None:
            tag = self._kernel.tags.known(self._owner, tag, Return.VIP_INVALID_PTAG)
        asked = {
            "tag": tag,
            "reliability": reliability,
            "max_transfer": max_transfer,
            "rdma_write": enable_rdma_write,
            "rdma_read": enable_rdma_read,
            "qos": qos,
        }
        changes = {name: value for name, value in asked.items() if value is not None}
        changed = msgspec.structs.replace(known.attributes, **changes)
        check_attributes(changed, self._cluster.settings.max_transfer)
        await self._agent.call()
        self._agent.change_vi(known, changed)

    async def query_mem(self, region: Region) -> MemAttributes:
        """Attributes of registered memory."""
        self._entered_with(region, Region)
        await self._agent.call()
        return MemAttributes(region.tag, region.rdma_write, region.rdma_read)

    async def set_mem_attributes(
        self,
        region: Region,
        *,
        tag: int | None = None,
        enable_rdma_write: bool | None = None,
        enable_rdma_read: bool | None = None,
    ) -> None:
        """Change attributes of registered memory; what is None stays.

        Errors: ``VIP_INVALID_PTAG``.  What is posted with the memory is judged by the new ones.
        """
        self._entered_with(region, Region)
        known = region.tag
        if tag is not None:
            known = self._kernel.tags.known(self._owner, tag, Return.VIP_INVALID_PTAG)
        write = region.rdma_write if enable_rdma_write is None else bool(enable_rdma_write)
        read = region.rdma_read if enable_rdma_read is None else bool(enable_rdma_read)
        await self._agent.call()
        self._agent.change_region(region, known, rdma_write=write, rdma_read=read)

    async def resize_cq(self, queue: CompletionQueue, entries: int) -> None:
        """Resize a completion queue.

        Errors: ``VIP_INVALID_PARAMETER``; ``VIP_ERROR_RESOURCE`` for more than the NIC has room
        for, and for fewer than the queue holds.
        """
        ring: Ring = self._entered_with(queue, CompletionQueue)
        many = whole(entries, "a queue's number of entries", 1, MOST_AT_ONCE)
        tag = self._kernel.regions[ring.region].tag
        self._agent.check_entries(many)
        memory = self._space.allocate(self._owner, many * CQ_ENTRY)
        region = await self._agent.register(
            self._owner, memory, tag, rdma_write=False, rdma_read=False
        )
        old, before = ring.region, ring.memory
        if self._agent.resize_completion_queue(ring, many):
            ring.region, ring.memory = region.handle, memory
            await self._agent.deregister(old)
            self._space.free_buffer(self._owner, before)
            return
        await self._agent.deregister(region.handle)
        self._space.free_buffer(self._owner, memory)
        raise VipError(
            Return.VIP_ERROR_RESOURCE, f"the queue holds more than {many} completions; take some"
        )

    async def query_system_management_info(self, info: SystemInfo) -> tuple[Discovered, ...]:
        """Nodes to which packets of this one have a way (``VIP_SMI_AUTODISCOVERY``).

        Errors: ``VIP_ERROR_NOT_SUPPORTED`` for any other information.
        """
        self._enter()
        if whole(info, "a kind of information", LEAST) != SystemInfo.VIP_SMI_AUTODISCOVERY:
            raise VipError(Return.VIP_ERROR_NOT_SUPPORTED, f"nothing is known as {info}")
        await self._agent.call()
        topology = self._cluster.topology
        ways = sorted(pair for pair in topology.paths if pair[0] == self.node)
        return tuple(Discovered(there, topology.hops[here, there]) for here, there in ways)

    # --- the name service ----------------------------------------------------------------

    async def ns_init(self) -> None:
        """Open the name service."""
        self._enter()
        await self._agent.call()
        self._has_names = True

    async def ns_get_host_by_name(self, name: str, index: int = 0) -> int:
        """The node of that name; of several of a name the one with that index.

        Errors: ``VIP_ERROR_NAMESERVICE`` if there is none, or before ``ns_init``.
        """
        self._enter()
        wanted, which = a_name(name, "a host's name"), whole(index, "an index")
        await self._use_names()
        nodes = self._cluster.names.get(wanted, ())
        if which >= len(nodes):
            raise VipError(
                Return.VIP_ERROR_NAMESERVICE, f"{wanted!r} is the name of {len(nodes)} nodes"
            )
        return nodes[which]

    async def ns_get_host_by_addr(self, node: int) -> str:
        """The first name of that node.  Errors: ``VIP_ERROR_NAMESERVICE``, likewise."""
        self._enter()
        wanted = whole(node, "a node", LEAST)
        await self._use_names()
        for name, nodes in self._cluster.names.items():
            if wanted in nodes:
                return name
        raise VipError(Return.VIP_ERROR_NAMESERVICE, f"node {wanted} has no name")

    async def ns_shutdown(self) -> None:
        """Close the name service.  Errors: ``VIP_ERROR_NAMESERVICE`` before ``ns_init``."""
        self._enter()
        await self._use_names()
        self._has_names = False

    async def _use_names(self) -> None:
        if not self._has_names:
            raise VipError(Return.VIP_ERROR_NAMESERVICE, "ns_init() comes first")
        await self._agent.call()

    # --- connections between peers -------------------------------------------------------

    async def connect_peer_request(
        self,
        vi: Vi,
        discriminator: str,
        node: int,
        remote_discriminator: str,
        timeout_us: float | None = None,
    ) -> None:
        """Begin to connect ``vi`` with one of ``node``, and do not wait for it.

        It has to ask for this one with the same discriminators, exchanged.
        Errors: ``VIP_INVALID_STATE``, ``VIP_NOT_REACHABLE``.
        """
        known: Endpoint = self._entered_with(vi, Vi)
        there = whole(node, "a node", LEAST)
        name = a_name(discriminator, "a discriminator")
        remote = a_name(remote_discriminator, "a discriminator")
        peering = PeerRequest(known, (name, there, remote), self._latest(timeout_us))
        self._agent.check_state(known, State.VIP_STATE_IDLE)
        self._check_reachable(there)
        await self._agent.call()
        self._agent.check_state(known, State.VIP_STATE_IDLE)
        known.peering = peering
        known.enter(State.VIP_STATE_CONNECT_PENDING)
        kernels = self._cluster.kernels
        other = kernels[there].peers.take((remote, self.node, name), self._sim_process.now)
        if other is None:
            kernels[self.node].peers.add(peering)
            return
        try:
            check_match(known.attributes, other.vi.attributes)
            self._join(known, other.vi)
        except VipError as error:
            for side in (peering, other):
                side.failure = error
                side.vi.enter(State.VIP_STATE_IDLE)
        other.answered.ring()

    async def connect_peer_done(self, vi: Vi) -> Attributes | None:
        """What the other end has, once there is one; None as long as it has not asked.

        Errors: ``VIP_INVALID_STATE`` if nothing was asked for; ``VIP_TIMEOUT``; in which the two
        ends differ: ``VIP_INVALID_RELIABILITY_LEVEL``, ``..._MTU``, ``..._QOS``.
        """
        known = self._entered_with(vi, Vi)
        await self._agent.call()
        return self._outcome(known, self._asked_by(known))

    async def connect_peer_wait(self, vi: Vi) -> Attributes:
        """Wait until the peer request is answered.  Errors: as ``connect_peer_done``."""
        known = self._entered_with(vi, Vi)
        peering = self._asked_by(known)
        await self._agent.call()
        while (outcome := self._outcome(known, peering)) is None:
            await self._process.hear(peering.answered, peering.latest)
        return outcome

    def _asked_by(self, vi: Endpoint) -> PeerRequest:
        if vi.peering is None:
            raise VipError(
                Return.VIP_INVALID_STATE, f"VI {vi.number} has not asked (connect_peer_request)"
            )
        return vi.peering

    def _outcome(self, vi: Endpoint, peering: PeerRequest) -> Attributes | None:
        if peering.is_late(self._sim_process.now):
            self._cancel_peer_request(vi)
            raise peer_timeout(peering)
        if peering.failure is None and vi.state is State.VIP_STATE_CONNECT_PENDING:
            return None
        vi.peering = None
        if peering.failure is not None:
            raise peering.failure
        assert vi.joined is not None
        return vi.joined.attributes

    def _cancel_peer_request(self, vi: Endpoint) -> None:
        """Cancel a VI's peer request; a pending VI becomes idle."""
        peering, vi.peering = vi.peering, None
        if peering is not None:
            self._cluster.kernels[self.node].peers.remove(peering)
            if vi.state is State.VIP_STATE_CONNECT_PENDING:
                vi.enter(State.VIP_STATE_IDLE)

    def _join(self, vi: Endpoint, other: Endpoint) -> None:
        level, mtu = int(vi.attributes.reliability), self._cluster.settings.mtu
        ends = (vi.node, vi.place), (other.node, other.place)
        try:
            connect_ports(self._ports, *ends, level, mtu)
        except SimulationError as error:
            raise VipError(Return.VIP_ERROR_RESOURCE, str(error)) from None
        vi.joined, other.joined = other, vi

    def _check_reachable(self, node: int) -> None:
        """Check that packets have a route there; none leads back to the own NIC."""
        if not 0 <= node < len(self._cluster.kernels):
            raise VipError(Return.VIP_NOT_REACHABLE, f"no node {node}")
        try:
            self._cluster.check_path(self.node, node)
        except SimulationError as error:
            raise VipError(Return.VIP_NOT_REACHABLE, str(error)) from None

    def _check_waiting(self, request: ConnectionRequest) -> None:
        if request.answer is not None:
            raise VipError(Return.VIP_TIMEOUT, "the side that asked has given up")
