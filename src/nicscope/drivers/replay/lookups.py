"""From batches of requests to the lookups of each NIC, as the one-pass kernels want them.

A NIC belongs to a node, or to a single process if each is to be looked at alone.  Its lookups
come as dense numbers and as set indices; a page's, or a line's, are the same every time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nicscope.drivers.replay import columns
from nicscope.drivers.replay.columns import RequestColumns, Share, TracePartitioner, new_stream
from nicscope.drivers.replay.page_numbering import Alignment, LookupArrays, PageNumberer
from nicscope.drivers.translation import OFFSET_STEP

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray


class Nic(NamedTuple):
    """Whose NIC it is, and how many pages each of its lines has."""

    node: int
    pid: int | None  # None: all processes of the node share it
    line: int


class Lookups(NamedTuple):
    """Some lookups of one NIC, in their order; overwritten by the next."""

    nic: Nic
    pages: int  # lookups, of which those of further pages in one line are left out below
    repeats: int  # of the line that was looked up last, which are left out below
    numbers: NDArray[np.uint32]  # shape (lines,), or of groups of lines
    set_index: NDArray[np.uint32]  # shape (lines,): low bits of page or line number plus offset


class LookupStreams:
    """Partitions a trace by NIC and numbers what each looks up."""

    def __init__(
        self,
        page_size: int,
        lines: Sequence[int],
        *,
        by_process: bool,
        offset: bool,
        alignment: Alignment | None = None,
    ) -> None:
        """See pages of ``page_size`` bytes in lines of each of ``lines`` pages (powers of two).

        ``by_process`` gives each process a NIC of its own.  With ``offset`` the processes of a
        node begin at different sets.  With ``alignment`` runs are joined, and what is looked up are
        groups of as many lines as it allows.
        """
        self._joins = alignment is not None
        is_spread = offset and not by_process
        self._grain_bits = 0 if alignment is None else alignment.of(is_spread)
        self._page_bits = page_size.bit_length() - 1
        self._lines = [line.bit_length() - 1 for line in lines]
        self._by_process = by_process
        self._step = OFFSET_STEP if offset and not by_process else 0
        self._parter = TracePartitioner(by_process)
        self._lookup_arrays = LookupArrays(new_stream(columns.ROWS, lengths=False))
        self._namers: dict[tuple[int, int], tuple[Nic, PageNumberer]] = {}

    def feed(self, batch: RequestColumns) -> Iterator[Lookups]:
        """Yield the lookups of one batch of any length, NIC by NIC."""
        for piece in columns.pieces(len(batch.node)):
            self._parter.owners(batch, piece)
            for share in self._parter.shares(self._page_bits, self._lookup_arrays.stream):
                for line_bits in self._lines:
                    yield from self._named(share, line_bits)

    def _named(self, share: Share, line_bits: int) -> Iterator[Lookups]:
        key = (share.place, line_bits)
        if key not in self._namers:
            nic = Nic(*self._owner_of(share.place), 1 << line_bits)
            bits = self.group_bits(nic.line)
            self._namers[key] = nic, PageNumberer(line_bits, 0, self._step, bits, joins=self._joins)
        nic, namer = self._namers[key]
        for named in namer.named(self._lookup_arrays, share.begin, share.end):
            numbers, index = (
                self._lookup_arrays.lookups.number,
                self._lookup_arrays.lookups.spread_index,
            )
            found = numbers[: named.lookups], index[: named.lookups]
            yield Lookups(nic, named.pages, named.repeats, *found)

    def cut(self) -> None:
        """Ends all runs, so that what follows is counted separately."""
        for _, namer in self._namers.values():
            namer.cut()

    def group_bits(self, line: int) -> int:
        """log2 of the lines of ``line`` pages in a group of those that are looked up."""
        return max(self._grain_bits - (line.bit_length() - 1), 0)

    def _owner_of(self, place: int) -> tuple[int, int | None]:
        """The NIC of a share: its node, and its process if each has its own."""
        directory = self._parter.directory
        if not self._by_process:
            return int(directory.nodes[place]), None
        key = int(directory.members["key"][place])
        return key >> 32, key & 0xFFFFFFFF
