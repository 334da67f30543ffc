"""Exact miss-ratio curves of a trace, for every size at once: what ``nicscope curve`` reports.

Each node has a NIC of its own, so what is told of several nodes is the sum of their counts.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.drivers.onepass.curve import LruCurve
from nicscope.drivers.onepass.grid import SetAssociativeGrid, of_groups
from nicscope.drivers.onepass.recency import WIDTHS
from nicscope.drivers.onepass.sample import SampledCurve
from nicscope.errors import StudyError
from nicscope.room import check_room
from nicscope.studies.curve_question import USUAL_ENTRIES, fitting_entries
from nicscope.studies.curve_result import CurveReport, MissCurve, Point, Sample, Sizes
from nicscope.studies.sources import RowsDone, named, repeat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from nicscope.drivers.onepass.curve import Curve
    from nicscope.drivers.onepass.grid import Counts
    from nicscope.drivers.onepass.sample import Estimate
    from nicscope.drivers.replay.columns import RequestColumns
    from nicscope.drivers.replay.grain import Grain
    from nicscope.drivers.replay.lookups import Lookups, Nic
    from nicscope.studies.curve_question import Question
    from nicscope.traces.reader import Trace

WORD_BYTES = 4  # of a key in a set


class Span(NamedTuple):
    """Set counts and ways of the caches that are simulated; ``ways`` 0: none but the curve."""

    low: int  # log2 of the fewest sets
    high: int
    ways: int

    @property
    def bytes_each(self) -> int:
        """Memory of one NIC's sets."""
        if not self.ways:
            return 0
        width = next(width for width in WIDTHS if width >= self.ways)
        return ((2 << self.high) - (1 << self.low)) * width * WORD_BYTES


class Meter:
    """One NIC's lookups, counted exactly."""

    def __init__(self, nic: Nic, span: Span, group_bits: int = 0) -> None:
        """What is looked up are groups of 2**group_bits lines."""
        self.nic = nic
        self.lookups = 0  # of pages
        self._span = span
        self._group_bits = group_bits
        low, high = (max(bits - group_bits, 0) for bits in (span.low, span.high))
        self._grid = SetAssociativeGrid(high, span.ways, min_set_bits=low) if span.ways else None
        self._curve = LruCurve()

    def feed(self, lookups: Lookups) -> None:
        """Count some more lookups."""
        self.lookups += lookups.pages
        # Among groups those are left out that nobody misses, and how many they are is another.
        repeats = 0 if self._group_bits else lookups.repeats
        if self._grid is None:
            self._curve.feed(lookups.numbers, repeats)
        else:
            self._grid.feed(lookups.numbers, lookups.set_index, repeats)

    def skip(self) -> None:
        """Count only what comes from here on; what was looked up stays in the caches."""
        self.lookups = 0
        (self._grid or self._curve).skip()

    @property
    def footprint(self) -> int:
        """Lines that were looked up, also before those that count."""
        return self.counts()[0].footprint

    def counts(self) -> tuple[Curve, Counts | None]:
        """The fully associative caches, and the others if they were asked for."""
        if self._grid is None:
            return self._curve.result().of_groups(self._group_bits), None
        counts = of_groups(self._grid.result(), self._group_bits, self._span.low, self._span.high)
        assert counts.kinds is not None
        return counts.kinds.fully_associative, counts


class SamplingMeter:
    """One NIC's lookups, of which those of some pages are looked at."""

    def __init__(self, nic: Nic, rate: float, seed: int = 0) -> None:
        self.nic = nic
        self.lookups = 0  # of pages
        self._sampled = SampledCurve(rate, seed=seed)

    def feed(self, lookups: Lookups) -> None:
        """Count some more lookups."""
        self.lookups += lookups.pages
        self._sampled.feed(lookups.numbers)

    def skip(self) -> None:
        """Count only what comes from here on; what was looked up stays in the caches."""
        self.lookups = 0
        self._sampled.skip()

    @property
    def footprint(self) -> int:
        """Lines that were looked up, exactly, also before those that count."""
        return self.estimate([1]).footprint

    def estimate(self, capacities: Sequence[int] | NDArray[np.int64]) -> Estimate:
        """What caches with room for ``capacities`` lines each miss, about."""
        return self._sampled.result(np.asarray(capacities))


PARTS = 16  # sizes per doubling at which the fully associative curve is told


Meters = dict["Nic", Meter | SamplingMeter]


