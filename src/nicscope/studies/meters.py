"""What is counted of one NIC's lookups while a trace passes: exact curves, or samples of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nicscope.drivers.onepass.curve import LruCurve
from nicscope.drivers.onepass.grid import SetAssociativeGrid, of_groups
from nicscope.drivers.onepass.recency import WIDTHS
from nicscope.drivers.onepass.sample import SampledCurve

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nicscope.drivers.onepass.curve import Curve
    from nicscope.drivers.onepass.grid import Counts
    from nicscope.drivers.onepass.sample import Estimate
    from nicscope.drivers.replay.lookups import Lookups, Nic

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

    def counted(self) -> Counted:
        """What it counted, without what it counted with, which is gone then."""
        if self._grid is None:
            curve = self._curve.taken().of_groups(self._group_bits)
            return Counted(self.nic, self.lookups, curve, None)
        found, span = self._grid.result(last=True), self._span
        counts = of_groups(found, self._group_bits, span.low, span.high)
        assert counts.kinds is not None
        return Counted(self.nic, self.lookups, counts.kinds.fully_associative, counts)


class Counted(NamedTuple):
    """One NIC's lookups, as a ``Meter`` has counted them."""

    nic: Nic
    lookups: int  # of pages
    curve: Curve
    grid: Counts | None

    @property
    def footprint(self) -> int:
        """Lines that were looked up, also before those that count."""
        return self.curve.footprint

    def counts(self) -> tuple[Curve, Counts | None]:
        """The fully associative caches, and the others if they were asked for."""
        return self.curve, self.grid


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
