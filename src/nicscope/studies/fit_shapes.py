"""Shapes of caches held against counted miss ratios: which sizes of each explain them.

Caches with LRU come from exact curves, of every size at once.  Those that give up an entry at
random are run one by one, at eight sizes for each doubling, over a trace that is short enough.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.studies.curve_question import MOST_ENTRIES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from nicscope.drivers.onepass.drawn import KeptLookups
    from nicscope.drivers.replay.columns import RequestColumns
    from nicscope.drivers.replay.lookups import Nic
    from nicscope.studies.curve_question import Question
    from nicscope.studies.curve_result import MissCurve
    from nicscope.studies.fitting import Counted

FULL = 0  # ways of a cache without sets
LRU, RANDOM = "lru", "random"
MOST_DRAWN = 1 << 22  # lookups over which random caches are run
MOST_RANDOM = 1 << 16  # entries of these
PARTS = 8  # sizes of them for each doubling
_SEED = 1


class Explained(NamedTuple):
    """Caches of one shape: those that explain all counts, or the nearest one."""

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
        """Whether it lies within what the counters leave open."""
        return self.off <= 1


def lru_shapes(
    curves: Sequence[MissCurve], counted: Sequence[Counted], tolerance: float, ends: Any
) -> list[Explained]:
    """Caches with LRU, of each number of ways; ``curves``: one for each count, of one line."""
    least, most = ends or (1, MOST_ENTRIES)
    full = _full(curves, counted, tolerance, least, most)
    return [full, *_with_sets(curves, counted, tolerance)]


def random_shapes(
    kept: Sequence[dict[Nic, KeptLookups]],
    line: int,
    ways: Sequence[int],
    counted: Sequence[Counted],
    tolerance: float,
    ends: Any,
) -> list[Explained]:
    """Caches that give up an entry at random; ``kept``: the lookups of each count."""
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
            found.append(_widened(RANDOM, line, way, tried, step=line))
    return found


def kept_lookups(
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
    """Caches with LRU and without sets: every size is tried."""
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
    """Of each number of ways, the caches with LRU that explain the counts, or the nearest."""
    found: dict[int, list[tuple[float, int, tuple[float, ...]]]] = {}
    misses = [{(one.entries, one.ways): one.misses for one in curve.points} for curve in curves]
    for entries, ways in misses[0]:
        if all((entries, ways) in each for each in misses):
            ratios = tuple(
                each[entries, ways] / max(curve.lookups, 1)
                for each, curve in zip(misses, curves, strict=True)
            )
            found.setdefault(ways, []).append((off_by(ratios, counted, tolerance), entries, ratios))
    return [_widened(LRU, curves[0].line, ways, tried) for ways, tried in found.items()]


def _widened(
    replacement: str,
    line: int,
    ways: int,
    tried: list[tuple[float, int, tuple[float, ...]]],
    step: int = 0,
) -> Explained:
    """The sizes that explain the counts, or the nearest.

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
