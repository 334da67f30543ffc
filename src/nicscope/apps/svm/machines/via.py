"""Shared memory over VIA: pages and diffs by RDMA, letters by RDMA with immediate data.

A node has a VI for each other node.  VIA has no names for memory: where an exported buffer lies,
and its memory handle, are sent to all peers, and ``find`` waits for that.
"""

from __future__ import annotations

import struct
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from nicscope.apps.svm.machines.messages import Heard, RemoteMemory, UnreachableError
from nicscope.errors import SimulationError
from nicscope.interfaces.via import Descriptors, Host, Nic, Reliability, Status, VipError
from nicscope.interfaces.via.descriptor import AddressSegment, Region

if TYPE_CHECKING:
    from nicscope.interfaces.ports.memory import Buffer
    from nicscope.interfaces.via.vi import CompletionQueue, Vi

LEVEL = Reliability.VIP_SERVICE_RELIABLE_DELIVERY
OUTSTANDING = 48  # descriptors in a VI's send queue, which has 64 places
RECEIVES = 60  # descriptors in its receive queue: more than a peer writes before it is answered
SLOT = 64  # bytes, of what a peer says of one of its buffers
PLACE = struct.Struct("<QI")  # address and memory handle, before the buffer's name
REMOTE_WRITE = Status.VIP_STATUS_OP_REMOTE_RDMA_WRITE
MOST_EXPORTED = 32  # buffers of a node, each of which takes a receive of every peer


class Far(NamedTuple):
    """A buffer that another node exports."""

    node: int
    address: int
    handle: int

    def at(self, offset: int) -> AddressSegment:
        """The address segment of an RDMA that begins at ``offset`` of it."""
        return AddressSegment(self.address + offset, self.handle)


class Peer:
    """A node's VI for one other node."""

    def __init__(self, vi: Vi, sends: Descriptors, receives: Descriptors) -> None:
        self.vi = vi
        self.sends = sends
        self.receives = receives
        self.begun: deque[int] = deque()  # numbers of what is in the send queue
        self.announced = 0  # of these, those whose ends the completion queue has told
        self.slots: deque[int] = deque()  # offsets in the inbox, in the order of its receives


