"""Bytes between a host and its NIC, as VI-MSG moves them: rooms, translation, gather, scatter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nicscope.interfaces.via.endpoint import SEND_QUEUE, Delivery
from nicscope.interfaces.via.journal import Part
from nicscope.interfaces.via.network import NO_BYTES
from nicscope.interfaces.via.node import Node
from nicscope.interfaces.via.turns import hear
from nicscope.nic.vimsg.layout import FIRST_PAGE, PAGE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from nicscope.interfaces.via.journal import Journal
    from nicscope.interfaces.via.tables import Run


def pages_of(first: int, within: int, length: int) -> range:
    """Pages of a stretch that begins ``within`` bytes into page ``first``."""
    return range(first, first + (within + length + PAGE - 1) // PAGE) if length else range(0)


class Moving(Node):
    """Of one node."""

    def room_to_send(self, count: int) -> int:
        """For what the NIC itself fetches."""
        place = self.firmware.take_room(SEND_QUEUE, count)
        assert place is not None, "the NIC sends one message at a time"
        return place

    def give(self, place: int) -> None:
        """A room is free again."""
        self.firmware.give_room(place)
        self.freed.ring()

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
            await self.turns.until(end, "fetch")
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
            await self.turns.until(end, "deliver")
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
                if what is Part.MISS:
                    self.observer.miss_ps += ps
                await self.turns.until(end, what.name.lower())

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
            await self.turns.until(end, what.name.lower())

    async def _make_way(self, runs: list[tuple[int, int, int]], journal: Journal | None) -> None:
        """The receive queue is full: of other messages, or of the runs before of this one.

        These the library takes out meanwhile, as the processor does within a run.
        """
        if runs and not self.deliveries:
            place, at, size = runs.pop(0)
            end = self.port.pick_up(place, at, size, self.turns.now, journal)
            assert end >= 0, "what was delivered can be collected"
            await self.turns.until(end, "make way")
            return
        await hear(self.freed)
        if journal is not None:
            journal.resume(self.turns.now)
