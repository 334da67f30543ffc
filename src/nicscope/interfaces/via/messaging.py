"""VI-MSG: what the NIC's processor does, one thing after another.

It takes tokens from doorbells, reads descriptors, sends and receives frames, and reports
completions.  ``outgoing`` and ``incoming`` are its two halves.  Source: EDT, 3 and 6.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from nicscope.interfaces.via import incoming, outgoing
from nicscope.interfaces.via.descriptor import (
    OPERATIONS,
    STATUS_AT,
    STATUS_WORDS,
    decode,
    place_in,
)
from nicscope.interfaces.via.journal import Part
from nicscope.interfaces.via.names import Error, State, Status
from nicscope.interfaces.via.staging import Staging
from nicscope.interfaces.via.turns import Bell, hear, until
from nicscope.interfaces.via.vi import RECEIVE_QUEUE, SEND_QUEUE, Delivery, Work

if TYPE_CHECKING:
    from nicscope.interfaces.via.addresses import AddressSpace, Registrations
    from nicscope.interfaces.via.descriptor import DataSegment, Request
    from nicscope.interfaces.via.journal import Journal
    from nicscope.interfaces.via.network import Frame, Network
    from nicscope.interfaces.via.port import Port
    from nicscope.interfaces.via.settings import Settings
    from nicscope.interfaces.via.turns import Turns
    from nicscope.interfaces.via.vi import Vi

CQ_ENTRY = 8  # bytes: VI and work queue


class Messaging:
    """The NIC of one node."""

    def __init__(
        self,
        turns: Turns,
        port: Port,
        settings: Settings,
        network: Network,
        space: AddressSpace,
        registrations: Registrations,
    ) -> None:
        self.turns = turns
        self.port = port
        self.settings = settings
        self.network = network
        self.space = space
        self.registrations = registrations
        self.neighbours: list[Messaging] = []  # by node
        half = settings.nic["staging_bytes"] // 2
        self.rooms = (Staging(0, half), Staging(half, 2 * half))  # to send, received
        self.freed = Bell(turns)  # of a room, or of an entry of the receive queue
        self.deliveries: deque[Delivery] = deque()  # that the processor has to collect
        self._tasks: deque[Work | Frame | tuple[Work, Status, int]] = deque()
        self._called = Bell(turns)
        self.idle: list[Bell] = []  # on which programs of the node wait for completions

    # --- what host and network ask of it -------------------------------------------------

    def submit(self, task: Work | Frame | tuple[Work, Status, int]) -> None:
        """A token, a frame, or a completion to report; taken in this order."""
        self._tasks.append(task)
        self._called.ring()

    async def serve(self) -> None:
        """The firmware's main loop."""
        while True:
            while not self._tasks:
                await hear(self._called)
            task = self._tasks.popleft()
            if isinstance(task, tuple):
                await self.complete(*task)
            elif isinstance(task, Work):
                await self._take(task)
            else:
                await incoming.receive(self, task)

    # --- doorbells -----------------------------------------------------------------------

    async def _take(self, work: Work) -> None:
        """Read the descriptor that a token names, and do what it says."""
        part = Part.SEND if work.queue == SEND_QUEUE else Part.RECEIVE
        if work.journal is not None:
            work.journal.resume(self.turns.now)
        if not work.read:
            await self._read(work, part)
        if work.told:
            return  # flushed before the NIC came to it
        if work.request is None:
            await self.refuse(work, Status.VIP_STATUS_FORMAT_ERROR)
        elif work.queue == SEND_QUEUE:
            await outgoing.send(self, work, work.request)
        elif work.vi.state is State.VIP_STATE_ERROR:
            await self.refuse(work, Status.VIP_STATUS_DESC_FLUSHED_ERROR)
        else:
            work.vi.ready.append(work)

    async def _read(self, work: Work, part: Part) -> None:
        """Take the descriptor, and all else that the processor has moved for it, if it did."""
        work.read = True
        await self.spend("vimsg_token", work.journal, part)
        address, count = place_in(work.token)
        place = work.places[0] if work.places else self._room(count)
        work.request = decode(await self.gather([(address, count)], place, work.journal, part))
        if not work.places:
            self.give(SEND_QUEUE, place)
            return
        if work.published is not None:
            work.raw = await self.gather(work.published, work.places[1], work.journal, part)
        for place in work.places:
            self.give(SEND_QUEUE, place)

    async def take_message(self, work: Work, stretches: list[tuple[int, int]]) -> bytes:
        """The message that a send names, fetched by the NIC itself."""
        place = self._room(sum(count for _, count in stretches))
        raw = await self.gather(stretches, place, work.journal, Part.SEND)
        self.give(SEND_QUEUE, place)
        return raw

    def _room(self, count: int) -> int:
        """For what the NIC itself fetches."""
        place = self.rooms[SEND_QUEUE].take(count)
        assert place is not None, "the NIC sends one message at a time"
        return place

    def give(self, side: int, place: int) -> None:
        """A room is free again."""
        self.rooms[side].give(place)
        self.freed.ring()

    # --- moving bytes --------------------------------------------------------------------

    async def gather(
        self,
        stretches: list[tuple[int, int]],
        place: int,
        journal: Journal | None,
        part: Part,
    ) -> bytes:
        """The bytes at those (virtual address, bytes), translated twice and fetched."""
        parts = []
        for address, count in stretches:
            await self.spend("vimsg_translate", journal, part)
            for at, size in self.space.runs(address, count):
                end = self.port.fetch(at, size, place, self.turns.now, journal, part)
                assert end >= 0, "what a doorbell announces has been published"
                await until(end)
                parts.append(self.port.fetched(at, size, place))
                place += size
        return b"".join(parts)

    async def scatter(
        self, segments: list[tuple[int, int]], place: int, journal: Journal | None
    ) -> Delivery:
        """Deliver staged bytes to those (virtual address, bytes)."""
        runs: list[tuple[int, int, int]] = []  # that the processor has to collect
        for address, count in segments:
            await self.spend("vimsg_translate", journal, Part.RECEIVE)
            for at, size in self.space.runs(address, count):
                while True:
                    now = self.turns.now
                    end = self.port.deliver(place, at, size, now, journal)
                    if end >= 0:
                        break
                    await self._make_way(runs, journal)
                await until(end)
                runs.append((place, at, size))
                place += size
        return Delivery(runs[0][0] if runs else 0, runs)

    async def _make_way(self, runs: list[tuple[int, int, int]], journal: Journal | None) -> None:
        """The receive queue is full: of other messages, or of the runs before of this one.

        These the library takes out meanwhile, as the processor does within a run.
        """
        if runs and not self.deliveries:
            place, at, size = runs.pop(0)
            end = self.port.collect(place, at, size, self.turns.now, journal)
            assert end >= 0, "what was delivered can be collected"
            await until(end)
            return
        await hear(self.freed)
        if journal is not None:
            journal.resume(self.turns.now)

    async def spend(self, cost: str, journal: Journal | None, part: Part) -> None:
        """Let the firmware run for as long as ``cost`` says."""
        end = self.turns.now + self.settings.costs[cost]
        if journal is not None:
            journal.spend(part, end)
        await until(end)

    # --- completions ---------------------------------------------------------------------

    def check(self, vi: Vi, request: Request) -> Status:
        """What is wrong with a request before a byte is moved; 0 if nothing is."""
        if request.length > vi.attributes.max_transfer:
            return Status.VIP_STATUS_LENGTH_ERROR
        return self.protection(vi, request.data)

    def protection(self, vi: Vi, segments: tuple[DataSegment, ...]) -> Status:
        """Whether the VI may use all of them."""
        for one in segments:
            if not self.registrations.permits(
                one.handle, one.address, one.length, vi.attributes.tag
            ):
                return Status.VIP_STATUS_PROTECTION_ERROR
        return Status(0)

    async def refuse(self, work: Work, status: Status) -> None:
        """Report an error of the request itself; with reliability it breaks the connection."""
        await self.complete(work, status)
        if work.vi.reliable and not status & Status.VIP_STATUS_DESC_FLUSHED_ERROR:
            self.break_connection(work.vi, Error.VIP_ERROR_POST_DESC)

    async def complete(self, work: Work, status: Status, length: int = 0) -> None:
        """Write the descriptor's status, then the completion queue's entry."""
        if work.told:
            return
        work.told = True
        journal = work.journal if work.queue == RECEIVE_QUEUE else None
        await self.spend("vimsg_complete", journal, Part.RECEIVE)
        if work.queue == RECEIVE_QUEUE:
            if not status & Status.VIP_STATUS_OP_REMOTE_RDMA_WRITE:
                status |= Status.VIP_STATUS_OP_RECEIVE
        elif work.request is not None:
            status |= OPERATIONS[work.request.operation]
        raw = STATUS_WORDS.pack(work.descriptor.immediate, length, status | Status.VIP_STATUS_DONE)
        await self._write(place_in(work.token)[0] + STATUS_AT, raw, journal)
        queue = work.vi.completion_queues[work.queue]
        if queue is not None:
            if queue.written - queue.read == queue.entries:
                work.vi.errors.append(Error.VIP_ERROR_CATASTROPHIC)
            else:
                entry = queue.region.address + queue.written % queue.entries * CQ_ENTRY
                raw = (1 + 2 * work.vi.number + work.queue).to_bytes(CQ_ENTRY, "little")
                await self._write(entry, raw, journal)
                queue.written += 1
        work.done = True
        work.vi.bells[work.queue].ring()
        if queue is not None:
            queue.bell.ring()

    async def _write(self, address: int, raw: bytes, journal: Journal | None) -> None:
        """A completion to the user's ``address``."""
        ((at, _),) = self.space.runs(address, len(raw))
        end = self.port.complete(at, raw, self.turns.now)
        if journal is not None:
            journal.spend(Part.RECEIVE, end)
        await until(end)

    # --- broken connections --------------------------------------------------------------

    def break_connection(self, vi: Vi, error: Error) -> None:
        """Both ends go to the error state; what they have posted is flushed."""
        self.fail(vi, error)
        if vi.peer is not None and vi.peer.state is State.VIP_STATE_CONNECTED:
            self.neighbours[vi.peer.node].fail(vi.peer, Error.VIP_ERROR_CONN_LOST)

    def fail(self, vi: Vi, error: Error) -> None:
        """The VI goes to the error state, and what it has posted is flushed."""
        if vi.state is State.VIP_STATE_ERROR:
            return
        vi.state = State.VIP_STATE_ERROR
        vi.errors.append(error)
        self.flush(vi)

    def flush(self, vi: Vi) -> None:
        """Have all posted descriptors completed as flushed."""
        vi.ready.clear()
        vi.held.clear()
        vi.reading = None
        if vi.assembly is not None:
            self.give(RECEIVE_QUEUE, vi.assembly)
            vi.assembly = None
        for queue in vi.posted:
            for work in queue:
                if not work.told:
                    self.submit((work, Status.VIP_STATUS_DESC_FLUSHED_ERROR, 0))
        for bell in vi.bells:
            bell.ring()
