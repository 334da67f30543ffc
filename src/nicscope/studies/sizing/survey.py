"""What two quick passes over a trace tell of every cache, before any design is replayed.

The first finds how many pages each process touches, the second what every set-associative cache
misses.  Both are exact, for caches that are filled by demand and lose nothing to unpinning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nicscope.drivers.onepass.curve import LruCurve
from nicscope.drivers.onepass.grid import SetAssociativeGrid
from nicscope.drivers.replay.lookups import LookupStreams

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from nicscope.drivers.replay.columns import RequestColumns
    from nicscope.drivers.replay.lookups import Nic
    from nicscope.traces.schema import Requests

MOST_WAYS = 16
MOST_SET_BITS = 16  # of what is told by one pass; larger caches are replayed


class Extent(NamedTuple):
    """How much a trace touches, in pages of one size."""

    requests: int
    requested_bytes: int
    lookups: int
    pages: dict[int, list[int]]  # by node: pages of each of its processes
    longest_bytes: int  # of any request
    longest_pages: int
    requests_of: dict[int, int]  # by node

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
    requests_of: dict[int, int] = {}
    for batch in batches:
        nodes, counts = np.unique(batch.node, return_counts=True)
        for node, count in zip(nodes.tolist(), counts.tolist(), strict=True):
            requests_of[node] = requests_of.get(node, 0) + count
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
    return Extent(requests, requested, lookups, touched, longest_bytes, longest_pages, requests_of)


class Grids(NamedTuple):
    """What caches miss, by the length of their lines."""

    offset: Grid  # lines of 1, processes spread over the sets
    plain: dict[int, Grid]  # processes not spread


def grids(
    batches: Iterable[RequestColumns], page_size: int, lines: Sequence[int], most_entries: int
) -> Grids:
    """Every cache of up to ``most_entries`` and 16 ways, with each of ``lines``."""
    spread = LookupStreams(page_size, [1], by_process=False, offset=True)
    plain = LookupStreams(page_size, lines, by_process=False, offset=False)
    meters: dict[tuple[bool, Nic], SetAssociativeGrid] = {}
    for batch in batches:
        for is_spread, streams in ((True, spread), (False, plain)):
            for found in streams.feed(batch):
                key = (is_spread, found.nic)
                if key not in meters:
                    meters[key] = _new_grid(most_entries // found.nic.line)
                meters[key].feed(found.numbers, found.set_index)
    [offset] = _summed({nic: meter for (spread, nic), meter in meters.items() if spread})
    others = _summed({nic: meter for (spread, nic), meter in meters.items() if not spread})
    return Grids(offset, {grid.line: grid for grid in others})


def _new_grid(most_lines: int) -> SetAssociativeGrid:
    bits = min(max(most_lines, 1).bit_length() - 1, MOST_SET_BITS)
    return SetAssociativeGrid(bits, MOST_WAYS, split=False)


def _summed(meters: dict[Nic, SetAssociativeGrid]) -> Iterator[Grid]:
    by_line: dict[int, dict[int, SetAssociativeGrid]] = {}
    for nic, meter in meters.items():
        by_line.setdefault(nic.line, {})[nic.node] = meter
    for line, of_nodes in by_line.items():
        counts = [meter.result() for meter in of_nodes.values()]
        misses = np.sum([each.misses for each in counts], axis=0)
        held = {node: meter.held() for node, meter in of_nodes.items()}
        yield Grid(line, int(counts[0].set_bits[0]), misses, held)
