"""Parting a trace by node or by process, in pieces that stay in the processor's cache.

What replay and the one-pass simulation of many caches have in common.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nicscope.drivers.replay.columns import (
    Intake,
    Rows,
    enter_processes,
    grown_directory,
    new_directory,
    new_stream,
    part_rows,
)
from nicscope.kernel.entering import Pace, bound

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from nicscope.drivers.replay.columns import Directory, RequestColumns, Stream

# How much a call of a kernel does at most, but for a single request that is longer: as many rows,
# and as many of their pages, as stay in the processor's cache between passes.
ROWS = 1 << 15
_INTERPRETED_ROWS = 1 << 12  # until kernels are compiled, which is heeded between two pieces
UNITS = 1 << 16

_pace = Pace()


def pieces(rows: int) -> Iterator[range]:
    """So many rows in pieces, small ones while kernels are interpreted."""
    begin = 0
    while begin < rows:
        piece = range(begin, min(rows, begin + _pace.next(ROWS, _INTERPRETED_ROWS)))
        yield piece
        begin = piece.stop


class Share(NamedTuple):
    """Rows of the stream that belong to one node or, if parted so, to one process."""

    place: int  # among the nodes, or among the processes, in order of appearance
    begin: int
    end: int


class Parter:
    """Who has appeared in a trace so far, and the rows of a piece of it, node by node."""

    def __init__(self, by_process: bool = False) -> None:
        """Shares are those of the nodes, or of each process if ``by_process``."""
        self.directory: Directory = new_directory()
        self._by_process = int(by_process)
        self._owner = np.empty(ROWS, np.int32)
        self._batch: RequestColumns | None = None
        self._piece = range(0)
        self._entering: Callable[..., int] | None = None
        self._parting: dict[int, tuple[Callable[..., int], NDArray[np.int64], Stream]] = {}

    def owners(self, batch: RequestColumns, piece: range) -> NDArray[np.int32]:
        """Places among the processes of the rows ``piece`` of ``batch``, at most ``ROWS`` of them.

        Overwritten by the next call.
        """
        if piece.start == 0 or batch is not self._batch:
            self._batch = batch
            self._forget()
        self._piece, count, done = piece, len(piece), 0
        while (done := self._enter(piece.start, done, count)) < count:
            self.directory = grown_directory(self.directory)
            self._forget()
        return self._owner[:count]

    def shares(self, page_bits: int, stream: Stream) -> list[Share]:
        """Fill ``stream`` with the piece whose ``owners`` were found last; which rows are whose.

        Pages have 2**page_bits bytes.
        """
        assert self._batch is not None
        if id(stream) not in self._parting:
            ends = np.zeros(len(self.directory.nodes), np.int64)
            part = bound(part_rows, self._intake(ends, stream))
            self._parting[id(stream)] = part, ends, stream
        part, ends, _ = self._parting[id(stream)]
        begin, count = self._piece.start, len(self._piece)
        found = ends[: part(begin, count, page_bits, self._by_process)].tolist()
        each = enumerate(zip([0, *found[:-1]], found, strict=True))
        return [Share(place, start, end) for place, (start, end) in each if end > start]

    def _enter(self, begin: int, done: int, count: int) -> int:
        if self._entering is None:
            intake = self._intake(np.zeros(0, np.int64), new_stream(0))
            self._entering = bound(enter_processes, intake)
        return self._entering(begin, done, count)

    def _intake(self, ends: NDArray[np.int64], stream: Stream) -> Intake:
        batch = self._batch
        assert batch is not None
        rows = Rows(batch.node, batch.pid, batch.address, batch.length, batch.receive)
        return Intake(self.directory, rows, self._owner, ends, stream)

    def _forget(self) -> None:
        """What was bound is of another batch or of a directory that has grown."""
        self._entering = None
        self._parting.clear()
