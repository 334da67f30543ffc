"""What a timed run of a program came to, and all 37 of a program: 36 caches and static tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.studies.reproduce.traced.mini import CACHE_ENTRIES, LINES, POINTS, WAYS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from nicscope.studies.reproduce.traced.measuring import Row

STATIC_ENTRIES = 65536  # of the tables that the caches replace (Figure 3)
SHAPE = (len(CACHE_ENTRIES), len(LINES), len(WAYS))
PERCENTILES = (0, 10, 25, 50, 75, 90, 100)
DELAY_US, PROCESSING_US = (0.0, 50.0), (5.0, 500.0)  # as printed
KINDS = ("delay", "processing")
AXES = ("cache_entries", "line_entries", "ways")
SLACK_US = 1e-6  # of adding floats


class Distribution(NamedTuple):
    """Times of a run's misses, in us."""

    many: int
    mean: float
    in_range: int  # how many lie in the range that the paper prints
    percentiles: tuple[float | None, ...]  # by ``PERCENTILES``; None of no misses


NONE = Distribution(0, 0.0, 0, (None,) * len(PERCENTILES))


def distribution(times_us: NDArray[np.float64], printed: tuple[float, float]) -> Distribution:
    """How ``times_us`` are distributed, and how many lie in the range that is ``printed``."""
    if not len(times_us):
        return NONE
    low, high = printed[0] - SLACK_US, printed[1] + SLACK_US
    return Distribution(
        len(times_us),
        float(times_us.mean()),
        int(((low <= times_us) & (times_us <= high)).sum()),
        tuple(np.percentile(times_us, PERCENTILES).tolist()),
    )


class Timed(NamedTuple):
    """What a run came to, on eight processors."""

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
        seconds, lookups, misses, *both = plain
        delays, processings = (
            Distribution(many, mean, in_range, tuple(percentiles))
            for many, mean, in_range, percentiles in both
        )
        return cls(seconds, lookups, misses, delays, processings)

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

    def rows(self) -> list[Row]:
        """A line of plain values for each cache, without the program's name."""
        static_s, alone_s = self.static.seconds, self.alone_seconds
        return [
            {
                **dict(zip(AXES, point, strict=True)),
                "seconds": run.seconds,
                "static_seconds": static_s,
                "alone_seconds": alone_s,
                "speed_up": alone_s / run.seconds,
                "static_speed_up": alone_s / static_s,
                "longer_percent": 100 * (run.seconds / static_s - 1),
                "lookups": run.lookups,
                "misses": run.misses,
                "misses_percent": run.missing,
                **_told("delay", run.delays),
                **_told("processing", run.processings),
            }
            for point, run in zip(POINTS, self.caches, strict=True)
        ]


def _told(kind: str, times: Distribution) -> Row:
    return {
        f"{kind}_misses": times.many,
        f"{kind}_in_range": times.in_range,
        f"{kind}_mean_us": times.mean if times.many else None,
        **{
            f"{kind}_p{share}_us": time
            for share, time in zip(PERCENTILES, times.percentiles, strict=True)
        },
    }


def _heard(kind: str, row: Row) -> Distribution:
    return Distribution(
        row[f"{kind}_misses"],
        row[f"{kind}_mean_us"] or 0.0,
        row[f"{kind}_in_range"],
        tuple(row[f"{kind}_p{share}_us"] for share in PERCENTILES),
    )


def programs_of(rows: Sequence[Row]) -> Mapping[str, Program]:
    """What ``Program.rows`` has told, by ``application``; of static tables the time alone."""
    found: dict[str, Program] = {}
    for name in dict.fromkeys(row["application"] for row in rows):
        own = {tuple(row[axis] for axis in AXES): row for row in rows if row["application"] == name}
        any_row = next(iter(own.values()))
        caches = [
            Timed(
                own[point]["seconds"],
                own[point]["lookups"],
                own[point]["misses"],
                *(_heard(kind, own[point]) for kind in KINDS),
            )
            for point in POINTS
        ]
        static = Timed(any_row["static_seconds"], any_row["lookups"], 0, NONE, NONE)
        found[name] = Program(any_row["alone_seconds"], static, caches)
    return found


def cache_of(place: int) -> str:
    """The cache at a place of ``POINTS``, as the paper names it: C16 L64 A4."""
    entries, line, ways = POINTS[place]
    return f"C{entries >> 10} L{line} A{ways}"
