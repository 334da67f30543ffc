"""Parting a trace by node, and naming the pages or lines that each request touches.

What replay and the one-pass simulation of many caches have in common: from a batch's columns to
streams of dense numbers, in pieces that stay in the processor's cache between passes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nicscope.drivers.replay.columns import (
    Stream,
    count_by_node,
    end_within,
    enter_processes,
    grown_directory,
    new_directory,
    number_stream,
    part_by_node,
    slice_of,
    take_one_node,
    tally,
)
from nicscope.memory.numbering import BLOCK, grown, new_numbering
from nicscope.room import check_room

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from nicscope.drivers.replay.columns import Directory, RequestColumns
    from nicscope.memory.numbering import Numbering

ROWS = 1 << 15  # as many as stay in the cache between passes
UNITS = 1 << 16
BYTES_OF_A_PAGE = 40  # measured: its number and what one design or curve keeps of it


class Parter:
    """Who has appeared in a trace so far, and the rows of a piece of it, node by node."""

    def __init__(self) -> None:
        self.directory: Directory = new_directory()
        self._out = Stream(
            np.empty(ROWS, np.int32),
            np.empty(ROWS, np.int64),
            np.empty(ROWS, np.int32),
            np.empty(ROWS, np.uint8),
            np.empty(ROWS, np.uint32),
        )

    def owners(self, batch: RequestColumns, begin: int) -> NDArray[np.int64]:
        """Slots in the directory of the up to ``ROWS`` rows of ``batch`` from ``begin``."""
        node, pid = batch.node[begin : begin + ROWS], batch.pid[begin : begin + ROWS]
        owner = np.empty(len(node), np.int64)
        row = 0
        while (row := enter_processes(self.directory, node, pid, row, owner)) < len(node):
            self.directory = grown_directory(self.directory)
            row = 0  # slots have moved
        return owner

    def streams(
        self, batch: RequestColumns, begin: int, owner: NDArray[np.int64], page_bits: int
    ) -> Iterator[tuple[int, Stream]]:
        """Each node's rows of that piece, with its place in the directory.

        Pages have 2**page_bits bytes.  The streams are overwritten by the next call.
        """
        rows = slice(begin, begin + ROWS)
        columns = (batch.address[rows], batch.length[rows], batch.receive[rows])
        ends = np.zeros(int(self.directory.counts[0]), np.int64)
        if len(ends) == 1:
            take_one_node(self.directory, owner, columns, page_bits, self._out)
            ends[0] = len(owner)
        else:
            count_by_node(self.directory, owner, ends)
            nexts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
            part_by_node(self.directory, owner, columns, page_bits, nexts, self._out)
        start = 0
        for place, end in enumerate(ends.tolist()):
            if end > start:
                yield place, slice_of(self._out, start, end)
            start = end


class Namer:
    """Dense numbers of the units (2**unit_bits pages) of one node, or of one process."""

    def __init__(self, unit_bits: int, reach: int = 0) -> None:
        """``reach`` units beyond each request get numbers too, as pinning ahead may touch them."""
        self.numbering: Numbering = new_numbering()
        self._unit_bits = unit_bits
        self._reach = reach
        self._numbers = np.empty(UNITS, np.uint32)

    def named(self, stream: Stream) -> Iterator[tuple[Stream, NDArray[np.uint32]]]:
        """``stream`` in pieces of up to ``UNITS`` pages, each with the numbers of its units.

        The numbers are overwritten by the next piece.
        """
        begin = 0
        fits = tally(stream)[0] <= UNITS
        while begin < len(stream.first):
            end = len(stream.first) if fits else end_within(stream.pages, begin, UNITS)
            part = slice_of(stream, begin, end)
            yield part, self._number(part)
            begin = end

    def _number(self, part: Stream) -> NDArray[np.uint32]:
        if part.pages[0] > len(self._numbers):  # one request that is longer than the budget
            self._numbers = np.empty(int(part.pages[0]), np.uint32)
        row = at = 0
        while True:
            row, written = number_stream(
                self.numbering, part, row, self._unit_bits, self._reach, self._numbers[at:]
            )
            at += int(written)
            if row == len(part.first):
                return self._numbers[:at]
            needed = (int(part.pages[row]) + self._reach) // BLOCK + 3
            blocks = max(2 * len(self.numbering.owners), int(self.numbering.used[0]) + needed)
            check_room(
                blocks * BLOCK * BYTES_OF_A_PAGE,
                f"keeping {blocks * BLOCK:,} pages apart",
                "take larger pages, or a trace that touches fewer",
            )
            self.numbering = grown(self.numbering, blocks)
