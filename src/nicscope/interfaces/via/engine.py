"""A DMA engine that moves fragments while the processor goes on: cut-through delivery.

Source: Trapeze's policy, on VIA's path; without it a message is whole on the NIC before its first
frame leaves, and again before the first byte goes to the host.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from nicscope.interfaces.via.journal import Journal, Part
from nicscope.interfaces.via.turns import Bell, hear

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from nicscope.interfaces.via.endpoint import Endpoint
    from nicscope.interfaces.via.port import Port
    from nicscope.interfaces.via.tables import Run
    from nicscope.interfaces.via.turns import Turns


class Piece:
    """One fragment's bytes between host and NIC memory, and once it is moved when it was."""

    def __init__(self, runs: Sequence[Run], begin: int, count: int, place: int) -> None:
        self.parts = list(_cut(runs, begin, begin + count))
        self.begin = begin
        self.place = place  # of the message
        self.notes: list[Journal] = []
        self.done = False


def _cut(runs: Sequence[Run], begin: int, end: int) -> Iterator[tuple[int, int, int]]:
    """(host address, bytes, place in the message) of its bytes from ``begin`` up to ``end``."""
    at = 0
    for run in runs:
        first, last = max(begin, at), min(end, at + run.length)
        if first < last:
            yield run.address + first - at, last - first, first
        at += run.length


class Engine:
    """Takes pieces in order, one at a time."""

    def __init__(self, turns: Turns, port: Port) -> None:
        self._turns = turns
        self._port = port
        self._pieces: deque[tuple[Piece, NDArray[np.uint8] | None, Endpoint]] = deque()
        self._called = Bell(turns)
        self._moved = Bell(turns)

    def fetch(self, piece: Piece, raw: NDArray[np.uint8], vi: Endpoint) -> None:
        """Have the piece's bytes of the host's memory in ``raw``, the message."""
        self._pieces.append((piece, raw, vi))
        self._called.ring()

    def deliver(self, piece: Piece, vi: Endpoint) -> None:
        """Have the piece's bytes of NIC memory in the host's, if ``vi``'s stream has it still."""
        self._pieces.append((piece, None, vi))
        self._called.ring()

    async def wait(self, piece: Piece, journal: Journal | None) -> None:
        """Until the piece is moved; what of its time did not run beside goes to ``journal``."""
        while not piece.done:
            await hear(self._moved)
        for note in piece.notes:
            if journal is not None:
                journal.overlap(note)

    async def serve(self) -> None:
        """The engine's own life."""
        while True:
            while not self._pieces:
                await hear(self._called)
            piece, raw, vi = self._pieces.popleft()
            for address, count, offset in piece.parts:
                now = self._turns.now
                note = Journal(now)
                if raw is not None:
                    end = self._port.take(
                        address, count, piece.place + offset, now, note, Part.SEND
                    )
                    await self._turns.until(end, "fetch")
                    raw[offset : offset + count] = self._port.fetched(
                        address, count, piece.place + offset
                    )
                elif vi.stream is not None and piece in vi.stream:
                    end = self._port.bring(piece.place + offset, address, count, now, note)
                    await self._turns.until(end, "deliver")
                piece.notes.append(note)
            piece.done = True
            self._moved.ring()
