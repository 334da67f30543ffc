"""What two quick passes over a trace tell of every cache, before any design is replayed.

The first finds how many pages each process touches, the second what every set-associative cache
misses.  Both are exact, for caches that are filled by demand and lose nothing to unpinning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nicscope.drivers.onepass.curve import LruCurve
from nicscope.drivers.onepass.grid import MOST_SET_BITS, SetAssociativeGrid
from nicscope.drivers.onepass.table_indices import TableIndices
from nicscope.drivers.replay.lookups import LookupStreams

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from nicscope.drivers.replay.lookups import Nic
    from nicscope.traces.schema import Requests

MOST_WAYS = 16
# Assumed: a translation cache of fewer entries is not built.
LEAST_ENTRIES = 16
ROOM = 2  # entries that are still of use, per page of a NIC: sets fill unevenly


class Extent(NamedTuple):
    """How much a trace touches, in pages of one size."""

    requests: int
    requested_bytes: int
    lookups: int
    pages: dict[int, list[int]]  # by node: pages of each of its processes
    longest_bytes: int  # of any request
    longest_pages: int

    @property
    def processes(self) -> int:
        """Of the node that has most."""
        return max(len(each) for each in self.pages.values())

    @property
    def node_pages(self) -> int:
        """Of the node that touches most."""
        return max(sum(each) for each in self.pages.values())

    @property
    def process_pages(self) -> int:
        """Of the process that touches most."""
        return max(max(each) for each in self.pages.values())


def most_entries(extent: Extent) -> int:
    """Entries of the largest cache that is of use for so many pages; a power of two."""
    return max(LEAST_ENTRIES, ROOM << max(extent.node_pages - 1, 0).bit_length())


class Grid(NamedTuple):
    """What set-associative caches on every NIC miss, with lines of one length."""

    line: int  # pages
    low: int  # log2 of the fewest sets
    misses: NDArray[np.int64]  # shape (levels, ways), summed over NICs
    held: dict[int, NDArray[np.int64]]  # likewise, by node: lines in the cache at the end

    def _level(self, entries: int, ways: int) -> int | None:
        """Where the caches of as many sets stand; None if the grid does not reach that far."""
        sets = entries // self.line // ways
        level = sets.bit_length() - 1 - self.low
        reached = 0 <= level < len(self.misses) and ways <= self.misses.shape[1]
        return level if reached else None

    def misses_of(self, entries: int, ways: int) -> int | None:
        """Misses with so many entries; None if the grid does not reach that far."""
        level = self._level(entries, ways)
        return None if level is None else int(self.misses[level, ways - 1])

    def further_of(self, entries: int, ways: int) -> int | None:
        """Ways that lookups check after the first; None as in ``misses_of``.

        A lookup checks a k-th further way if it would miss with k ways to as many sets.
        """
        level = self._level(entries, ways)
        return None if level is None else int(self.misses[level, : ways - 1].sum())

    def held_of(self, entries: int, ways: int) -> dict[int, int] | None:
        """Lines in each node's cache at the end, which is most; None as in ``misses_of``."""
        level = self._level(entries, ways)
        if level is None:
            return None
        return {node: int(held[level, ways - 1]) for node, held in self.held.items()}


def extent(batches: Iterable[Requests], page_size: int) -> Extent:
    """How much ``batches`` touch, in pages of ``page_size`` bytes."""
    page_bits = np.uint64(page_size.bit_length() - 1)
    streams = LookupStreams(page_size, [1], by_process=True, offset=False)
    curves: dict[Nic, LruCurve] = {}
    lookups = longest_bytes = longest_pages = requests = requested = 0
    for batch in batches:
        requests += len(batch.length)
        requested += int(batch.length.sum(dtype=np.int64))
        last = batch.address + (batch.length - np.uint32(1)).astype(np.uint64)
        pages = (last >> page_bits) - (batch.address >> page_bits) + np.uint64(1)
        longest_bytes = max(longest_bytes, int(batch.length.max(initial=0)))
        longest_pages = max(longest_pages, int(pages.max(initial=0)))
        for found in streams.feed(batch):
            curves.setdefault(found.nic, LruCurve()).feed(found.numbers)
            lookups += found.pages
    touched: dict[int, list[int]] = {}
    for nic, curve in curves.items():
        touched.setdefault(nic.node, []).append(curve.result().compulsory)
    return Extent(requests, requested, lookups, touched, longest_bytes, longest_pages)


class Grids(NamedTuple):
    """What caches miss, by the length of their lines."""

    offset: Grid  # lines of 1, processes spread over the sets
    indexed: Grid  # the same, of table indices instead of pages
    plain: dict[int, Grid]  # processes not spread


def grids(
    batches: Iterable[Requests], page_size: int, lines: Sequence[int], extent: Extent
) -> Grids:
    """Every cache of up to as many entries as ``extent`` has use for, with each of ``lines``."""
    spread = LookupStreams(page_size, [1], by_process=False, offset=True)
    bare = LookupStreams(page_size, [1], by_process=False, offset=False)
    plain = LookupStreams(page_size, lines, by_process=False, offset=False)
    offset, indexed, lined = (_Meters(extent) for _ in range(3))
    tables: dict[Nic, TableIndices] = {}
    for batch in batches:
        for found, beside in zip(spread.feed(batch), bare.feed(batch), strict=True):
            nic, numbers = found.nic, found.numbers
            offset.feed(nic, numbers, found.set_index)
            if nic not in tables:
                tables[nic] = TableIndices(extent.processes)
            index = tables[nic].of(numbers, found.set_index, beside.set_index)
            indexed.feed(nic, numbers, index)
        for found in plain.feed(batch):
            lined.feed(found.nic, found.numbers, found.set_index)
    [of_pages], [of_indices] = offset.grids(), indexed.grids()
    return Grids(of_pages, of_indices, {grid.line: grid for grid in lined.grids()})


def offset_grid(batches: Iterable[Requests], page_size: int, extent: Extent) -> Grid:
    """Of ``grids`` the first alone."""
    streams = LookupStreams(page_size, [1], by_process=False, offset=True)
    meters = _Meters(extent)
    for batch in batches:
        for found in streams.feed(batch):
            meters.feed(found.nic, found.numbers, found.set_index)
    [grid] = meters.grids()
    return grid


class _Meters:
    """The caches of every NIC, summed by the length of their lines."""

    def __init__(self, extent: Extent) -> None:
        self._most = most_entries(extent)
        self._of: dict[Nic, SetAssociativeGrid] = {}

    def feed(self, nic: Nic, numbers: NDArray[np.uint32], index: NDArray[np.uint32]) -> None:
        if nic not in self._of:
            bits = min(max(self._most // nic.line, 1).bit_length() - 1, MOST_SET_BITS)
            self._of[nic] = SetAssociativeGrid(bits, MOST_WAYS, split=False)
        self._of[nic].feed(numbers, index)

    def grids(self) -> Iterator[Grid]:
        by_line: dict[int, dict[int, SetAssociativeGrid]] = {}
        for nic, meter in self._of.items():
            by_line.setdefault(nic.line, {})[nic.node] = meter
        for line, of_nodes in by_line.items():
            counts = [meter.result() for meter in of_nodes.values()]
            misses = np.sum([each.misses for each in counts], axis=0)
            held = {node: meter.held() for node, meter in of_nodes.items()}
            yield Grid(line, int(counts[0].set_bits[0]), misses, held)
