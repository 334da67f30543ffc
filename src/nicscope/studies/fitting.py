"""Fits cache shapes to the counters of a NIC over a trace."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from nicscope.config.glossary import known_counter, why_not
from nicscope.config.quantities import BYTE_SPELLINGS, read_bytes
from nicscope.errors import StudyError
from nicscope.studies.curves import MOST_ENTRIES, MissCurve, Question, ask
from nicscope.studies.sources import parted, repeat

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from nicscope.drivers.onepass.drawn import KeptLookups
    from nicscope.drivers.replay.columns import RequestColumns
    from nicscope.drivers.replay.lookups import Nic
    from nicscope.traces.reader import Trace

FULL = 0  # ways of a cache without sets
LRU, RANDOM = "lru", "random"
MOST_DRAWN = 1 << 22  # lookups over which random caches are run
MOST_RANDOM = 1 << 16  # entries of these
PARTS = 8  # sizes of them for each doubling
_SEED = 1


class Explained(NamedTuple):
    """Caches of one shape: those that match all counts, or the nearest one."""

    replacement: str
    line: int  # entries that come together
    ways: int  # FULL: any
    low: int  # entries
    high: int
    best: int
    ratios: tuple[float, ...]  # of misses of the best one, count by count
    off: float  # of the best one: the furthest, in what is left open; up to 1 it explains

    @property
    def explains(self) -> bool:
        """Whether the shape matches within the counters' tolerance."""
        return self.off <= 1


