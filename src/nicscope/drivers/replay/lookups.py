"""From batches of requests to the lookups of each NIC, as the one-pass kernels want them.

A NIC belongs to a node, or to a single process if each is to be looked at alone.  Its lookups
come as dense numbers and as set indices; a page's, or a line's, are the same every time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nicscope.drivers.replay import parting
from nicscope.drivers.replay.columns import Stream, slice_of, tally
from nicscope.drivers.replay.parting import Namer, Parter
from nicscope.drivers.translation.build import OFFSET_STEP
from nicscope.jit import kernel

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from nicscope.drivers.replay.columns import RequestColumns


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
        self._parter = Parter()
        self._namers: dict[tuple[int, int | None, int], _NicNamer] = {}

    def feed(self, batch: RequestColumns) -> Iterator[Lookups]:
        """Yield the lookups of one batch of any length, NIC by NIC."""
        for rows in parting.pieces(len(batch.node)):
            owner = self._parter.owners(batch, rows)
            for place, stream in self._parter.streams(batch, rows, owner, self._page_bits):
                yield from self._of_node(place, stream)

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
                    int(self._parter.directory.nodes[place]),
                    self._pid(place, process),
                    1 << line_bits,
                )
                namer = self._namers[key] = _NicNamer(nic, line_bits, self._step)
            yield from namer.name(stream)

    def _pid(self, place: int, process: int | None) -> int | None:
        if process is None:
            return None
        slots = self._parter.directory.slots
        [found] = slots["key"][(slots["node"] == place + 1) & (slots["ordinal"] == process)]
        return int(found) & 0xFFFFFFFF


class _NicNamer:
    """One NIC's numbering."""

    def __init__(self, nic: Nic, line_bits: int, step: int) -> None:
        self._nic = nic
        self._line_bits = line_bits
        self._step = step
        self._namer = Namer(line_bits)
        self._index = np.empty(parting.UNITS, np.uint32)

    def name(self, stream: Stream) -> Iterator[Lookups]:
        for part, numbers in self._namer.named(stream):
            if len(numbers) > len(self._index):
                self._index = np.empty(len(numbers), np.uint32)
            write_index(part, self._line_bits, self._step, self._index)
            pages = int(tally(part)[0])
            yield Lookups(self._nic, pages, numbers, self._index[: len(numbers)])


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
