"""Replaying what the families ask for, on threads; kernels leave other threads the interpreter.

What is cheap there is likely to be cheap on the whole trace, and only that is replayed in full:
a sample says where to look, and is never what is told.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import numpy as np

from nicscope.drivers.replay import replay
from nicscope.drivers.replay.parting import ROWS
from nicscope.studies.replaying import with_price
from nicscope.studies.threads import Stopped, threaded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from nicscope.studies.replaying import Priced
    from nicscope.studies.sizing.search import Ask, Family
    from nicscope.studies.sizing.shapes import Setting
    from nicscope.studies.sizing.survey import Extent
    from nicscope.studies.sizing.whole import Whole
    from nicscope.traces.reader import Trace
    from nicscope.traces.schema import Requests

    Wanted = tuple[Family, Setting]


class Passes:
    """Rows done in all passes so far, each as often as there are designs in its pass.

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
        """So many designs are likely to see ``trace`` after those that are expected."""
        self._forecast = trace.rows * designs

    def forecast_later(self, rows: int) -> None:
        """So many rows are likely to be left when this trace is done."""
        self._later = rows

    def expect(self, trace: Trace, designs: int) -> None:
        """So many designs are going to see ``trace``, which the forecast had in it."""
        self._total += trace.rows * designs
        self._forecast = max(self._forecast - trace.rows * designs, 0)

    def through(self, trace: Trace, designs: int) -> Iterator[Requests]:
        """The batches of ``trace``, for a pass that takes as long as so many ``designs``."""
        self.expect(trace, designs)
        return self.over(trace, designs)

    def over(self, trace: Trace, designs: int) -> Iterator[Requests]:
        """The batches of ``trace`` for so many ``designs``, counted as they pass."""
        for batch in trace.batches():
            yield batch
            self._tell(len(batch.length) * designs)

    def watching(
        self, trace: Trace, designs: int, *, is_expected: bool = False
    ) -> Callable[[int, int], None]:
        """A watch of a pass over ``trace`` that others make, for so many ``designs``."""
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
    """Takes the windows out of batches that pass: of each node's rows, however they alternate."""

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
        """``batches`` as they are."""
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


# Assumed: what replay keeps per page of a node for one design, at most, and what it may take.
BYTES_PER_PAGE = 64
MOST_BYTES = 1 << 30
MOST_AT_ONCE = 64  # designs
# Assumed, for the time that is left: designs that the rounds of a search replay.
LIKELY = (50, 20, 8, 20, 8)
MOST_WORKERS = 8  # threads; each reads the trace by itself


class Counter:
    """Counts designs on one trace, and on its sample if it has one."""

    def __init__(
        self,
        whole: Whole,
        sample: list[Requests] | None,
        extent: Extent,
        passes: Passes,
        after: int = 0,
    ) -> None:
        """``after``: how many designs' time is likely to go by when all is counted."""
        self._trace = whole.trace
        self._whole = whole
        self._sample = sample
        self._passes = passes
        self._rounds = 0
        self._after = after
        most = MOST_BYTES // (BYTES_PER_PAGE * max(extent.node_pages, 1))
        self._at_once = min(max(most, 4), MOST_AT_ONCE)
        self._workers = whole.hands or min(os.cpu_count() or 1, MOST_WORKERS)

    @property
    def has_sample(self) -> bool:
        """Whether the trace is long enough to be sampled."""
        return self._sample is not None

    def count(self, asked: Sequence[tuple[Family, Ask]]) -> None:
        """Have each family note what it asked for; all of them ask for the sample, or none."""
        sampled = any(ask.sampled for _, ask in asked)
        wanted = [(family, one) for family, ask in asked for one in ask.settings]
        size = max(self._at_once // self._workers, 1)
        size = min(size, max(-(-len(wanted) // self._workers), 1))
        # Neighbours take about as long as each other: each pass gets some of all.
        parts = -(-len(wanted) // size)
        shares = [wanted[part::parts] for part in range(parts)]
        if not sampled:
            self._rounds += 1
            self._passes.expect(self._trace, len(wanted))
            self._passes.forecast(self._trace, sum(LIKELY[self._rounds :]) + self._after)
        found = self._replay_all(shares, sampled)
        for family, ask in asked:
            family.note(ask, [found[family.subject.design.scheme, one] for one in ask.settings])

    def _replay_all(
        self, shares: Sequence[Sequence[Wanted]], sampled: bool
    ) -> dict[tuple[str, Setting], Priced]:
        """Replay each of ``shares`` in a pass of its own.

        What comes of it does not depend on how many threads there are, or who does it.
        """
        if self._whole.hands and not sampled:
            designs = [[family.design(one) for family, one in share] for share in shares]
            return {
                (family.subject.design.scheme, one): with_price(result, family.subject.platform)
                for share, part in zip(shares, self._whole.replayed(designs), strict=True)
                for (family, one), result in zip(share, part, strict=True)
            }

        def work(share: Sequence[Wanted], stopped: Callable[[], bool]) -> list[Priced]:
            return self._replay(share, sampled, stopped)

        return {
            (family.subject.design.scheme, one): priced
            for share, part in threaded(shares, work, self._workers)
            for (family, one), priced in zip(share, part, strict=True)
        }

    def _replay(
        self, share: Sequence[Wanted], sampled: bool, stopped: Callable[[], bool]
    ) -> list[Priced]:
        designs = [family.design(one) for family, one in share]
        batches: Iterable[Requests] = self._sample or ()
        if not sampled:
            batches = self._passes.over(self._trace, len(designs))
        page_size = self._trace.metadata.page_size
        results = replay(_until(stopped, batches), designs, kinds=False, page_size=page_size)
        return [
            with_price(result, family.subject.platform)
            for (family, _), result in zip(share, results, strict=True)
        ]


def _until(stopped: Callable[[], bool], batches: Iterable[Requests]) -> Iterator[Requests]:
    """``batches`` in parts that replay does at once; ``Stopped`` soon after ``stopped()``."""
    for batch in batches:
        for begin in range(0, len(batch.length), ROWS):
            if stopped():
                raise Stopped
            yield type(batch)._make(column[begin : begin + ROWS] for column in batch)
