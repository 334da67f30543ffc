"""What one timed run of a program came to, and all 37 of a program: 36 caches and static tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.studies.reproduce.traced.mini import CACHE_ENTRIES, LINES, POINTS, WAYS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

Point = tuple[int, int, int]  # entries, entries of a line, ways
STATIC_ENTRIES = 65536  # of the tables that the caches replace (Figure 3)
SHAPE = (len(CACHE_ENTRIES), len(LINES), len(WAYS))
PERCENTILES = tuple(range(101))


class Distribution(NamedTuple):
    """Times of a run's misses, in us."""

    many: int
    mean: float
    within: int  # how many lie in the range that the paper prints
    percentiles: list[float]  # by ``PERCENTILES``; empty of none


def distribution(times_us: NDArray[np.float64], low: float, high: float) -> Distribution:
    """How ``times_us`` are distributed, and how many lie from ``low`` to ``high``."""
    if not len(times_us):
        return Distribution(0, 0.0, 0, [])
    return Distribution(
        len(times_us),
        float(times_us.mean()),
        int(((low <= times_us) & (times_us <= high)).sum()),
        np.percentile(times_us, PERCENTILES).tolist(),
    )


class Timed(NamedTuple):
    """What a run came to on four nodes of two processors."""

    seconds: float
    lookups: int
    misses: int
    delays: Distribution
    processings: Distribution

    def to_json(self) -> list[Any]:
        """All of it as plain values."""
        return [*self[:3], list(self.delays), list(self.processings)]

    @classmethod
    def of_json(cls, plain: list[Any]) -> Timed:
        """What ``to_json`` has told."""
        seconds, lookups, misses, delays, processings = plain
        return cls(seconds, lookups, misses, Distribution(*delays), Distribution(*processings))

    @property
    def missing(self) -> float:
        """Misses per 100 lookups."""
        return 100 * self.misses / self.lookups if self.lookups else 0.0


class Program(NamedTuple):
    """All runs of a program."""

    alone_seconds: float  # on one processor: what its processes compute, all together
    static: Timed
    caches: Sequence[Timed]  # by ``POINTS``

    def grid(self, of: Callable[[Timed], float]) -> NDArray[np.float64]:
        """A number of each cache, by size, line and ways."""
        return np.array([of(one) for one in self.caches]).reshape(SHAPE)

    @property
    def speed_ups(self) -> NDArray[np.float64]:
        """Of each cache."""
        return self.alone_seconds / self.grid(lambda one: one.seconds)

    @property
    def overheads(self) -> NDArray[np.float64]:
        """How much longer than with static tables each cache takes, in percent."""
        return 100 * (self.grid(lambda one: one.seconds) / self.static.seconds - 1)


def cache_of(place: int) -> str:
    """The cache at a place of ``POINTS``, as the paper names it: C16 L64 A4."""
    entries, line, ways = POINTS[place]
    return f"C{entries >> 10} L{line} A{ways}"