class ViaMemory(RemoteMemory):
    """Remote memory by VIA's RDMA writes and reads."""

    endpoint: Nic
    _sent: CompletionQueue
    _received: CompletionQueue

    def __init__(self, host: Host) -> None:
        super().__init__(None)  # until ``open``
        self._host = host
        self._peers: dict[int, Peer] = {}
        self._nodes: dict[int, int] = {}  # by number of a VI
        self._regions: dict[int, Region] = {}  # by address
        self._known: dict[tuple[int, str], Far] = {}
        self._came: deque[Heard] = deque()
        self._ends: deque[tuple[int, str]] = deque()
        self._operations = 0
        self._exported = 0

    async def open(self, nodes: int) -> None:
        """Open the NIC, and connect a VI with one of each other node.

        Of two nodes the lower requests, in an order that cannot deadlock.
        """
        nic = self.endpoint = await self._host.open_nic()
        self._tag = await nic.create_ptag()
        others = [node for node in range(nodes) if node != nic.node]
        room = max(1, len(others))  # of one node too, whose queues stay empty
        self._sent = await nic.create_cq(self._tag, room * OUTSTANDING)
        self._received = await nic.create_cq(self._tag, room * RECEIVES)
        inbox = nic.allocate(room * RECEIVES * SLOT)
        self._inbox = await nic.register_mem(inbox, self._tag)
        self._outbox = await nic.register_mem(nic.allocate(SLOT), self._tag)
        for place, node in enumerate(others):
            vi = await nic.create_vi(
                self._tag, LEVEL, enable_rdma_write=True, enable_rdma_read=True,
                send_cq=self._sent, recv_cq=self._received,
            )  # fmt: skip
            sends = await nic.descriptors(self._tag)
            receives = await nic.descriptors(self._tag, RECEIVES, 1)
            first = place * RECEIVES * SLOT
            slots = range(first, first + RECEIVES * SLOT, SLOT)
            self._peers[node] = peer = Peer(vi, sends, receives)
            self._nodes[vi.number] = node
            for slot in slots:
                await self._expect(peer, slot)
            if nic.node < node:
                await nic.connect_request(vi, node, f"{nic.node} to {node}")
            else:
                await nic.connect_accept(await nic.connect_wait(f"{node} to {nic.node}"), vi)

    async def _expect(self, peer: Peer, slot: int) -> None:
        await self.endpoint.post_recv(
            peer.vi, peer.receives.request(self._inbox.segment(slot, SLOT))
        )
        peer.slots.append(slot)

    async def export(self, buffer: Buffer, name: str) -> None:
        """Register it for RDMA, and tell all peers where it is."""
        region = await self._registered(buffer)
        self._exported += 1
        if self._exported > MOST_EXPORTED:
            raise SimulationError(
                f"node {self.endpoint.node} has more than {MOST_EXPORTED - 1} copies of shared "
                "memory, of which VIA's peers cannot be told; take fewer processes of a node"
            )
        said = PLACE.pack(region.address, region.handle) + name.encode()
        await self.endpoint.write(self._outbox.address, said)
        for node, peer in self._peers.items():
            number = self._number(peer)
            segment = self._outbox.segment(0, len(said))
            await self.endpoint.post_send(peer.vi, peer.sends.request(segment))
            status = await self.ended(number)
            if status != "done":
                raise UnreachableError(
                    f"node {self.endpoint.node} does not get through to node {node}: {status}"
                )

    async def find(self, node: int, name: str) -> Far:
        """Wait until ``node`` has said where it is."""
        while (node, name) not in self._known:
            await self._receive()
        return self._known[node, name]

    async def _registered(self, buffer: Buffer) -> Region:
        """The registration of a buffer, which is made when it is first used."""
        if buffer.address not in self._regions:
            self._regions[buffer.address] = await self.endpoint.register_mem(
                buffer, self._tag, enable_rdma_write=True, enable_rdma_read=True
            )
        return self._regions[buffer.address]

    async def write(
        self, to: Far, buffer: Buffer, at: int, offset: int, length: int, *, heard: bool = False
    ) -> int:
        """Post an RDMA write; one that is to be heard of has its offset as immediate data."""
        region, peer = await self._registered(buffer), await self._room(to.node)
        number, immediate = self._number(peer), offset if heard else None
        segments = [region.segment(at, length)]
        await self.endpoint.rdma_write(peer.vi, peer.sends, segments, to.at(offset), immediate)
        await self.endpoint.compute(0)  # it begins, though this task may wait at a gate next
        return number

    async def read(self, of: Far, buffer: Buffer, at: int, length: int) -> int:
        """Post an RDMA read."""
        region, peer = await self._registered(buffer), await self._room(of.node)
        number = self._number(peer)
        await self.endpoint.rdma_read(peer.vi, peer.sends, [region.segment(at, length)], of.at(at))
        await self.endpoint.compute(0)  # as above
        return number

    async def _room(self, node: int) -> Peer:
        """The peer, when its send queue has a free place."""
        peer = self._peers[node]
        while len(peer.begun) >= OUTSTANDING:
            await self.hear_next_end()
        return peer

    def _number(self, peer: Peer) -> int:
        """The number of what is posted next: before it is, as tasks may post at the same time."""
        self._operations += 1
        peer.begun.append(self._operations)
        return self._operations

    async def _end(self) -> tuple[int, str]:
        """The next operation of a VI that has ended, in the order of its send queue.

        A write may end before the read ahead of it, and is taken off the queue behind that.
        """
        while not self._ends:
            vi, _ = await self.endpoint.cq_wait(self._sent)
            peer = self._peers[self._nodes[vi.number]]
            peer.announced += 1
            while peer.announced:
                try:
                    if await self.endpoint.send_done(vi) is None:
                        break
                    status = "done"
                except VipError as error:
                    status = str(error)
                peer.announced -= 1
                self._ends.append((peer.begun.popleft(), status))
        return self._ends.popleft()

    async def heard(self) -> Heard:
        """The next RDMA write with immediate data."""
        while not self._came:
            await self._receive()
        return self._came.popleft()

    async def _receive(self) -> None:
        """Take the next receive that is done, and post its slot again."""
        nic = self.endpoint
        vi, _ = await nic.cq_wait(self._received)
        node = self._nodes[vi.number]
        peer = self._peers[node]
        try:
            done = await nic.recv_done(vi)
        except VipError as error:
            raise UnreachableError(
                f"node {nic.node} does not get through to node {node}: {error}"
            ) from None
        assert done is not None
        slot = peer.slots.popleft()
        if done.status & REMOTE_WRITE == REMOTE_WRITE:
            self._came.append(Heard(node, done.immediate, done.length))
        else:
            raw = await nic.read(self._inbox.address + slot, done.length)
            address, handle = PLACE.unpack_from(raw)
            self._known[node, raw[PLACE.size :].decode()] = Far(node, address, handle)
        await self._expect(peer, slot)
