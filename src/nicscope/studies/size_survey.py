"""What one pass over a trace tells of every cache: its footprint, and misses of all shapes."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.drivers.onepass.curve import LruCurve
from nicscope.drivers.onepass.grid import SetAssociativeGrid
from nicscope.drivers.replay.lookups import LookupStreams, Nic
from nicscope.studies.replaying import replay_share, results_of
from nicscope.studies.sources import ShareDone
from nicscope.studies.workers import Nodes, Workers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from nicscope.config.design import Design
    from nicscope.drivers.replay import ReplayResult
    from nicscope.drivers.replay.columns import RequestColumns
    from nicscope.traces.folders import Share
    from nicscope.traces.reader import Trace
    from nicscope.traces.schema import Requests


class Passes:
    """Progress over all passes: rows times designs.

    How many there will be is known for the next passes, and forecast for those after.
    """

    def __init__(self, watch: Callable[[int, int], None] | None = None) -> None:
        self._watch = watch
        self._done = 0
        self._total = 0
        self._forecast = 0
        self._later = 0
        self._lock = threading.Lock()

    def forecast(self, trace: Trace, designs: int) -> None:
        """Replace the forecast of designs still to be counted on ``trace``."""
        self._forecast = trace.rows * designs

    def forecast_remaining_rows(self, rows: int) -> None:
        """Set the rows expected to remain when this trace is done."""
        self._later = rows

    def expect(self, trace: Trace, designs: int) -> None:
        """Add a pass of so many designs, moved from the forecast."""
        self._total += trace.rows * designs
        self._forecast = max(self._forecast - trace.rows * designs, 0)

    def over(self, trace: Trace, designs: int) -> Iterator[Requests]:
        """The batches of ``trace`` for so many ``designs``, counted as they pass."""
        for batch in trace.batches():
            yield batch
            self._tell(len(batch.length) * designs)

    def watching(
        self, trace: Trace, designs: int, *, is_expected: bool = False
    ) -> Callable[[int, int], None]:
        """A watch for a pass over ``trace`` made elsewhere, for so many ``designs``."""
        if not is_expected:
            self.expect(trace, designs)
        told = 0

        def watch(done: int, total: int) -> None:
            nonlocal told
            rows = trace.rows * designs * done // max(total, 1)
            self._tell(rows - told)
            told = rows

        return watch

    def _tell(self, rows: int) -> None:
        with self._lock:
            self._done += rows
            if self._watch is not None:
                self._watch(self._done, self._total + self._forecast + self._later)


# Assumed: a fourth of a trace says too little less than the whole to be worth a detour.
SAMPLED = 1 << 20  # lookups of a sample
LONG = 4 * SAMPLED  # lookups of a trace that is sampled
WINDOWS = 16


class Windows:
    """Collects sample windows of each node's rows from passing batches."""

    def __init__(self, extent: Extent) -> None:
        self._is_long = extent.lookups >= LONG
        self._spans = {
            node: [(start, start + wanted) for start in starts]
            for node, rows in extent.requests_of.items()
            for wanted in (max(rows * SAMPLED // max(extent.lookups, 1) // WINDOWS, 1),)
            for starts in ([rows * number // WINDOWS for number in range(WINDOWS)],)
        }
        self._passed = dict.fromkeys(self._spans, 0)  # rows of each node
        self._found: list[Requests] = []

    def of(self, batches: Iterable[Requests]) -> Iterator[Requests]:
        """Pass ``batches`` on unchanged while sampling them."""
        for batch in batches:
            yield batch
            if self._is_long:
                self._take(batch)

    def _take(self, batch: Requests) -> None:
        order = np.argsort(batch.node, kind="stable")
        nodes, firsts = np.unique(batch.node[order], return_index=True)
        taken = []
        for node, places in zip(nodes.tolist(), np.split(order, firsts[1:]), strict=True):
            begin = self._passed[node]
            end = self._passed[node] = begin + len(places)
            for start, stop in self._spans[node]:
                low, high = max(start, begin), min(stop, end)
                if low < high:
                    taken.append(places[low - begin : high - begin])
        if taken:
            rows = np.unique(np.concatenate(taken))
            self._found.append(type(batch)._make(column[rows] for column in batch))

    def result(self) -> list[Requests] | None:
        """The windows as batches, in the trace's order; None of a short trace, which needs none."""
        return self._found or None


MOST_WAYS = 16
MOST_SET_BITS = 16  # of what is told by one pass; larger caches are replayed


class Extent(NamedTuple):
    """The footprint of a trace, for one page size."""

    requests: int
    requested_bytes: int
    lookups: int
    pages: dict[int, list[int]]  # by node: pages of each of its processes
    longest_bytes: int  # of any request
    longest_pages: int
    requests_of: dict[int, int]  # by node

    @property
    def processes(self) -> int:
        """The most processes on any node."""
        return max(len(each) for each in self.pages.values())

    @property
    def node_pages(self) -> int:
        """The most pages touched on any node."""
        return max(sum(each) for each in self.pages.values())

    @property
    def process_pages(self) -> int:
        """The most pages touched by any process."""
        return max(max(each) for each in self.pages.values())


class Grid(NamedTuple):
    """Misses of set-associative caches on every NIC, for one line length."""

    line: int  # pages
    low: int  # log2 of the fewest sets
    misses: NDArray[np.int64]  # shape (levels, ways), summed over NICs
    held: dict[int, NDArray[np.int64]]  # likewise, by node: lines in the cache at the end

    def _level(self, entries: int, ways: int) -> int | None:
        """The row of caches with so many sets; None if that is outside the grid."""
        sets = entries // self.line // ways
        level = sets.bit_length() - 1 - self.low
        reached = 0 <= level < len(self.misses) and ways <= self.misses.shape[1]
        return level if reached else None

    def misses_of(self, entries: int, ways: int) -> int | None:
        """Misses with so many entries; None if that is outside the grid."""
        level = self._level(entries, ways)
        return None if level is None else int(self.misses[level, ways - 1])

    def extra_probes_of(self, entries: int, ways: int) -> int | None:
        """Ways that lookups search after the first; None as in ``misses_of``.

        A lookup checks a k-th further way if it would miss with k ways to as many sets.
        """
        level = self._level(entries, ways)
        return None if level is None else int(self.misses[level, : ways - 1].sum())

    def valid_lines_of(self, entries: int, ways: int) -> dict[int, int] | None:
        """Valid lines in each node's cache at the end, the maximum; None as in ``misses_of``."""
        level = self._level(entries, ways)
        if level is None:
            return None
        return {node: int(held[level, ways - 1]) for node, held in self.held.items()}


def extent(batches: Iterable[Requests], page_size: int) -> Extent:
    """The footprint of ``batches``, in pages of ``page_size`` bytes."""
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
    """Misses of caches, by line length."""

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


class ShapeGrids(NamedTuple):
    """What a pass finds of caches, and the sample that it took, if any."""

    grids: Grids
    sample: list[Requests] | None


class Whole:
    """A trace of which everything that is asked for is found in passes over all of it."""

    def __init__(self, trace: Trace, passes: Passes, workers: Workers | None = None) -> None:
        """The nodes of a folder are shared out among ``workers``, if there are any."""
        self.trace = trace
        self.hands = 0 if workers is None else workers.hands  # 0: this process has all of it
        self._passes = passes
        self._nodes = Nodes(trace, workers)

    def extent(self, page_size: int, weight: int) -> Extent:
        """How much it touches; that takes as long as so many designs, its ``weight``."""
        watch = self._passes.watching(self.trace, weight)
        return _all_of(self._nodes.each(watch, extent_of_share, page_size))

    def surveyed(
        self,
        page_size: int,
        lines: Sequence[int],
        most_entries: int,
        weight: int,
        touched: Extent | None = None,
    ) -> ShapeGrids:
        """What every cache misses; of a long trace with a sample, if ``touched`` is given."""
        watch = self._passes.watching(self.trace, weight)
        found = self._nodes.each(watch, survey_of_share, page_size, lines, most_entries, touched)
        parts = [part for part in found if part is not None]
        sample = [batch for part in parts for batch in part.sample or ()]
        return ShapeGrids(_sum_of([part.grids for part in parts]), sample or None)

    def replayed(self, parts: Sequence[Sequence[Design]]) -> list[list[ReplayResult]]:
        """What the designs of each of ``parts`` make of it, each part in a pass of its own.

        They are expected already.
        """
        page_size = self.trace.metadata.page_size
        watch = self._passes.watching(self.trace, sum(map(len, parts)), is_expected=True)
        rounds = [(part, False, page_size, False) for part in parts]
        found, many = self._nodes.each_of(watch, replay_share, rounds), len(self._nodes.shares)
        return [
            results_of(part, page_size, found[place * many : (place + 1) * many])
            for place, part in enumerate(parts)
        ]


def extent_of_share(share: Share | Trace, page_size: int, done: Callable[[int], None]) -> Extent:
    """How much the nodes of ``share`` touch; tells ``done`` of rows."""
    return extent(ShareDone(share, done).through(), page_size)


def survey_of_share(
    share: Share | Trace,
    page_size: int,
    lines: Sequence[int],
    most_entries: int,
    touched: Extent | None,
    done: Callable[[int], None],
) -> ShapeGrids | None:
    """As ``Whole.surveyed`` of the nodes of ``share``; None if it has no row."""
    batches = ShareDone(share, done).through()
    first = next(batches, None)
    if first is None:
        return None

    def every() -> Any:
        yield first
        yield from batches

    if touched is None:
        return ShapeGrids(grids(every(), page_size, lines, most_entries), None)
    windows = Windows(touched)
    found = grids(windows.of(every()), page_size, lines, most_entries)
    return ShapeGrids(found, windows.result())


def _all_of(parts: Sequence[Extent]) -> Extent:
    """The extent of all nodes, each of which is in one of ``parts``."""
    return Extent(
        sum(part.requests for part in parts),
        sum(part.requested_bytes for part in parts),
        sum(part.lookups for part in parts),
        {node: pages for part in parts for node, pages in part.pages.items()},
        max(part.longest_bytes for part in parts),
        max(part.longest_pages for part in parts),
        {node: count for part in parts for node, count in part.requests_of.items()},
    )


def _sum_of(parts: Sequence[Grids]) -> Grids:
    """What the caches of all nodes miss, each of which is in one of ``parts``."""
    plain = {line: _sum_of_lines([part.plain[line] for part in parts]) for line in parts[0].plain}
    return Grids(_sum_of_lines([part.offset for part in parts]), plain)


def _sum_of_lines(parts: Sequence[Grid]) -> Grid:
    misses = np.sum([part.misses for part in parts], axis=0)
    held = {node: lines for part in parts for node, lines in part.held.items()}
    return Grid(parts[0].line, parts[0].low, misses, held)
