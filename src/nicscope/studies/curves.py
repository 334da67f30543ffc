"""Miss-ratio curves of traces: options, passes over the trace, and results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from nicscope.config.design import Scheme, read_setting
from nicscope.drivers.onepass.curve import Curve, LruCurve
from nicscope.drivers.onepass.grid import WIDTHS, Counts, SetAssociativeGrid, of_groups
from nicscope.drivers.onepass.sample import Estimate, SampledCurve
from nicscope.errors import StudyError, did_you_mean
from nicscope.memory_limit import check_memory
from nicscope.studies.sources import RowsDone, ShareDone, check_skip, grains_counted, named, parted
from nicscope.studies.workers import Nodes, Workers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from nicscope.drivers.replay.columns import RequestColumns
    from nicscope.drivers.replay.lookups import Lookups, Nic
    from nicscope.drivers.replay.page_numbering import Alignment
    from nicscope.traces.folders import Share
    from nicscope.traces.reader import Trace

MOST_ENTRIES = 1 << 26  # as of a design
USUAL_ENTRIES = 1 << 16  # of caches with sets, unless more are asked for
MOST_WAYS = 16
MOST_LINE = 128
MOST_SEED = 2**62
WAYS = (1, 2, 4, 8)
BY = ("trace", "node", "process")


class Question(NamedTuple):
    """The curves to compute."""

    ways: tuple[int, ...] = WAYS  # ascending
    lines: tuple[int, ...] = (1,)  # pages, ascending
    entries: tuple[int, int] | None = None  # least and most; None: as the footprint suggests
    by: str = "trace"
    sample: float | None = None  # the share of pages to sample
    offset: bool = True
    page_size: int | None = None  # None: the trace's
    seed: int = 0  # which pages are sampled
    skip: int = 0  # requests that only fill the caches


def ask(
    *,
    ways: str | None = None,
    line: str = "1",
    entries: str | None = None,
    by: str = "trace",
    sample: float | None = None,
    seed: int | None = None,
    offset: bool = True,
    page_size: str | None = None,
    skip: int = 0,
) -> Question:
    """Parse and check the options.

    Errors: ``StudyError`` for the first word that makes no sense, ``DesignError`` for a page size.
    """
    if by not in BY:
        raise StudyError(f"no curves by {by!r}{did_you_mean(by, BY)}")
    if sample is not None and not 0 < sample <= 1:
        raise StudyError(f"--sample must be above 0 and at most 1, got {sample!r}")
    if sample is not None and ways is not None:
        raise StudyError("--ways cannot be sampled: sets need every lookup; leave out one of both")
    if seed is not None and sample is None:
        raise StudyError("--seed says which pages are sampled; give --sample, or leave it out")
    if seed is not None and not 0 <= seed <= MOST_SEED:
        raise StudyError(f"--seed must be from 0 to {MOST_SEED}, got {seed!r}")
    if skip < 0:
        raise StudyError(f"--skip must be a number of requests, 0 or more, got {skip}")
    size = None
    if page_size is not None:
        size = read_setting(Scheme.UTLB, "page_size", page_size, "--page-size")
        assert size is None or isinstance(size, int)
    span = None if entries is None else _span_of_sizes(entries)
    lines = _powers("--line", line, MOST_LINE)
    if span is not None and lines[-1] > span[1]:
        raise StudyError(f"a line of {lines[-1]} pages does not fit in {span[1]} entries")
    listed = WAYS if ways is None else _powers("--ways", ways, MOST_WAYS)
    return Question(listed, lines, span, by, sample, offset, size, seed or 0, skip)


def _is_power(number: int) -> bool:
    return number > 0 and not number & (number - 1)


def _powers(option: str, text: str, most: int) -> tuple[int, ...]:
    """Powers of two up to ``most`` in a list such as ``1,2,4``; each once, ascending."""
    found = set()
    for word in text.split(","):
        number = _whole(word)
        if number is None or not _is_power(number) or number > most:
            raise StudyError(
                f"{option} must list powers of two from 1 to {most}, such as 1,2,4; got {word!r}"
            )
        found.add(number)
    return tuple(sorted(found))


def _span_of_sizes(text: str) -> tuple[int, int]:
    """The ends of a range such as ``256..65536``; a single number is both."""
    low, dots, high = text.partition("..")
    ends = _whole(low), _whole(high if dots else low)
    for end in ends:
        if end is None or not _is_power(end) or end > MOST_ENTRIES:
            raise StudyError(
                f"--entries must be two powers of two from 1 to {MOST_ENTRIES}, "
                f"such as 256..65536; got {text!r}"
            )
    least, most = ends
    assert least is not None
    assert most is not None
    if least > most:
        raise StudyError(f"--entries must ascend, such as {most}..{least}; got {text!r}")
    return least, most


def _whole(word: str) -> int | None:
    word = word.strip()
    return int(word) if word.isascii() and word.isdecimal() else None


def default_entries(footprint: int) -> tuple[int, int]:
    """A range of entries in which most of the curve changes, for ``footprint`` pages.

    256 to 65536, or to where all pages are held, for all but small footprints; for these, 1/32 of
    it to four times as many.
    """
    power = 1 << max(footprint - 1, 0).bit_length()
    if power >= 1 << 13:
        return 1 << 8, min(max(power, USUAL_ENTRIES), MOST_ENTRIES)
    return max(1, power >> 5), max(8, power << 2)


# Assumed: a curve that bends less, as a share of what it falls, has no knee worth a mark.
LEAST_BEND = 0.1


def knee(entries: NDArray[np.int64], misses: NDArray[np.float64]) -> int | None:
    """The size at which doubling begins to buy less; None if the curve hardly bends.

    Where the curve, over log2 of the ascending ``entries``, lies furthest below the straight
    line between its ends.  Source: V. Satopaa, J. Albrecht, D. Irwin and B. Raghavan, "Finding a
    kneedle in a haystack", ICDCS workshops 2011, without its smoothing: the curve is exact.
    """
    fall = float(misses[0] - misses[-1]) if len(misses) else 0.0
    if len(entries) < 3 or fall <= 0:
        return None
    doublings = np.log2(entries)
    along = (doublings - doublings[0]) / (doublings[-1] - doublings[0])
    below = 1 - along - (misses - misses[-1]) / fall
    furthest = int(np.argmax(below))
    return int(entries[furthest]) if below[furthest] >= LEAST_BEND else None


# What outputs call numbers of misses; the rest is called as it is here.
NAMES = {
    "misses": "ni_misses",
    "low": "ni_misses_low",
    "high": "ni_misses_high",
    "compulsory": "ni_misses_compulsory",
    "capacity": "ni_misses_capacity",
    "conflict": "ni_misses_conflict",
}


def by_output_name(numbers: dict[str, Any]) -> dict[str, Any]:
    """``numbers`` under the names of the outputs."""
    return {NAMES.get(name, name): value for name, value in numbers.items()}


class Point(NamedTuple):
    """The misses of one set-associative cache: compulsory + capacity + conflict."""

    entries: int
    ways: int
    misses: int
    compulsory: int
    capacity: int
    conflict: int


class Sizes(NamedTuple):
    """The misses of fully associative caches; each of shape (sizes,), by ascending size."""

    entries: NDArray[np.int64]
    misses: NDArray[np.float64]  # whole numbers unless estimated
    low: NDArray[np.float64]  # as misses, if exact
    high: NDArray[np.float64]

    def at(self, entries: int) -> float:
        """The misses with ``entries``, one of the sizes."""
        return float(self.misses[np.searchsorted(self.entries, entries)])


class Sample(NamedTuple):
    """The share of the lookups that an estimate is based on."""

    rate: float
    seed: int
    keys: int
    lookups: int


class MissCurve(msgspec.Struct, frozen=True, kw_only=True):
    """The caches of one trace, node or process, for one line length."""

    trace: str
    node: int | None  # None: all
    pid: int | None  # None: all
    line: int  # pages
    page_size: int
    nics: int
    lookups: int
    footprint: int  # lines that were looked up, also by requests that were skipped
    compulsory: int  # first lookups of a line among those that count
    skipped: int  # requests of the trace that only filled the caches
    span: tuple[int, int]  # least and most entries
    points: list[Point]
    sizes: Sizes  # over the span
    # Misses with room for 0, 1, ... groups of lines; None: estimated.
    every_size: NDArray[np.int64] | None
    group: int  # lines that are always looked up together, of which a cache has all or none
    sample: Sample | None
    note: str | None

    @property
    def knee(self) -> int | None:
        """Entries beyond which the fully associative curve gets flatter; None: hardly bends."""
        return knee(self.sizes.entries, self.sizes.misses)

    @property
    def name(self) -> str:
        """What the curve is of, in a few words."""
        parts = [self.trace]
        if self.node is not None:
            parts.append(f"node {self.node}")
        if self.pid is not None:
            parts.append(f"process {self.pid}")
        return " ".join(parts) + (f", lines of {self.line}" if self.line > 1 else "")

    def ratio(self, misses: float) -> float:
        """``misses`` per lookup."""
        return misses / self.lookups if self.lookups else 0.0

    def powers(self) -> list[int]:
        """The powers of two among its sizes."""
        low, high = self.span
        return [
            1 << bits
            for bits in range(high.bit_length())
            if max(low, self.line) <= 1 << bits <= high
        ]

    def to_json(self) -> dict[str, Any]:
        """Everything but ``every_size`` and what it is told by."""
        whole = self.sample is None
        columns = self.sizes if not whole else self.sizes[:2]
        names = Sizes._fields[: len(columns)]
        lists = {
            name: [int(x) if whole or name == "entries" else round(float(x), 3) for x in column]
            for name, column in zip(names, columns, strict=True)
        }
        return {
            "trace": self.trace,
            "node": self.node,
            "pid": self.pid,
            "line_pages": self.line,
            "page_size_bytes": self.page_size,
            "nics": self.nics,
            "lookups": self.lookups,
            "footprint_lines": self.footprint,
            "ni_misses_compulsory": self.compulsory,
            "skipped_requests": self.skipped,
            "knee_entries": self.knee,
            "fully_associative": by_output_name(lists),
            "set_associative": [by_output_name(point._asdict()) for point in self.points],
            "sample": None if self.sample is None else self.sample._asdict(),
            "note": self.note,
        }


class CurveReport(msgspec.Struct, frozen=True, kw_only=True):
    """Curves of some traces."""

    traces: list[dict[str, Any]]
    curves: list[MissCurve]

    def to_json(self) -> dict[str, Any]:
        """One object for programs."""
        curves = [curve.to_json() for curve in self.curves]
        return {"traces": self.traces, "curves": curves}


PARTS = 16  # sizes per doubling at which the fully associative curve is told
WORD_BYTES = 4  # of a key in a set


class Span(NamedTuple):
    """Set counts and ways of the simulated caches; ``ways`` 0: only the curve."""

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
    """An exact meter of one NIC's lookups."""

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
        """Reset the counts: earlier lookups only warm the caches."""
        self.lookups = 0
        (self._grid or self._curve).skip()

    def counted(self) -> Counted:
        """The result, after which the meter's state is gone."""
        if self._grid is None:
            curve = self._curve.taken().of_groups(self._group_bits)
            return Counted(self.nic, self.lookups, curve, None)
        found, span = self._grid.result(last=True), self._span
        counts = of_groups(found, self._group_bits, span.low, span.high)
        assert counts.kinds is not None
        return Counted(self.nic, self.lookups, counts.kinds.fully_associative, counts)


