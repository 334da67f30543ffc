"""Which caches explain counted hits and misses: ``nicscope fit``.

Traffic is known, as a trace, and a NIC counted what its translation cache made of it.  The miss
ratios of every cache come from one exact pass; those that lie within what the counters leave open
explain them.  One count leaves a size for each shape; counts with pages of other sizes, over the
same traffic, tell shapes apart.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from nicscope.config.byte_size import SPELLINGS, read_bytes
from nicscope.config.counter_names import known_counter, why_not
from nicscope.errors import StudyError
from nicscope.studies.curve_question import MOST_ENTRIES, ask
from nicscope.studies.sources import repeat

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nicscope.studies.curve_result import MissCurve
    from nicscope.traces.reader import Trace

FULL = 0  # ways of a cache without sets
WAYS = "1,2,4,8,16"
MOST_COUNT = 1 << 62
_SPREAD = 2  # standard deviations that chance may add


class Counted(NamedTuple):
    """What a NIC counted over the traffic, with pages of one size."""

    page_size: int | None  # None: the trace's
    hits: int
    misses: int

    @property
    def lookups(self) -> int:
        """All that it looked up."""
        return self.hits + self.misses

    @property
    def ratio(self) -> float:
        """Misses per lookup."""
        return self.misses / self.lookups

    def open(self, tolerance: float) -> float:
        """How far the miss ratio of a cache may be off: chance, and a share of the ratio."""
        chance = math.sqrt(self.ratio * (1 - self.ratio) / self.lookups)
        return _SPREAD * chance + tolerance * self.ratio


class Explained(NamedTuple):
    """Caches of one shape: those that explain all counts, or the nearest one."""

    ways: int  # FULL: any
    low: int  # entries
    high: int
    best: int
    ratios: tuple[float, ...]  # of misses of the best one, count by count
    off: float  # of the best one: the furthest, in what is left open; up to 1 it explains

    @property
    def explains(self) -> bool:
        """Whether it lies within what the counters leave open."""
        return self.off <= 1


class FitReport(msgspec.Struct, frozen=True, kw_only=True):
    """Every shape of cache, and how well it explains the counts."""

    trace: str
    cache: str
    counted: list[Counted]
    page_sizes: list[int]
    lookups: list[int]  # of the trace, count by count
    footprints: list[int]
    tolerance: float
    shapes: list[Explained]
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
            "unused": self.unused,
            "repeat": self.repeat,
        }


def read_counters(plain: Any, called: str) -> tuple[str, list[Counted], dict[str, str]]:
    """The cache that counters are of, the counts, and what is not used and why.

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
        raise StudyError(f"{where}: page_size must be bytes, {SPELLINGS}; got {given!r}")
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
    command: Sequence[str] = (),
    watch: Callable[[int, int], None] | None = None,
) -> FitReport:
    """Caches with LRU that explain ``counters``, over the traffic of ``trace``.

    ``tolerance``: the share by which the counted miss ratio may be off beside chance.
    """
    from nicscope.studies.curves import report

    if not 0 <= tolerance <= 1:
        raise StudyError(f"--tolerance must be from 0 to 1, got {tolerance}")
    cache, counted, unused = read_counters(counters, called)
    curves = []
    for one in counted:
        size = None if one.page_size is None else str(one.page_size)
        question = ask(ways=WAYS, entries=entries, page_size=size, skip=skip)
        curves += report([(name, trace)], question, (), watch).curves[:1]
    least, most = question.entries or (1, MOST_ENTRIES)
    shapes = [_full(curves, counted, tolerance, least, most)]
    shapes += _with_sets(curves, counted, tolerance)
    return FitReport(
        trace=name,
        cache=cache,
        counted=counted,
        page_sizes=[curve.page_size for curve in curves],
        lookups=[curve.lookups for curve in curves],
        footprints=[curve.footprint for curve in curves],
        tolerance=tolerance,
        shapes=sorted(shapes, key=lambda one: (not one.explains, one.off)),
        unused=unused,
        repeat=repeat(command),
    )


def _off(ratios: Sequence[float], counted: Sequence[Counted], tolerance: float) -> float:
    """How far off the furthest of ``ratios`` is, in what its count leaves open."""
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
    """Caches without sets: every size is tried."""
    import numpy as np

    every = [curve.every_size for curve in curves]
    longest = max(len(one) for one in every if one is not None)
    sizes = np.arange(least, max(least + 1, min(most + 1, longest)))
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
    top = most if len(within) and high == len(sizes) - 1 else int(sizes[high])
    return Explained(
        FULL,
        int(sizes[low]),
        top,
        int(sizes[best]),
        tuple(ratios[:, best].tolist()),
        float(off[best]),
    )


def _with_sets(
    curves: Sequence[MissCurve], counted: Sequence[Counted], tolerance: float
) -> list[Explained]:
    """Of each number of ways, the caches that explain the counts, or the nearest."""
    found: dict[int, list[tuple[float, int, tuple[float, ...]]]] = {}
    misses = [{(one.entries, one.ways): one.misses for one in curve.points} for curve in curves]
    for entries, ways in misses[0]:
        if all((entries, ways) in each for each in misses):
            ratios = tuple(
                each[entries, ways] / max(curve.lookups, 1)
                for each, curve in zip(misses, curves, strict=True)
            )
            found.setdefault(ways, []).append((_off(ratios, counted, tolerance), entries, ratios))
    shapes = []
    for ways, tried in found.items():
        off, best, ratios = min(tried)
        within = [entries for each, entries, _ in tried if each <= 1] or [best]
        shapes.append(Explained(ways, min(within), max(within), best, ratios, off))
    return shapes