def random_shapes(
    kept: Sequence[dict[Nic, KeptLookups]],
    line: int,
    ways: Sequence[int],
    counted: Sequence[Counted],
    tolerance: float,
    ends: Any,
) -> list[Explained]:
    """Fit caches with random replacement; ``kept``: the lookups of each count."""
    pages = max(sum(one.footprint for one in nics.values()) for nics in kept)
    low, high = ends or (1, MOST_RANDOM)
    most = min(high // line, MOST_RANDOM, 2 * pages)
    found = []
    for way in (FULL, *ways):
        if way == 1:
            continue  # there is one place only, whoever chooses
        sizes = [size for size in _sizes(most, way) if way <= size and low <= size * line <= high]
        tried = []
        for size in sizes:
            ratios = tuple(
                sum(one.misses(size, way, _SEED) for one in nics.values())
                / max(1, sum(one.pages for one in nics.values()))
                for nics in kept
            )
            tried.append((off_by(ratios, counted, tolerance), size * line, ratios))
        if tried:
            found.append(_matching_range(RANDOM, line, way, tried, step=line))
    return found


def lookups_by_count(
    parts: Iterable[tuple[RequestColumns, bool]], question: Question, page_size: int, line: int
) -> dict[Nic, KeptLookups]:
    """The lookups of each NIC, in lines of so many pages; ``parts``: as ``parted`` has them."""
    from nicscope.drivers.onepass.drawn import KeptLookups
    from nicscope.drivers.replay.lookups import LookupStreams

    streams = LookupStreams(page_size, [line], by_process=False, offset=question.offset)
    kept: dict[Nic, KeptLookups] = {}
    for batch, is_first in parts:
        if is_first:
            streams.cut()
            for one in kept.values():
                one.skip()
        for lookups in streams.feed(batch):
            kept.setdefault(lookups.nic, KeptLookups()).feed(lookups)
    return kept


def _sizes(most: int, ways: int) -> list[int]:
    """Lines of caches that are tried: powers of two with sets, else eight for each doubling."""
    doublings = max(most, 1).bit_length()
    if ways:
        return [1 << bits for bits in range(doublings + 1)]
    steps = np.exp2(np.arange(doublings * PARTS + 1) / PARTS)
    return [int(size) for size in np.unique(np.round(steps))]


def off_by(ratios: Sequence[float], counted: Sequence[Counted], tolerance: float) -> float:
    """The largest deviation of ``ratios``, in units of its count's tolerance."""
    return max(
        abs(ratio - one.ratio) / max(one.open(tolerance), 0.5 / one.lookups)
        for ratio, one in zip(ratios, counted, strict=True)
    )


def _full(
    curves: Sequence[MissCurve],
    counted: Sequence[Counted],
    tolerance: float,
    least: int,
    most: int,
) -> Explained:
    """Fit fully associative LRU caches: every size is tried."""
    every = [curve.every_size for curve in curves]
    longest = max(len(one) for one in every if one is not None)
    line = curves[0].line
    first, last = max(1, -(-least // line)), most // line
    sizes = np.arange(first, max(first + 1, min(last + 1, longest)))
    ratios = np.stack(
        [
            one[np.minimum(sizes, len(one) - 1)] / max(curve.lookups, 1)
            for one, curve in zip(every, curves, strict=True)
            if one is not None
        ]
    )
    target = np.array([[one.ratio] for one in counted])
    slack = np.array([[max(one.open(tolerance), 0.5 / one.lookups)] for one in counted])
    off = (np.abs(ratios - target) / slack).max(axis=0)
    best = int(off.argmin())
    within = np.flatnonzero(off <= 1)
    low, high = (int(within[0]), int(within[-1])) if len(within) else (best, best)
    # More entries than there are pages make no difference.
    top = most if len(within) and high == len(sizes) - 1 else int(sizes[high]) * line
    return Explained(
        LRU,
        line,
        FULL,
        int(sizes[low]) * line,
        top,
        int(sizes[best]) * line,
        tuple(ratios[:, best].tolist()),
        float(off[best]),
    )


def _with_sets(
    curves: Sequence[MissCurve], counted: Sequence[Counted], tolerance: float
) -> list[Explained]:
    """Fit set-associative LRU caches of each number of ways."""
    found: dict[int, list[tuple[float, int, tuple[float, ...]]]] = {}
    misses = [{(one.entries, one.ways): one.misses for one in curve.points} for curve in curves]
    for entries, ways in misses[0]:
        if all((entries, ways) in each for each in misses):
            ratios = tuple(
                each[entries, ways] / max(curve.lookups, 1)
                for each, curve in zip(misses, curves, strict=True)
            )
            found.setdefault(ways, []).append((off_by(ratios, counted, tolerance), entries, ratios))
    return [_matching_range(LRU, curves[0].line, ways, tried) for ways, tried in found.items()]


def _matching_range(
    replacement: str,
    line: int,
    ways: int,
    tried: list[tuple[float, int, tuple[float, ...]]],
    step: int = 0,
) -> Explained:
    """The range of sizes that match the counts, or the nearest size.

    Without sets any size may be, so that those between one that does and one that does not are
    left open; ``step``: of such sizes.
    """
    off, best, ratios = min(tried)
    places = [place for place, (each, _, _) in enumerate(tried) if each <= 1]
    if not places:
        return Explained(replacement, line, ways, best, best, best, ratios, off)
    first, last = places[0], places[-1]
    low, high = tried[first][1], tried[last][1]
    if ways == FULL and first:
        low = tried[first - 1][1] + step
    if ways == FULL:
        high = MOST_ENTRIES if last == len(tried) - 1 else tried[last + 1][1] - step
    return Explained(replacement, line, ways, low, high, best, ratios, off)


WAYS = "1,2,4,8,16"
MOST_COUNT = 1 << 62
_SPREAD = 2  # standard deviations that chance may add


class Counted(NamedTuple):
    """A NIC's counts over the traffic, for one page size."""

    page_size: int | None  # None: the trace's
    hits: int
    misses: int

    @property
    def lookups(self) -> int:
        """All lookups."""
        return self.hits + self.misses

    @property
    def ratio(self) -> float:
        """Misses per lookup."""
        return self.misses / self.lookups

    def open(self, tolerance: float) -> float:
        """The tolerance of a miss ratio: statistical error, and a share of the ratio."""
        chance = math.sqrt(self.ratio * (1 - self.ratio) / self.lookups)
        return _SPREAD * chance + tolerance * self.ratio


class FitReport(msgspec.Struct, frozen=True, kw_only=True):
    """Every shape of cache, and how well it matches the counts."""

    trace: str
    cache: str
    counted: list[Counted]
    page_sizes: list[int]
    lookups: list[int]  # of the trace, count by count
    footprints: list[int]
    tolerance: float
    shapes: list[Explained]
    random_tried: bool  # or the trace was too long
    unused: dict[str, str]
    repeat: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """All of it as plain values."""
        return {
            "trace": self.trace,
            "cache": self.cache,
            "tolerance": self.tolerance,
            "counts": [
                {
                    "page_size_bytes": size,
                    "hits": one.hits,
                    "misses": one.misses,
                    "miss_ratio": one.ratio,
                    "miss_ratio_open": one.open(self.tolerance),
                    "trace_lookups": lookups,
                    "footprint": footprint,
                }
                for one, size, lookups, footprint in zip(
                    self.counted, self.page_sizes, self.lookups, self.footprints, strict=True
                )
            ],
            "shapes": [
                {
                    "replacement": one.replacement,
                    "line": one.line,
                    "ways": "full" if one.ways == FULL else one.ways,
                    "explains": one.explains,
                    "entries_low": one.low,
                    "entries_high": one.high,
                    "entries_best": one.best,
                    "miss_ratios": list(one.ratios),
                    "off": one.off,
                }
                for one in self.shapes
            ],
            "random_tried": self.random_tried,
            "unused": self.unused,
            "repeat": self.repeat,
        }


def read_counters(plain: Any, called: str) -> tuple[str, list[Counted], dict[str, str]]:
    """Parse counters: their cache, the counts, and which are ignored and why.

    ``plain``: an object of names and numbers, with ``page_size`` if it is not the trace's, or a
    list of such.  Errors: ``StudyError`` naming what is wrong.
    """
    objects = plain if isinstance(plain, list) else [plain]
    if not objects or not all(isinstance(one, dict) for one in objects):
        raise StudyError(f'{called}: must be an object such as {{"hits": 900, "misses": 100}}')
    counted, caches, unused = [], set(), {}
    for number, one in enumerate(objects, 1):
        where = f"{called}: count {number}" if len(objects) > 1 else called
        found: dict[str, dict[bool, int]] = {}
        for name, value in one.items():
            if name == "page_size":
                continue
            known = known_counter(name)
            if known is None:
                unused[name] = why_not(name) or "no counter of a translation cache"
            else:
                found.setdefault(known[0], {})[known[1]] = _count(name, value, where)
        if len(found) != 1 or len(*found.values()) != 2:
            raise StudyError(f"{where}: needs hits and misses of one cache; {_HOW}")
        [(cache, both)] = found.items()
        if not sum(both.values()):
            raise StudyError(f"{where}: counted no lookup")
        caches.add(cache)
        counted.append(Counted(_page(one.get("page_size"), where), both[True], both[False]))
    if len(caches) > 1:
        raise StudyError(f"{called}: counts of {' and '.join(sorted(caches))}; fit one at a time")
    return caches.pop(), counted, unused


_HOW = "name them hits and misses, l0_mtt_hit and l0_mtt_miss, or as Neo-Host does"


def _count(name: str, value: Any, where: str) -> int:
    if type(value) is not int or not 0 <= value <= MOST_COUNT:
        raise StudyError(f"{where}: {name} must be a whole number, got {value!r}")
    return value


def _page(given: Any, where: str) -> int | None:
    if given is None:
        return None
    size = read_bytes(given) if isinstance(given, str) else given
    if type(size) is not int or size < 1:
        raise StudyError(f"{where}: page_size must be bytes, {BYTE_SPELLINGS}; got {given!r}")
    return size


def fit(
    name: str,
    trace: Trace,
    called: str,
    counters: Any,
    *,
    tolerance: float = 0.01,
    entries: str | None = None,
    skip: int = 0,
    line: str = "1,8",
    command: Sequence[str] = (),
    watch: Callable[[int, int], None] | None = None,
) -> FitReport:
    """Fit caches to ``counters`` over the traffic of ``trace``.

    ``line``: entries that a cache fetches together, one number or several.
    ``tolerance``: the share by which the counted miss ratio may be off beside chance.
    """
    from nicscope.studies.curves import report

    if not 0 <= tolerance <= 1:
        raise StudyError(f"--tolerance must be from 0 to 1, got {tolerance}")
    cache, counted, unused = read_counters(counters, called)
    questions, curves = [], []
    for one in counted:
        size = None if one.page_size is None else str(one.page_size)
        question = ask(ways=WAYS, line=line, entries=entries, page_size=size, skip=skip)
        questions.append(question)
        curves.append(report([(name, trace)], question, watch).curves)
    sizes = [each[0].page_size for each in curves]
    tries_random = max(each[0].lookups for each in curves) <= MOST_DRAWN
    shapes: list[Explained] = []
    for place, length in enumerate(question.lines):
        own, ends = [each[place] for each in curves], question.entries
        shapes.append(_full(own, counted, tolerance, *(ends or (1, MOST_ENTRIES))))
        shapes += _with_sets(own, counted, tolerance)
        if tries_random:
            kept = [
                lookups_by_count(parted(trace.batches(), skip), asked, size, length)
                for asked, size in zip(questions, sizes, strict=True)
            ]
            shapes += random_shapes(kept, length, question.ways, counted, tolerance, ends)
    return FitReport(
        trace=name,
        cache=cache,
        counted=counted,
        page_sizes=sizes,
        lookups=[each[0].lookups for each in curves],
        footprints=[each[0].footprint for each in curves],
        tolerance=tolerance,
        shapes=sorted(shapes, key=lambda one: (not one.explains, one.off)),
        random_tried=tries_random,
        unused=unused,
        repeat=repeat(command),
    )
