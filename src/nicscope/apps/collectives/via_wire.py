"""Collectives over VIA: sends for notes, RDMA writes with immediate data for arrays."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from nicscope.apps.collectives import mailbox
from nicscope.interfaces.via import Descriptors, Host, Nic, Reliability, Status, VipError
from nicscope.interfaces.via.descriptor import AddressSegment, Region

if TYPE_CHECKING:
    from nicscope.interfaces.via.vi import CompletionQueue, Vi

LEVEL = Reliability.VIP_SERVICE_RELIABLE_DELIVERY
OUTSTANDING = 32  # descriptors of a VI
REMOTE_WRITE = Status.VIP_STATUS_OP_REMOTE_RDMA_WRITE


class Peer:
    """A process's VI and note slots for one peer."""

    def __init__(self, vi: Vi, sends: Descriptors, receives: Descriptors) -> None:
        self.vi = vi
        self.sends = sends
        self.receives = receives
        self.credits = mailbox.Credits()
        self.next = 0  # slot that the next message fills
        self.outstanding: deque[bool] = deque()  # in the send queue: whether each is of a note


class ViaWire(mailbox.Wire):
    """One process with a VI for each peer, all of whose receives end in one completion queue."""

    short = mailbox.SLOT - mailbox.HEAD
    is_one_sided = True
    endpoint: Nic
    _queue: CompletionQueue

    def __init__(self, host: Host, ranks: int, rank: int) -> None:
        super().__init__(None, rank, ranks)  # until ``open``
        self._host = host
        self._peers: dict[int, Peer] = {}
        self._ranks: dict[int, int] = {}  # by number of a VI
        self._regions: dict[int, Region] = {}  # by the address of an array
        self._inbox: Any = None
        self._outbox: Any = None

    async def open(self) -> None:
        """Open the NIC, and connect a VI with one of each peer."""
        nic = self.endpoint = await self._host.open_nic()
        self._tag = await nic.create_ptag()
        if self.ranks == 1:
            return
        self._most = nic.query_nic().max_transfer
        self._queue = await nic.create_cq(self._tag, self.ranks * mailbox.PLACES)
        count = self.ranks * mailbox.ROOM
        self._inbox, self._outbox = nic.allocate(count), nic.allocate(count)
        self._receives = await nic.register_mem(self._inbox, self._tag)
        self._sends = await nic.register_mem(self._outbox, self._tag)
        for rank in range(self.ranks):
            if rank != self.rank:
                await self._connect(rank)

    async def _connect(self, rank: int) -> None:
        """Connect with a peer: the lower rank requests, in an order that cannot deadlock."""
        nic, tag = self.endpoint, self._tag
        vi = await nic.create_vi(
            tag, LEVEL, enable_rdma_write=True, enable_rdma_read=True, recv_cq=self._queue
        )
        peer = Peer(vi, await nic.descriptors(tag), await nic.descriptors(tag, mailbox.PLACES, 1))
        self._peers[rank], self._ranks[vi.number] = peer, rank
        for place in range(mailbox.PLACES):
            await self._expect(rank, place)
        if self.rank < rank:
            await nic.connect_request(vi, rank, f"{self.rank} to {rank}")
        else:
            await nic.connect_accept(await nic.connect_wait(f"{rank} to {self.rank}"), vi)

    async def _expect(self, rank: int, place: int) -> None:
        """Post a receive into the slot of the peer's message after ``PLACES - 1`` others."""
        peer = self._peers[rank]
        segment = self._receives.segment(rank * mailbox.ROOM + place * mailbox.SLOT, mailbox.SLOT)
        await self.endpoint.post_recv(peer.vi, peer.receives.request(segment))

    async def close(self) -> None:
        """Wait until everything that was posted has completed."""
        for peer in self._peers.values():
            while peer.outstanding:
                await self._end(peer)

    async def load(self, buffer: Any) -> bytes:
        """The program's loads, through the caches of its host where it has some."""
        return await self.endpoint.read(buffer.address, len(buffer))

    async def store(self, buffer: Any, content: bytes) -> None:
        """The program's stores, likewise."""
        await self.endpoint.write(buffer.address, content)

    async def rest(self, microseconds: float) -> None:
        """Keep the processor busy: VIPL has no call that yields it."""
        await self.endpoint.compute(microseconds)

    async def note(self, rank: int, content: bytes) -> None:
        """Send a note once the peer has a free slot."""
        await self._slot(rank)
        await self._say(rank, content, mailbox.PLAIN)

    async def _slot(self, rank: int) -> None:
        while not self._peers[rank].credits.has_free_slot:
            await self._take()

    async def _say(self, rank: int, content: bytes, kind: int) -> None:
        peer = self._peers[rank]
        place, told = peer.credits.send(only_credit=kind == mailbox.ONLY_CREDIT)
        at, count = rank * mailbox.ROOM + place * mailbox.SLOT, mailbox.HEAD + len(content)
        await self._room(peer)
        await self.endpoint.write(self._outbox.address + at, bytes((told, kind)) + content)
        await self.endpoint.post_send(peer.vi, peer.sends.request(self._sends.segment(at, count)))
        peer.outstanding.append(True)

    async def _take(self) -> None:
        """Take the next receive completion, and repost its slot."""
        vi, _ = await self.endpoint.cq_wait(self._queue)
        rank = self._ranks[vi.number]
        peer = self._peers[rank]
        try:
            done = await self.endpoint.recv_done(vi)
        except VipError as error:
            raise mailbox.unreachable_error(self.rank, rank, str(error)) from None
        assert done is not None
        place, peer.next = peer.next, (peer.next + 1) % mailbox.PLACES
        kind = mailbox.PLAIN
        if done.status & REMOTE_WRITE == REMOTE_WRITE:
            told = done.immediate
            self._events.append(mailbox.Placed(rank))
        else:
            at = self._inbox.address + rank * mailbox.ROOM + place * mailbox.SLOT
            raw = await self.endpoint.read(at, done.length)
            told, kind = raw[0], raw[1]
            if kind != mailbox.ONLY_CREDIT:
                self._events.append(mailbox.Note(rank, raw[mailbox.HEAD :]))
        await self._expect(rank, place)
        peer.credits.take(told, only_credit=kind == mailbox.ONLY_CREDIT)
        if peer.credits.must_return_credits:
            await self._say(rank, b"", mailbox.ONLY_CREDIT)

    async def offer(self, buffer: Any) -> mailbox.Key:
        """Register the buffer, if it is not yet; the key is its address and memory handle."""
        return mailbox.Key(buffer.address, (await self._region(buffer)).handle)

    async def _region(self, buffer: Any) -> Region:
        found = self._regions.get(buffer.address)
        if found is None or found.length < len(buffer):
            found = self._regions[buffer.address] = await self.endpoint.register_mem(
                buffer, self._tag, enable_rdma_write=True, enable_rdma_read=True
            )
        return found

    async def _own(self, buffer: Any) -> tuple[Region, int]:
        """The registration that contains ``buffer``, and the offset in it."""
        for region in self._regions.values():
            at = buffer.address - region.address
            if 0 <= at <= region.length - len(buffer):
                return region, at
        return await self._region(buffer), 0

    async def put(self, rank: int, key: mailbox.Key, offset: int, buffer: Any) -> None:
        """RDMA write; the last piece has immediate data, for which the peer has a receive."""
        await self._slot(rank)
        peer = self._peers[rank]
        _, told = peer.credits.send()
        await self._write(peer, key, offset, buffer, told)

    async def write(self, rank: int, key: mailbox.Key, offset: int, buffer: Any) -> None:
        """RDMA write without immediate data, and wait for its completion."""
        await self._write(self._peers[rank], key, offset, buffer, None)
        await self.settle()

    async def _write(
        self, peer: Peer, key: mailbox.Key, offset: int, buffer: Any, word: int | None
    ) -> None:
        region, begin = await self._own(buffer)
        for at in range(0, len(buffer), self._most):
            count = min(self._most, len(buffer) - at)
            await self._room(peer)
            await self.endpoint.rdma_write(
                peer.vi,
                peer.sends,
                [region.segment(begin + at, count)],
                AddressSegment(key.first + offset + at, key.second),
                immediate=word if at + count == len(buffer) else None,
            )
            peer.outstanding.append(False)

    async def fetch(self, rank: int, key: mailbox.Key, offset: int, buffer: Any) -> None:
        """RDMA read, and wait for its completion."""
        region, begin = await self._own(buffer)
        peer = self._peers[rank]
        await self._room(peer)
        await self.endpoint.rdma_read(
            peer.vi,
            peer.sends,
            [region.segment(begin, len(buffer))],
            AddressSegment(key.first + offset, key.second),
        )
        peer.outstanding.append(False)
        await self.settle()

    async def _room(self, peer: Peer) -> None:
        while len(peer.outstanding) >= OUTSTANDING:
            await self._end(peer)

    async def settle(self) -> None:
        """Complete all descriptors of arrays, and those posted before them."""
        for peer in self._peers.values():
            while not all(peer.outstanding):
                await self._end(peer)

    async def _end(self, peer: Peer) -> None:
        peer.outstanding.popleft()
        try:
            await self.endpoint.send_wait(peer.vi)
        except VipError as error:
            rank = self._ranks[peer.vi.number]
            raise mailbox.unreachable_error(self.rank, rank, str(error)) from None