class Counted(NamedTuple):
    """The result of a ``Meter``."""

    nic: Nic
    lookups: int  # of pages
    curve: Curve
    grid: Counts | None

    @property
    def footprint(self) -> int:
        """Distinct lines looked up, including those before the reset."""
        return self.curve.footprint

    def counts(self) -> tuple[Curve, Counts | None]:
        """Misses of fully associative caches, and of the others if asked for."""
        return self.curve, self.grid


class SamplingMeter:
    """A meter that samples one NIC's lookups by page."""

    def __init__(self, nic: Nic, rate: float, seed: int = 0) -> None:
        self.nic = nic
        self.lookups = 0  # of pages
        self._sampled = SampledCurve(rate, seed=seed)

    def feed(self, lookups: Lookups) -> None:
        """Count some more lookups."""
        self.lookups += lookups.pages
        self._sampled.feed(lookups.numbers)

    def skip(self) -> None:
        """Reset the counts: earlier lookups only warm the caches."""
        self.lookups = 0
        self._sampled.skip()

    @property
    def footprint(self) -> int:
        """Distinct lines looked up, exactly, including those before the reset."""
        return self.estimate([1]).footprint

    def estimate(self, capacities: Sequence[int] | NDArray[np.int64]) -> Estimate:
        """Estimated misses of caches of ``capacities`` lines each."""
        return self._sampled.result(np.asarray(capacities))