def report(
    traces: Sequence[tuple[str, Trace]],
    question: Question,
    command: Sequence[str] = (),
    watch: Callable[[int, int], None] | None = None,
) -> CurveReport:
    """Curves of the named ``traces`` one after the other; tells ``watch`` how many rows are done.

    ``command`` is passed on, for whoever wants to do it again.  Errors: ``TraceError`` at the
    first row that the schema does not allow, ``StudyError`` if memory would not do.
    """
    for name, trace in traces:
        if question.skip and question.skip >= trace.rows:
            raise StudyError(
                f"--skip {question.skip} leaves nothing of {name}, which has {trace.rows:,} "
                "requests; skip fewer"
            )
    progress = RowsDone(watch, sum(trace.rows for _, trace in traces))
    curves = []
    for name, trace in traces:
        page_size = question.page_size or trace.metadata.page_size
        passes = (progress.through(trace, again=number > 0) for number in itertools.count())
        curves += curves_of(name, passes.__next__, question, page_size)
    return CurveReport(
        traces=named(traces),
        curves=curves,
        repeat=repeat(command),
    )


def curves_of(
    name: str,
    read: Callable[[], Iterable[RequestColumns]],
    question: Question,
    page_size: int,
    grain: Grain | None = None,
) -> list[MissCurve]:
    """The curves of the requests that ``read`` gives, each time it is called, of trace ``name``.

    Without the ``grain`` of their runs it is looked for, which takes a pass of its own if there is.
    """
    if grain is None and question.sample is None:
        grain = _grain(read(), question, page_size)
    meters: Meters = _measure(read(), question, page_size, question.sample, grain)
    note = None
    if question.sample is not None:
        pointless = [nic for nic, meter in meters.items() if _is_pointless(meter)]
        if pointless:
            exact = set(pointless)
            every = len(exact) == len(meters)
            grain = grain or _grain(read(), question, page_size)
            meters |= _measure(read(), question, page_size, None, grain, exact, sets=every)
            note = _note(len(exact), len(meters), question)
    grouped: dict[tuple[int, int | None, int | None], list[Meter | SamplingMeter]] = {}
    for nic, meter in meters.items():
        node = None if question.by == "trace" else nic.node
        grouped.setdefault((nic.line, node, nic.pid), []).append(meter)
    counted = [key for key, some in grouped.items() if any(meter.lookups for meter in some)]
    keys = sorted(counted, key=lambda key: (key[1] or 0, key[2] or 0, key[0]))
    reach = max(nic.line * meter.footprint for nic, meter in meters.items())
    span = question.entries or fitting_entries(reach)
    return [_curve(name, grouped[key], key, question, page_size, span, note) for key in keys]


def _grain(batches: Iterable[RequestColumns], question: Question, page_size: int) -> Grain:
    """The grain of the runs of ``batches``, of which none reaches over what is skipped."""
    from nicscope.drivers.replay.grain import Grains

    by_process = question.by == "process"
    spread = question.offset and not by_process
    grains = Grains([page_size], by_process=by_process, spread=spread)
    for batch, is_first in _parted(batches, question.skip):
        if is_first:
            grains.cut()
        if not grains.feed(batch):
            break
    return grains.result()[page_size]


def _measure(
    batches: Iterable[RequestColumns],
    question: Question,
    page_size: int,
    rate: float | None,
    grain: Grain | None,
    only: set[Nic] | None = None,
    sets: bool = True,
) -> Meters:
    """A meter for every NIC, or those ``only``, fed with all batches; sampling if at a ``rate``."""
    from nicscope.drivers.replay.lookups import LookupStreams

    by_process = question.by == "process"
    streams = LookupStreams(
        page_size, question.lines, by_process=by_process, offset=question.offset, grain=grain
    )
    spans = {line: _span(question, line) if sets else Span(0, 0, 0) for line in question.lines}
    meters: Meters = {}
    taken = 0
    for batch, is_first in _parted(batches, question.skip):
        if is_first:  # of those that count
            streams.cut()
            for meter in meters.values():
                meter.skip()
        for lookups in streams.feed(batch):
            nic = lookups.nic
            if only is not None and nic not in only:
                continue
            if nic not in meters:
                if rate is None:
                    bits = streams.group_bits(nic.line)
                    taken += spans[nic.line].bytes_each >> bits
                    _check_memory(taken, len(meters))
                    meters[nic] = Meter(nic, spans[nic.line], bits)
                else:
                    meters[nic] = SamplingMeter(nic, rate, question.seed)
            meters[nic].feed(lookups)
    return meters


