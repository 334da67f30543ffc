"""Which caches explain counted hits and misses: ``nicscope fit``.

Traffic is known, as a trace, and a NIC counted what its translation cache made of it.  Caches whose
miss ratio lies within what the counters leave open explain them (``fit_shapes``).  One count leaves
a size for each shape; counts with pages of other sizes, over the same traffic, tell shapes apart.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from nicscope.config.byte_size import SPELLINGS, read_bytes
from nicscope.config.counter_names import known_counter, why_not
from nicscope.errors import StudyError
from nicscope.studies.curve_question import ask
from nicscope.studies.fit_shapes import (
    FULL,
    MOST_DRAWN,
    kept_lookups,
    lru_shapes,
    random_shapes,
)
from nicscope.studies.skipping import parted
from nicscope.studies.sources import repeat

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nicscope.studies.fit_shapes import Explained
    from nicscope.traces.reader import Trace

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
    line: str = "1,8",
    command: Sequence[str] = (),
    watch: Callable[[int, int], None] | None = None,
) -> FitReport:
    """Caches that explain ``counters``, over the traffic of ``trace``.

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
        curves.append(report([(name, trace)], question, (), watch).curves)
    sizes = [each[0].page_size for each in curves]
    tries_random = max(each[0].lookups for each in curves) <= MOST_DRAWN
    shapes: list[Explained] = []
    for place, length in enumerate(question.lines):
        ends = question.entries
        shapes += lru_shapes([each[place] for each in curves], counted, tolerance, ends)
        if tries_random:
            kept = [
                kept_lookups(parted(trace.batches(), skip), asked, size, length)
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
