"""Replaying what the families ask for, on threads; kernels leave other threads the interpreter."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from nicscope.drivers.replay import replay
from nicscope.drivers.replay.parting import ROWS
from nicscope.studies.replaying import with_price
from nicscope.studies.threads import Stopped, threaded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from nicscope.studies.replaying import Priced
    from nicscope.studies.sizing.passes import Passes
    from nicscope.studies.sizing.search import Ask, Family
    from nicscope.studies.sizing.shapes import Setting
    from nicscope.studies.sizing.survey import Extent
    from nicscope.traces.reader import Trace
    from nicscope.traces.schema import Requests

    Wanted = tuple[Family, Setting]

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
        trace: Trace,
        sample: list[Requests] | None,
        extent: Extent,
        passes: Passes,
        after: int = 0,
    ) -> None:
        """``after``: how many designs' time is likely to go by when all is counted."""
        self._trace = trace
        self._sample = sample
        self._passes = passes
        self._rounds = 0
        self._after = after
        most = MOST_BYTES // (BYTES_PER_PAGE * max(extent.node_pages, 1))
        self._at_once = min(max(most, 4), MOST_AT_ONCE)
        self._workers = min(os.cpu_count() or 1, MOST_WORKERS)

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

        What comes of it does not depend on how many threads there are.
        """

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
