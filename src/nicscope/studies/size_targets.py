"""The fewest entries that meet a miss target, by page size."""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from nicscope.drivers.replay.lookups import LookupStreams, Nic
from nicscope.errors import StudyError
from nicscope.studies.curves import Counted, Meter, Span, every_size
from nicscope.studies.sizing import USUAL_PAGE_SIZES, read_page_sizes
from nicscope.studies.sources import (
    RowsDone,
    ShareDone,
    check_skip,
    grains_counted,
    named,
    parted,
)
from nicscope.studies.workers import Nodes, Workers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from nicscope.drivers.replay.columns import RequestColumns
    from nicscope.drivers.replay.page_numbering import Alignment
    from nicscope.traces.folders import Share
    from nicscope.traces.reader import Trace

# Assumed: a curve has a cliff if one doubling buys at least this share of all that size can.
CLIFF = 0.5
PARTS = 16  # of an octave, at which cliffs are looked for
NO_SETS = Span(0, 0, 0)


class TargetQuestion(NamedTuple):
    """The miss target and the page sizes."""

    share: float  # of all lookups, or of all but first ones
    page_sizes: tuple[int, ...]  # bytes
    skip: int = 0  # requests that only fill the caches


class Cliff(NamedTuple):
    """The doubling that reduces misses most."""

    entries: int  # before it
    misses: int  # there
    after: int  # misses with twice as many


class Target(NamedTuple):
    """The entries needed with one page size."""

    trace: str
    page_size: int  # bytes
    nics: int
    lookups: int  # that count
    pages: int  # that were looked up, also by requests that were skipped
    compulsory: int  # first lookups of a page, among those that count
    entries: int | None  # of each NIC's cache; None: no cache misses so little
    misses: int | None  # with them
    steady_entries: int | None  # likewise, first lookups left out
    cliff: Cliff | None

    @property
    def compulsory_share(self) -> float:
        """The share of compulsory misses, which every cache has."""
        return self.compulsory / self.lookups if self.lookups else 0.0

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "trace": self.trace,
            "page_size": self.page_size,
            "nics": self.nics,
            "lookups": self.lookups,
            "touched_pages": self.pages,
            "ni_misses_compulsory": self.compulsory,
            "entries": self.entries,
            "ni_misses": self.misses,
            "steady_entries": self.steady_entries,
            "cliff": None
            if self.cliff is None
            else {
                "entries": self.cliff.entries,
                "ni_misses": self.cliff.misses,
                "ni_misses_of_twice": self.cliff.after,
            },
        }


class TargetReport(msgspec.Struct, frozen=True, kw_only=True):
    """Targets of several traces."""

    question: TargetQuestion
    traces: list[dict[str, Any]]
    targets: list[Target]

    def to_json(self) -> dict[str, Any]:
        """One object for programs."""
        return {
            "target_miss": self.question.share,
            "skipped_requests": self.question.skip,
            "traces": self.traces,
            "targets": [target.to_json() for target in self.targets],
        }


def ask_target(target: str, page_sizes: str | None = None, skip: int = 0) -> TargetQuestion:
    """Parse and check the options.

    Errors: ``StudyError`` for the first word that makes no sense, ``DesignError`` for a page size.
    """
    text = target.strip()
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise StudyError(
            f"--target-miss must be a share of lookups, such as 1% or 0.01; got {target!r}"
        )
    if skip < 0:
        raise StudyError(f"--skip must be a number of requests, 0 or more, got {skip}")
    return TargetQuestion(share, read_page_sizes(page_sizes or USUAL_PAGE_SIZES), skip)


def targets(
    traces: Sequence[tuple[str, Trace]],
    question: TargetQuestion,
    watch: Callable[[int, int], None] | None = None,
    workers: Workers | None = None,
) -> TargetReport:
    """The targets of each of the named ``traces``; reports rows done to ``watch``.

    The nodes of folders of files are shared out among ``workers``, if there are any.
    Errors: ``TraceError`` at the first row that the schema does not allow, ``StudyError`` if
    ``skip`` leaves none.
    """
    check_skip(question.skip, traces)
    progress = RowsDone(watch, sum(trace.rows for _, trace in traces))
    found: list[Target] = []
    for name, trace in traces:
        found += _targets_of(name, Nodes(trace, workers), trace.rows, question, progress)
    return TargetReport(question=question, traces=named(traces), targets=found)


