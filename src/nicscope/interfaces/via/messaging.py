"""VI-MSG in virtual time: the NIC's processor asks the firmware what is next, and spends the time.

It takes tokens from doorbells, reads descriptors, sends and receives frames, and reports
completions.  ``outgoing`` and ``incoming`` are its two halves; the rules are in ``nic.vimsg``.
Source: EDT, 3 and 6.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from nicscope.interfaces.via import incoming, outgoing, repetition
from nicscope.interfaces.via.descriptor import STATUS_WORDS, place_in
from nicscope.interfaces.via.engine import Engine
from nicscope.interfaces.via.journal import Part
from nicscope.interfaces.via.names import Error, State, Status
from nicscope.interfaces.via.network import NO_BYTES, Frame
from nicscope.interfaces.via.turns import Bell, hear
from nicscope.interfaces.via.vi import RECEIVE_QUEUE, SEND_QUEUE, Delivery, Work
from nicscope.nic.vimsg.layout import FIRST_PAGE, PAGE
from nicscope.nic.vimsg.requests import STATUS_AT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from numpy.typing import NDArray

    from nicscope.interfaces.via.addresses import AddressSpace
    from nicscope.interfaces.via.firmware import Firmware
    from nicscope.interfaces.via.journal import Journal
    from nicscope.interfaces.via.network import Network
    from nicscope.interfaces.via.port import Port
    from nicscope.interfaces.via.settings import Settings
    from nicscope.interfaces.via.tables import Outcome, Run
    from nicscope.interfaces.via.translating import Translator
    from nicscope.interfaces.via.turns import Turns
    from nicscope.interfaces.via.vi import Vi

    Task = Work | Frame | tuple[Work, int, int] | Callable[[], Awaitable[None]]

CQ_ENTRY = 8  # bytes: VI and work queue


def pages_of(first: int, within: int, length: int) -> range:
    """Pages of a stretch that begins ``within`` bytes into page ``first``."""
    return range(first, first + (within + length + PAGE - 1) // PAGE) if length else range(0)


class Messaging:
    """The NIC of one node."""

    def __init__(
        self,
        turns: Turns,
        port: Port,
        settings: Settings,
        network: Network,
        space: AddressSpace,
        firmware: Firmware,
        translator: Translator | None = None,
        *,
        cut_through: bool = False,
    ) -> None:
        self.turns = turns
        self.port = port
        self.settings = settings
        self.network = network
        self.space = space
        self.firmware = firmware
        self.translator = translator
        self.cut_through = cut_through
        self.engines = (Engine(turns, port), Engine(turns, port))  # to send, received
        self.neighbours: list[Messaging] = []  # by node
        self.works: dict[int, Work] = {}  # by the place of what the NIC has read
        self.unsettled: dict[int, Vi] = {}  # with frames not acknowledged, by place
        self.freed = Bell(turns)  # of a room, or of an entry of the receive queue
        self.deliveries: deque[Delivery] = deque()  # that the processor has to collect
        self._tasks: deque[Task] = deque()
        self.posting = False  # somebody is between publishing and the doorbell
        self.posted = Bell(turns)
        self._called = Bell(turns)
        self.idle: list[Bell] = []  # on which programs of the node wait for completions

    # --- what host and network ask of it -------------------------------------------------

    def submit(self, task: Task) -> None:
        """A token, a frame, a completion to report, or what else; taken in this order."""
        self._tasks.append(task)
        self._called.ring()

    async def serve(self) -> None:
        """The firmware's main loop."""
        while True:
            if self.unsettled:
                await self._repeat_what_is_due()
            if not self._tasks:
                latest = min((vi.resend_at for vi in self.unsettled.values()), default=None)
                await hear(self._called, latest)
                continue
            task = self._tasks.popleft()
            if isinstance(task, tuple):
                await self.complete(*task)
            elif isinstance(task, Work):
                await self._take(task)
            elif isinstance(task, Frame):
                await incoming.receive(self, task)
            else:
                await task()

    async def _repeat_what_is_due(self) -> None:
        for vi in list(self.unsettled.values()):
            if vi.unsettled and vi.resend_at <= self.turns.now:
                await repetition.repeat(self, vi)

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
        assert work.request is not None
        if work.bad:
            await self.refuse(work, Status.VIP_STATUS_FORMAT_ERROR)
        elif work.queue == SEND_QUEUE:
            await outgoing.send(self, work, work.request)
        elif not self.firmware.take_receive(work.vi.place, work.request):
            await self.refuse(work, Status.VIP_STATUS_DESC_FLUSHED_ERROR)

    async def _read(self, work: Work, part: Part) -> None:
        """Take the descriptor, and all else that the processor has moved for it, if it did."""
        work.read = True
        await self.spend("vimsg_token", work.journal, part)
        address, count = place_in(work.token)
        place = work.places[0] if work.places else self.room_to_send(count)
        runs = self.firmware.runs_of_stretch(address, count)
        raw = await self.gather(runs, place, work.journal, part)
        if not work.told:
            work.request, work.bad = self.firmware.read_request(raw)
            self.works[work.request] = work
        if not work.places:
            self.give(place)
            return
        if work.published is not None:
            runs = [
                run for stretch in work.published for run in self.firmware.runs_of_stretch(*stretch)
            ]
            work.raw = await self.gather(runs, work.places[1], work.journal, part)
        for place in work.places:
            self.give(place)

    async def take_message(self, work: Work, request: int) -> NDArray[np.uint8]:
        """The message that a send names, fetched by the NIC itself."""
        place = self.room_to_send(self.firmware.length_of(request))
        raw = await self.gather(
            self.firmware.runs_of_request(request), place, work.journal, Part.SEND
        )
        self.give(place)
        return raw

    def room_to_send(self, count: int) -> int:
        """For what the NIC itself fetches."""
        place = self.firmware.take_room(SEND_QUEUE, count)
        assert place is not None, "the NIC sends one message at a time"
        return place

    def give(self, place: int) -> None:
        """A room is free again."""
        self.firmware.give_room(place)
        self.freed.ring()

    # --- moving bytes --------------------------------------------------------------------

    async def gather(
        self, runs: Iterable[Run], place: int, journal: Journal | None, part: Part
    ) -> NDArray[np.uint8]:
        """The bytes of those runs, translated twice and fetched."""
        parts = []
        for run in runs:
            await self.translate(run, journal, part, receive=False)
            if not run.length:
                continue
            end = self.port.take(run.address, run.length, place, self.turns.now, journal, part)
            assert end >= 0, "what a doorbell announces has been published"
            await self.turns.until(end)
            parts.append(self.port.fetched(run.address, run.length, place))
            place += run.length
        return np.concatenate(parts) if len(parts) > 1 else parts[0] if parts else NO_BYTES

    async def scatter(self, runs: Iterable[Run], place: int, journal: Journal | None) -> Delivery:
        """Deliver staged bytes to those runs."""
        begin = place
        done: list[tuple[int, int, int]] = []  # that the processor has to collect
        for run in runs:
            await self.translate(run, journal, Part.RECEIVE, receive=True)
            while True:
                now = self.turns.now
                end = self.port.bring(place, run.address, run.length, now, journal)
                if end >= 0:
                    break
                await self._make_way(done, journal)
            await self.turns.until(end)
            done.append((place, run.address, run.length))
            place += run.length
        return Delivery(begin, done)

    async def translate(
        self, run: Run, journal: Journal | None, part: Part, *, receive: bool
    ) -> None:
        """Find where a run is: by VI-MSG's own two steps for each segment, or in a cache."""
        if self.translator is None:
            if run.first:
                await self.spend("vimsg_translate", journal, part)
            return
        node, frames = self.port.number, self.firmware.memory.frames
        for page in pages_of(run.page, run.address % PAGE, run.length):
            for what, ps in self.translator.ask(node, frames, page, receive=receive):
                end = self.turns.now + ps
                if journal is not None:
                    journal.spend(what, end)
                await self.turns.until(end)

    async def pin(
        self, address: int, length: int, journal: Journal | None, *, receive: bool
    ) -> None:
        """What a translation cache asks of the program's side before a stretch is posted."""
        if self.translator is None or length == 0:
            return
        node, frames = self.port.number, self.firmware.memory.frames
        pages = pages_of(address // PAGE - FIRST_PAGE, address % PAGE, length)
        spent = self.translator.admit(node, frames, pages[0], len(pages), receive=receive)
        for what, ps in spent:
            end = self.turns.now + ps
            if journal is not None:
                journal.spend(what, end)
            await self.turns.until(end)

    async def _make_way(self, runs: list[tuple[int, int, int]], journal: Journal | None) -> None:
        """The receive queue is full: of other messages, or of the runs before of this one.

        These the library takes out meanwhile, as the processor does within a run.
        """
        if runs and not self.deliveries:
            place, at, size = runs.pop(0)
            end = self.port.pick_up(place, at, size, self.turns.now, journal)
            assert end >= 0, "what was delivered can be collected"
            await self.turns.until(end)
            return
        await hear(self.freed)
        if journal is not None:
            journal.resume(self.turns.now)

    def spend(self, cost: str, journal: Journal | None, part: Part) -> Awaitable[None]:
        """Let the firmware run for as long as ``cost`` says; to be awaited now."""
        end = self.turns.now + self.settings.costs[cost]
        if journal is not None:
            journal.spend(part, end)
        return self.turns.until(end)

    # --- completions ---------------------------------------------------------------------

    async def refuse(self, work: Work, status: int) -> None:
        """Report an error of the request itself; with reliability it breaks the connection."""
        outcome = self.firmware.refuse(work.vi.place, status)
        await self.complete(work, status)
        self.carry_out(work.vi, outcome)

    def carry_out(self, vi: Vi, outcome: Outcome) -> None:
        """The library hears of an error, and if that is how it is the connection breaks."""
        if outcome.error is None:
            return
        if outcome.breaks:
            self.break_connection(vi, outcome.error)
        else:
            vi.errors.append(outcome.error)

    async def complete(self, work: Work, status: int, length: int = 0) -> None:
        """Write the descriptor's status, then the completion queue's entry."""
        if work.told:
            return
        work.told = True
        journal = work.journal if work.queue == RECEIVE_QUEUE else None
        await self.spend("vimsg_complete", journal, Part.RECEIVE)
        word = self.firmware.status_word(work.request, status, receive=work.queue == RECEIVE_QUEUE)
        raw = STATUS_WORDS.pack(work.descriptor.immediate, length, word)
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
        if work.request is not None:
            del self.works[work.request]
            self.firmware.forget_request(work.request)
            work.request = None
        work.vi.bells[work.queue].ring()
        if queue is not None:
            queue.bell.ring()

    async def _write(self, address: int, raw: bytes, journal: Journal | None) -> None:
        """A completion to the user's ``address``."""
        ((at, _),) = self.space.runs(address, len(raw))
        end = self.port.complete(at, raw, self.turns.now)
        if journal is not None:
            journal.spend(Part.RECEIVE, end)
        await self.turns.until(end)

    # --- broken connections --------------------------------------------------------------

    def break_connection(self, vi: Vi, error: Error) -> None:
        """Both ends go to the error state; what they have posted is flushed."""
        self.fail(vi, error)
        if vi.peer is not None and vi.peer.state is State.VIP_STATE_CONNECTED:
            self.neighbours[vi.peer.node].fail(vi.peer, Error.VIP_ERROR_CONN_LOST)

    def fail(self, vi: Vi, error: Error) -> None:
        """The VI goes to the error state, and what it has posted is flushed."""
        if self.firmware.lose_connection(vi.place):
            vi.errors.append(error)
            self.flush(vi)

    def flush(self, vi: Vi) -> None:
        """Have all posted descriptors completed as flushed."""
        self.firmware.forget(vi.place)
        vi.held.clear()
        vi.unsettled.clear()
        self.unsettled.pop(vi.place, None)
        vi.stream = None
        self.freed.ring()
        for queue in vi.posted:
            for work in queue:
                if not work.told:
                    self.submit((work, Status.VIP_STATUS_DESC_FLUSHED_ERROR, 0))
        for bell in vi.bells:
            bell.ring()
