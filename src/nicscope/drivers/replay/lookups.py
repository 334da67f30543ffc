"""From batches of requests to the lookups of each NIC, as the one-pass kernels want them.

A NIC belongs to a node, or to a single process if each is to be looked at alone.  Its lookups
come as dense numbers and as set indices; a page's, or a line's, are the same every time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

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
from nicscope.drivers.replay.node import OFFSET_STEP
from nicscope.jit import kernel
from nicscope.memory.numbering import BLOCK, grown, new_numbering

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from nicscope.drivers.replay.columns import RequestColumns
    from nicscope.memory.numbering import Numbering

ROWS = 1 << 15  # as many as stay in the cache between passes
UNITS = 1 << 16


class Nic(NamedTuple):
    """Whose NIC it is, and how many pages each of its lines has."""

    node: int
    pid: int | None  # None: all processes of the node share it
    line: int


class Lookups(NamedTuple):
    """Some lookups of one NIC, in their order; overwritten by the next."""

    nic: Nic
    pages: int  # lookups, of which those of further pages in one line are left out below
    numbers: NDArray[np.uint32]  # shape (lines,)
    set_index: NDArray[np.uint32]  # shape (lines,): low bits of page or line number plus offset


class LookupStreams:
    """Parts a trace by NIC and names what each looks up."""

    def __init__(
        self, page_size: int, lines: Sequence[int], *, by_process: bool, offset: bool
    ) -> None:
        """See pages of ``page_size`` bytes in lines of each of ``lines`` pages (powers of two).

        ``by_process`` gives each process a NIC of its own.  With ``offset`` the processes of a
        node begin at different sets.
        """
        self._page_bits = page_size.bit_length() - 1
        self._lines = [line.bit_length() - 1 for line in lines]
        self._by_process = by_process
        self._step = OFFSET_STEP if offset and not by_process else 0
        self._directory = new_directory()
        self._namers: dict[tuple[int, int | None, int], _Namer] = {}
        self._out = Stream(
            np.empty(ROWS, np.int32),
            np.empty(ROWS, np.int64),
            np.empty(ROWS, np.int32),
            np.empty(ROWS, np.uint8),
            np.empty(ROWS, np.uint32),
        )

    def feed(self, batch: RequestColumns) -> Iterator[Lookups]:
        """Yield the lookups of one batch of any length, NIC by NIC."""
        for begin in range(0, len(batch.node), ROWS):
            rows = slice(begin, begin + ROWS)
            owner = self._owners(batch.node[rows], batch.pid[rows])
            columns = (batch.address[rows], batch.length[rows], batch.receive[rows])
            ends = self._part(owner, columns)
            for place, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
                if end > start:
                    yield from self._of_node(place, slice_of(self._out, start, end))

    def _owners(self, node: NDArray[np.int32], pid: NDArray[np.int32]) -> NDArray[np.int64]:
        owner = np.empty(len(node), np.int64)
        row = 0
        while (row := enter_processes(self._directory, node, pid, row, owner)) < len(node):
            self._directory = grown_directory(self._directory)
            row = 0  # slots have moved
        return owner

    def _part(
        self, owner: NDArray[np.int64], columns: tuple[NDArray[np.generic], ...]
    ) -> list[int]:
        """Fill ``_out`` with the rows of one node after the other; where each node's end."""
        ends = np.zeros(int(self._directory.counts[0]), np.int64)
        if len(ends) == 1:
            take_one_node(self._directory, owner, columns, self._page_bits, self._out)
            return [len(owner)]
        count_by_node(self._directory, owner, ends)
        nexts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
        part_by_node(self._directory, owner, columns, self._page_bits, nexts, self._out)
        return [int(end) for end in ends]

    def _of_node(self, place: int, stream: Stream) -> Iterator[Lookups]:
        if not self._by_process:
            yield from self._named(place, None, stream)
            return
        order = np.argsort(stream.process, kind="stable")
        parted = Stream._make(column[order] for column in stream)
        edges = np.flatnonzero(np.diff(parted.process)) + 1
        for start, end in zip([0, *edges], [*edges, len(order)], strict=True):
            yield from self._named(place, int(parted.process[start]), slice_of(parted, start, end))

    def _named(self, place: int, process: int | None, stream: Stream) -> Iterator[Lookups]:
        for line_bits in self._lines:
            key = (place, process, line_bits)
            namer = self._namers.get(key)
            if namer is None:
                nic = Nic(
                    int(self._directory.nodes[place]), self._pid(place, process), 1 << line_bits
                )
                namer = self._namers[key] = _Namer(nic, line_bits, self._step)
            yield from namer.name(stream)

    def _pid(self, place: int, process: int | None) -> int | None:
        if process is None:
            return None
        slots = self._directory.slots
        [found] = slots["key"][(slots["node"] == place + 1) & (slots["ordinal"] == process)]
        return int(found) & 0xFFFFFFFF


class _Namer:
    """One NIC's numbering."""

    def __init__(self, nic: Nic, line_bits: int, step: int) -> None:
        self._nic = nic
        self._line_bits = line_bits
        self._step = step
        self._numbering: Numbering = new_numbering()
        self._numbers = np.empty(UNITS, np.uint32)
        self._index = np.empty(UNITS, np.uint32)

    def name(self, stream: Stream) -> Iterator[Lookups]:
        begin = 0
        while begin < len(stream.first):
            end = end_within(stream.pages, begin, UNITS)
            part = slice_of(stream, begin, end)
            pages = int(tally(part)[0])
            if pages > len(self._numbers):  # one request that is longer than the budget
                self._numbers, self._index = np.empty((2, pages), np.uint32)
            written = self._number(part)
            write_index(part, self._line_bits, self._step, self._index)
            yield Lookups(self._nic, pages, self._numbers[:written], self._index[:written])
            begin = end

    def _number(self, part: Stream) -> int:
        row = at = 0
        while True:
            row, written = number_stream(
                self._numbering, part, row, self._line_bits, 0, self._numbers[at:]
            )
            at += int(written)
            if row == len(part.first):
                return at
            needed = int(part.pages[row]) // BLOCK + 3
            blocks = max(2 * len(self._numbering.owners), int(self._numbering.used[0]) + needed)
            self._numbering = grown(self._numbering, blocks)


@kernel
def write_index(stream, line_bits, step, index):
    """Write the low 32 bits of each line's number plus its process's ordinal times ``step``."""
    at = 0
    for row in range(stream.first.size):
        first = stream.first[row] >> line_bits
        last = (stream.first[row] + stream.pages[row] - 1) >> line_bits
        offset = np.int64(stream.process[row]) * step
        for line in range(first, last + 1):
            index[at] = np.uint32((line + offset) & 0xFFFFFFFF)
            at += 1