def _span(question: Question, line: int) -> Any:

    low, high = question.entries or (1, USUAL_ENTRIES)
    most, least = question.ways[-1], question.ways[0]
    top = high // line // least
    if not top:
        return Span(0, 0, 0)
    return Span(max(1, low // line // most).bit_length() - 1, top.bit_length() - 1, most)


def _parted(batches: Iterable[RequestColumns], skip: int) -> Iterator[tuple[RequestColumns, bool]]:
    """``batches``, one cut after ``skip`` requests, and whether each is the first behind that."""
    begin = 0
    for batch in batches:
        end = begin + len(batch.node)
        if begin < skip < end:
            yield _rows_of(batch, slice(0, skip - begin)), False
            batch = _rows_of(batch, slice(skip - begin, None))
        yield batch, bool(skip) and begin <= skip < end
        begin = end


def _rows_of(batch: RequestColumns, rows: slice) -> Any:
    return type(batch)(*(column[rows] for column in batch))  # type: ignore[attr-defined]


def _check_memory(taken: int, nics: int) -> None:
    """Errors: ``RoomError`` if the sets of so many NICs and one more do not fit."""
    check_room(
        taken,
        f"the sets of the caches of {nics + 1} NIC{'s' if nics else ''}",
        "narrow --entries, --ways or --line, or leave out --by",
    )


def _is_pointless(meter: Meter | SamplingMeter) -> bool:

    return isinstance(meter, SamplingMeter) and meter.estimate([1]).is_pointless


def _note(pointless: int, nics: int, question: Question) -> str:
    if pointless == nics:
        return f"too few pages to sample at {question.sample:g}, so all were counted: exact"
    return f"too few pages to sample on {pointless} of {nics} NICs, whose counts are exact"


def _curve(
    name: str,
    meters: list[Meter | SamplingMeter],
    key: tuple[int, int | None, int | None],
    question: Question,
    page_size: int,
    span: tuple[int, int],
    note: str | None,
) -> MissCurve:
    """The sum of what ``meters`` counted."""
    line, node, pid = key
    exact = [meter.counts() for meter in meters if isinstance(meter, Meter)]
    sampling = [meter for meter in meters if not isinstance(meter, Meter)]
    estimates = [meter.estimate([1]) for meter in sampling]
    found: list[Curve | Estimate] = [*(curve for curve, _ in exact), *estimates]
    group = min((curve.group for curve, _ in exact), default=1)
    every = None if sampling else _every_size([curve.misses for curve, _ in exact])
    entries = _sizes(span, line)
    misses = np.zeros((3, len(entries)))
    for curve, _ in exact:
        misses += curve.misses_at(entries // line)
    for meter in sampling:
        estimate = meter.estimate(entries // line)
        bands = np.stack([estimate.miss_ratio, estimate.low, estimate.high])
        misses += bands * estimate.lookups
    sample = None
    if sampling:
        assert question.sample is not None
        sample = Sample(
            question.sample,
            question.seed,
            sum(estimate.sampled_keys for estimate in estimates),
            sum(estimate.sampled_lookups for estimate in estimates),
        )
    return MissCurve(
        trace=name,
        node=node,
        pid=pid,
        line=line,
        page_size=page_size,
        nics=len(meters),
        lookups=sum(meter.lookups for meter in meters),
        footprint=sum(one.footprint for one in found),
        compulsory=sum(one.compulsory for one in found),
        skipped=question.skip,
        span=span,
        points=_points([counts for _, counts in exact if counts], question.ways, line, span),
        sizes=Sizes(entries, *misses),
        every_size=every,
        group=group,
        sample=sample,
        note=note,
    )


def _every_size(curves: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Add up curves, each of which goes on as it ends."""
    total = np.zeros(max(map(len, curves)), np.int64)
    for curve in curves:
        total[: len(curve)] += curve
        total[len(curve) :] += curve[-1]
    return total


def _sizes(span: tuple[int, int], line: int) -> NDArray[np.int64]:
    """Multiples of ``line`` over ``span``: all, or ``PARTS`` per doubling; its ends among them."""
    low, high = max(span[0], line), max(span[1], line)
    doublings = (high // low).bit_length() - 1
    steps = np.exp2(np.arange(doublings * PARTS + 1) / PARTS) * (low // line)
    return np.unique(np.round(steps).astype(np.int64)) * line


def _points(
    counts: list[Any], ways: Sequence[int], line: int, span: tuple[int, int]
) -> list[Point]:
    """Every shape within ``span``, by ways and then entries; counts added up."""
    if not counts:
        return []
    first, sets = int(counts[0].set_bits[0]), len(counts[0].set_bits)
    misses = sum(each.misses for each in counts)
    capacity = sum(each.kinds.capacity for each in counts)
    conflict = sum(each.kinds.conflict for each in counts)
    compulsory = sum(each.kinds.fully_associative.compulsory for each in counts)
    points = []
    for way in ways:
        for row in range(sets):
            entries = (way * line) << (first + row)
            if span[0] <= entries <= span[1]:
                place = (row, way - 1)
                parts = (compulsory, int(capacity[place]), int(conflict[place]))
                points.append(Point(entries, way, int(misses[place]), *parts))
    return points