Meters = dict["Nic", Counted | SamplingMeter]


def report(
    traces: Sequence[tuple[str, Trace]],
    question: Question,
    watch: Callable[[int, int], None] | None = None,
    workers: Workers | None = None,
) -> CurveReport:
    """Curves of the named ``traces`` one after the other; tells ``watch`` how many rows are done.

    The nodes of folders of files are shared out among ``workers``, if there are any.  Errors:
    ``TraceError`` at the first row that the schema does not allow, ``StudyError`` if memory would
    not do.
    """
    check_skip(question.skip, traces)
    progress = RowsDone(watch, sum(trace.rows for _, trace in traces))
    curves = []
    for name, trace in traces:
        measuring = _of_nodes(Nodes(trace, workers), trace, question, progress)
        curves += _curves(name, measuring, question)
    return CurveReport(
        traces=named(traces),
        curves=curves,
    )


def curves_of(
    name: str,
    read: Callable[[], Iterable[RequestColumns]],
    question: Question,
    page_size: int,
    alignment: Alignment | None = None,
) -> list[MissCurve]:
    """Curves of the requests that ``read`` yields anew at each call, of trace ``name``.

    Without the ``alignment`` of their runs it is determined by a pass of its own, if there is one.
    """
    runs = alignment

    def measure(wanted: WantedMeters) -> Meters:
        nonlocal runs
        if runs is None and wanted.rate is None:
            runs = _grain(read(), question, page_size)
        return _measure(read(), question, page_size, wanted, runs)

    return _curves(name, Measuring(measure, page_size), question)


