"""What one event costs on a machine: a value, a range or a table over sizes, in picoseconds."""

from __future__ import annotations

from fractions import Fraction

import msgspec

from nicscope.config.evidence import Evidence, Origin


def half_up(ps: Fraction) -> int:
    """``ps`` (not negative) rounded to a whole picosecond, a tie upwards."""
    return int(ps + Fraction(1, 2))


class UnitCost(msgspec.Struct, frozen=True, kw_only=True):
    """What one event costs: from ``low_ps`` to ``high_ps``, or by size along ``points``.

    ``points`` are (size, ps) with rising sizes; without them both bounds hold for any size.
    """

    name: str
    unit: str  # of the citation
    origin: Origin
    low_ps: int = 0
    high_ps: int = 0
    points: tuple[tuple[int, int], ...] = ()

    def each(self, size: Fraction | None = None) -> tuple[Fraction, Fraction]:
        """Bounds (ps) on one event of ``size``; tables need a size, the others ignore it.

        Between two points a table is a straight line; beyond its ends the nearest segment goes
        on, but never below zero.
        """
        if not self.points:
            return Fraction(self.low_ps), Fraction(self.high_ps)
        if size is None:
            raise ValueError(f"cost {self.name!r} is a table and needs a size")
        along = 1
        while along < len(self.points) - 1 and size > self.points[along][0]:
            along += 1
        (x0, y0), (x1, y1) = self.points[along - 1], self.points[along]
        ps = max(Fraction(0), y0 + (size - x0) * Fraction(y1 - y0, x1 - x0))
        return ps, ps

    def evidence_at(self, size: Fraction | None = None) -> Evidence:
        """Class of evidence at ``size``: off a table's points at best derived from them."""
        known_here = not self.points or any(size == x for x, _ in self.points)
        if known_here or self.origin.evidence is not Evidence.PUBLISHED:
            return self.origin.evidence
        return Evidence.DERIVED