def _targets_of(
    name: str, nodes: Nodes, rows: int, question: TargetQuestion, progress: RowsDone
) -> list[Target]:
    from nicscope.drivers.replay.page_numbering import common_alignment

    sizes = question.page_sizes
    with progress.round(rows, again=False) as watch:
        parts = nodes.each(watch, grains_of_share, question)
    alignments = {size: common_alignment([part[size] for part in parts]) for size in sizes}
    with progress.round(rows, again=True) as watch:
        found = nodes.each(watch, measure_share, question, alignments)
    return [
        _target(name, size, [one for part in found for one in part.pop(size)], question.share)
        for size in sizes
    ]


def _measured(
    batches: Iterable[RequestColumns], question: TargetQuestion, alignments: Mapping[int, Alignment]
) -> dict[int, list[Counted]]:
    """The lookups of every NIC, by page size."""
    sizes = question.page_sizes
    streams = {
        size: LookupStreams(size, [1], by_process=False, offset=False, alignment=alignments[size])
        for size in sizes
    }
    meters: dict[int, dict[Nic, Meter]] = {size: {} for size in sizes}
    for batch, is_first in parted(batches, question.skip):
        for size, stream in streams.items():
            those = meters[size]
            if is_first:  # of those that count
                stream.cut()
                for meter in those.values():
                    meter.skip()
            for lookups in stream.feed(batch):
                if lookups.nic not in those:
                    those[lookups.nic] = Meter(lookups.nic, NO_SETS, stream.group_bits(1))
                those[lookups.nic].feed(lookups)
    # One size after the other: what was counted with goes as soon as it is not needed.
    return {size: [meter.counted() for meter in meters.pop(size).values()] for size in sizes}


def grains_of_share(
    share: Share | Trace, question: TargetQuestion, done: Callable[[int], None]
) -> dict[int, Alignment]:
    """The page alignment (grain) of a share's requests by page size; reports rows."""
    batches = ShareDone(share, done).through()
    return grains_counted(batches, question.skip, question.page_sizes)


def measure_share(
    share: Share | Trace,
    question: TargetQuestion,
    alignments: Mapping[int, Alignment],
    done: Callable[[int], None],
) -> dict[int, list[Counted]]:
    """The lookups of the NICs of ``share``'s nodes, by page size; reports rows to ``done``."""
    return _measured(ShareDone(share, done).through(), question, alignments)


def _target(name: str, size: int, meters: list[Counted], share: float) -> Target:
    curves = [meter.curve for meter in meters]
    misses, group = every_size([curve.misses for curve in curves]), curves[0].group
    lookups = sum(meter.lookups for meter in meters)
    compulsory = sum(curve.compulsory for curve in curves)
    entries = _fewest(misses, group, share * lookups)
    steady = _fewest(misses, group, compulsory + share * (lookups - compulsory))
    return Target(
        trace=name,
        page_size=size,
        nics=len(meters),
        lookups=lookups,
        pages=sum(curve.footprint for curve in curves),
        compulsory=compulsory,
        entries=entries,
        misses=None if entries is None else _at(misses, group, entries),
        steady_entries=steady,
        cliff=_cliff(misses, group),
    )


def _at(misses: NDArray[np.int64], group: int, entries: int) -> int:
    return int(misses[min(entries // group, len(misses) - 1)])


def _fewest(misses: NDArray[np.int64], group: int, allowed: float) -> int | None:
    """The fewest entries with at most ``allowed`` misses; None if there is no such size."""
    found = bisect.bisect_left(misses, True, key=lambda missed: bool(missed <= allowed))
    return max(found * group, 1) if found < len(misses) else None


def _cliff(misses: NDArray[np.int64], group: int) -> Cliff | None:
    """The doubling that reduces misses most, if it is a large share of the whole reduction."""
    most = (len(misses) - 1) * group
    steps = np.exp2(np.arange(max(most, 1).bit_length() * PARTS) / PARTS).astype(np.int64)
    # And the one whose double holds all: a loop falls off there.
    entries = np.unique(np.concatenate([steps, np.maximum(most // 2, [1])]))
    before, after = (
        misses[np.minimum(those // group, len(misses) - 1)].astype(np.int64)
        for those in (entries, 2 * entries)
    )
    place = int(np.argmax(before - after))
    fall = int(before[place] - after[place])
    whole = _at(misses, group, 1) - int(misses[-1])
    if not fall or fall < CLIFF * whole:
        return None
    return Cliff(int(entries[place]), int(before[place]), int(after[place]))