class WantedMeters(NamedTuple):
    """Which meters a pass over a trace updates."""

    rate: float | None  # to sample at; None: all is counted
    only: frozenset[Nic] | None = None  # None: every NIC
    sets: bool = True  # whether caches with sets are simulated


class Measuring(NamedTuple):
    """How a trace is measured, and its page size."""

    measure: Callable[[WantedMeters], Meters]
    page_size: int


def _of_nodes(nodes: Nodes, trace: Trace, question: Question, progress: RowsDone) -> Measuring:
    """Measuring of all ``nodes`` of ``trace``, whoever does it."""
    from nicscope.drivers.replay.page_numbering import common_alignment

    page_size = question.page_size or trace.metadata.page_size
    runs: Alignment | None = None
    again = False

    def asked(call: Callable[..., Any], *more: Any) -> list[Any]:
        """What ``call`` makes of each share, in a pass over all rows."""
        nonlocal again
        with progress.round(trace.rows, again=again) as watch:
            again = True
            return nodes.each(watch, call, question, page_size, *more)

    def measure(wanted: WantedMeters) -> Meters:
        nonlocal runs
        if wanted.rate is None and runs is None:
            # One of all nodes: curves of several are added up size by size.
            runs = common_alignment(asked(grain_of_share))
        found: Meters = {}
        for part in asked(measure_share, wanted, runs):
            found |= part
        return found

    return Measuring(measure, page_size)


def grain_of_share(
    share: Share | Trace, question: Question, page_size: int, done: Callable[[int], None]
) -> Alignment:
    """The page alignment (grain) of a share's requests; reports rows to ``done``."""
    return _grain(ShareDone(share, done).through(), question, page_size)


def measure_share(
    share: Share | Trace,
    question: Question,
    page_size: int,
    wanted: WantedMeters,
    alignment: Alignment | None,
    done: Callable[[int], None],
) -> Meters:
    """Measure the NICs of the nodes of ``share``; reports rows to ``done``."""
    batches = ShareDone(share, done).through()
    return _measure(batches, question, page_size, wanted, alignment)


