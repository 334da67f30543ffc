"""Passes over a whole trace: by this process, or by workers who share out the nodes of a folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.drivers.replay import replay
from nicscope.drivers.replay.engine import result_of
from nicscope.studies.replaying import replay_share
from nicscope.studies.sizing.counting import Windows
from nicscope.studies.sizing.survey import Extent, Grid, Grids, extent, grids
from nicscope.studies.sources import ShareDone
from nicscope.studies.workers.tasks import Task
from nicscope.traces.folders.reading import FolderTrace

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nicscope.config.design import Design
    from nicscope.drivers.replay import ReplayResult
    from nicscope.studies.sizing.counting import Passes
    from nicscope.studies.workers.tasks import Workers
    from nicscope.traces.folders.reading import Share
    from nicscope.traces.reader import Trace
    from nicscope.traces.schema import Requests


class Surveyed(NamedTuple):
    """What a pass finds of caches, and the sample that it took, if any."""

    grids: Grids
    sample: list[Requests] | None


class Whole:
    """A trace of which everything that is asked for is found in passes over all of it."""

    def __init__(self, trace: Trace, passes: Passes, workers: Workers | None = None) -> None:
        """The nodes of a folder are shared out among ``workers``, if there are any."""
        self.trace = trace
        self._passes = passes
        self._workers = workers
        self._shares: list[Share] = []
        if workers is not None:
            assert isinstance(trace, FolderTrace)
            self._shares = trace.shares(workers.hands)

    @property
    def hands(self) -> int:
        """How many processes share it out; 0: this one has all of it."""
        return 0 if self._workers is None else self._workers.hands

    def extent(self, page_size: int, weight: int) -> Extent:
        """How much it touches; that takes as long as so many designs, its ``weight``."""
        if self._workers is None:
            return extent(self._passes.through(self.trace, weight), page_size)
        tasks = [Task(extent_of_share, (share, page_size), share.rows) for share in self._shares]
        watch = self._passes.watching(self.trace, weight)
        return _all_of(self._workers.results(tasks, watch))

    def surveyed(
        self,
        page_size: int,
        lines: Sequence[int],
        most_entries: int,
        weight: int,
        touched: Extent | None = None,
    ) -> Surveyed:
        """What every cache misses; of a long trace with a sample, if ``touched`` is given."""
        if self._workers is None:
            batches = self._passes.through(self.trace, weight)
            if touched is None:
                return Surveyed(grids(batches, page_size, lines, most_entries), None)
            windows = Windows(touched)
            found = grids(windows.of(batches), page_size, lines, most_entries)
            return Surveyed(found, windows.result())
        asked = (page_size, lines, most_entries, touched)
        tasks = [Task(survey_of_share, (share, *asked), share.rows) for share in self._shares]
        watch = self._passes.watching(self.trace, weight)
        parts = [part for part in self._workers.results(tasks, watch) if part is not None]
        sample = [batch for part in parts for batch in part.sample or ()]
        return Surveyed(_sum_of([part.grids for part in parts]), sample or None)

    def replayed(self, parts: Sequence[Sequence[Design]]) -> list[list[ReplayResult]]:
        """What the designs of each of ``parts`` make of it, each part in a pass of its own.

        They are expected already.
        """
        page_size = self.trace.metadata.page_size
        if self._workers is None:
            return [
                replay(
                    self._passes.over(self.trace, len(part)),
                    part,
                    kinds=False,
                    page_size=page_size,
                )
                for part in parts
            ]
        tasks = [
            Task(replay_share, (share, part, False, page_size, False), share.rows)
            for part in parts
            for share in self._shares
        ]
        designs = sum(map(len, parts))
        watch = self._passes.watching(self.trace, designs, is_expected=True)
        found = iter(self._workers.results(tasks, watch))
        results = []
        for part in parts:
            every = [next(found) for _ in self._shares]
            results.append(
                [
                    result_of(
                        design.at_page_size(page_size),
                        [node for nodes in every for node in nodes[place]],
                    )
                    for place, design in enumerate(part)
                ]
            )
        return results


def extent_of_share(share: Share, page_size: int, done: Callable[[int], None]) -> Extent:
    """How much the nodes of ``share`` touch; tells ``done`` of rows."""
    return extent(ShareDone(share, done).through(), page_size)


def survey_of_share(
    share: Share,
    page_size: int,
    lines: Sequence[int],
    most_entries: int,
    touched: Extent | None,
    done: Callable[[int], None],
) -> Surveyed | None:
    """As ``Whole.surveyed`` of the nodes of ``share``; None if it has no row."""
    batches = ShareDone(share, done).through()
    first = next(batches, None)
    if first is None:
        return None

    def every() -> Any:
        yield first
        yield from batches

    if touched is None:
        return Surveyed(grids(every(), page_size, lines, most_entries), None)
    windows = Windows(touched)
    found = grids(windows.of(every()), page_size, lines, most_entries)
    return Surveyed(found, windows.result())


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
