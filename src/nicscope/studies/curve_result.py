"""What is told of a miss-ratio curve, and its knee."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

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


def as_named(numbers: dict[str, Any]) -> dict[str, Any]:
    """``numbers`` by the names that outputs have for them."""
    return {NAMES.get(name, name): value for name, value in numbers.items()}


class Point(NamedTuple):
    """What one set-associative cache on every NIC misses: compulsory + capacity + conflict."""

    entries: int
    ways: int
    misses: int
    compulsory: int
    capacity: int
    conflict: int


class Sizes(NamedTuple):
    """What fully associative caches miss; each of shape (sizes,), by ascending size."""

    entries: NDArray[np.int64]
    misses: NDArray[np.float64]  # whole numbers unless estimated
    low: NDArray[np.float64]  # as misses, if exact
    high: NDArray[np.float64]

    def at(self, entries: int) -> float:
        """Misses with as many ``entries``, one of the sizes."""
        return float(self.misses[np.searchsorted(self.entries, entries)])


class Sample(NamedTuple):
    """How much was looked at of what was estimated."""

    rate: float
    seed: int
    keys: int
    lookups: int


class MissCurve(msgspec.Struct, frozen=True, kw_only=True):
    """The caches of one trace, node or process, with lines of one length."""

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
        """What it is the curve of, in a few words."""
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
            "fully_associative": as_named(lists),
            "set_associative": [as_named(point._asdict()) for point in self.points],
            "sample": None if self.sample is None else self.sample._asdict(),
            "note": self.note,
        }


class CurveReport(msgspec.Struct, frozen=True, kw_only=True):
    """Curves of some traces, and how to get them again."""

    traces: list[dict[str, Any]]
    curves: list[MissCurve]
    repeat: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """One object for programs."""
        curves = [curve.to_json() for curve in self.curves]
        return {"traces": self.traces, "curves": curves, "repeat": self.repeat}