def _curves(name: str, measuring: Measuring, question: Question) -> list[MissCurve]:
    measure, page_size = measuring
    meters = measure(WantedMeters(question.sample))
    note = None
    if question.sample is not None:
        exact = frozenset(nic for nic, meter in meters.items() if _samples_nothing(meter))
        if exact:
            every = len(exact) == len(meters)
            meters |= measure(WantedMeters(None, exact, every))
            note = _note(len(exact), len(meters), question)
    grouped: dict[tuple[int, int | None, int | None], list[Counted | SamplingMeter]] = {}
    # In one order, as estimates are added up.
    for nic, meter in sorted(meters.items(), key=lambda one: (one[0].node, one[0].pid or 0)):
        node = None if question.by == "trace" else nic.node
        grouped.setdefault((nic.line, node, nic.pid), []).append(meter)
    counted = [key for key, some in grouped.items() if any(meter.lookups for meter in some)]
    keys = sorted(counted, key=lambda key: (key[1] or 0, key[2] or 0, key[0]))
    reach = max(nic.line * meter.footprint for nic, meter in meters.items())
    span = question.entries or default_entries(reach)
    return [_curve(name, grouped[key], key, question, page_size, span, note) for key in keys]


def _grain(batches: Iterable[RequestColumns], question: Question, page_size: int) -> Alignment:
    by_process = question.by == "process"
    spread = question.offset and not by_process
    found = grains_counted(
        batches, question.skip, [page_size], by_process=by_process, spread=spread
    )
    return found[page_size]


def _measure(
    batches: Iterable[RequestColumns],
    question: Question,
    page_size: int,
    wanted: WantedMeters,
    alignment: Alignment | None,
) -> Meters:
    """Measure every ``wanted`` NIC over all batches."""
    from nicscope.drivers.replay.lookups import LookupStreams

    rate, only, sets = wanted
    by_process = question.by == "process"
    streams = LookupStreams(
        page_size,
        question.lines,
        by_process=by_process,
        offset=question.offset,
        alignment=alignment,
    )
    spans = {line: _span(question, line) if sets else Span(0, 0, 0) for line in question.lines}
    meters: dict[Nic, Meter | SamplingMeter] = {}
    taken = 0
    for batch, is_first in parted(batches, question.skip):
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
    return {
        nic: meter.counted() if isinstance(meter, Meter) else meter for nic, meter in meters.items()
    }


def _span(question: Question, line: int) -> Any:
    low, high = question.entries or (1, USUAL_ENTRIES)
    most, least = question.ways[-1], question.ways[0]
    top = high // line // least
    if not top:
        return Span(0, 0, 0)
    return Span(max(1, low // line // most).bit_length() - 1, top.bit_length() - 1, most)


def _check_memory(taken: int, nics: int) -> None:
    """Errors: ``RoomError`` if the sets of another NIC would not fit into memory."""
    check_memory(
        taken,
        f"the sets of the caches of {nics + 1} NIC{'s' if nics else ''}",
        "narrow --entries, --ways or --line, or leave out --by",
    )


def _samples_nothing(meter: Counted | SamplingMeter) -> bool:
    return isinstance(meter, SamplingMeter) and meter.estimate([1]).is_pointless


def _note(pointless: int, nics: int, question: Question) -> str:
    if pointless == nics:
        return f"too few pages to sample at {question.sample:g}, so all were counted: exact"
    return f"too few pages to sample on {pointless} of {nics} NICs, whose counts are exact"


def _curve(
    name: str,
    meters: list[Counted | SamplingMeter],
    key: tuple[int, int | None, int | None],
    question: Question,
    page_size: int,
    span: tuple[int, int],
    note: str | None,
) -> MissCurve:
    """The sum over ``meters``."""
    line, node, pid = key
    exact = [meter.counts() for meter in meters if isinstance(meter, Counted)]
    sampling = [meter for meter in meters if not isinstance(meter, Counted)]
    estimates = [meter.estimate([1]) for meter in sampling]
    found: list[Curve | Estimate] = [*(curve for curve, _ in exact), *estimates]
    group = min((curve.group for curve, _ in exact), default=1)
    every = None if sampling else every_size([curve.misses for curve, _ in exact])
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


def every_size(curves: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Sum curves, each extended by its last value; one alone stays as it is."""
    if len(curves) == 1:
        return curves[0]
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
