"""Times as cited, converted once to integer picoseconds, and back for display."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

PS_PER_US = 10**6
TIME_UNITS = {"ps": 1, "ns": 10**3, "us": PS_PER_US, "ms": 10**9, "s": 10**12}
PER_BYTE_UNITS = {f"{unit}/B": ps for unit, ps in TIME_UNITS.items()}
FINEST_DIGIT = 12  # a picosecond is the twelfth decimal of a second
LONGEST_PS = 2**62  # what an int64 clock can still add up


def whole_ps(value: Decimal, ps_per_unit: int) -> int | None:
    """``value`` units in picoseconds, or None if that is not a whole number."""
    if value and value.adjusted() < -FINEST_DIGIT:
        return None
    ps = Fraction(value) * ps_per_unit
    return ps.numerator if ps.denominator == 1 else None


def half_up(ps: Fraction) -> int:
    """``ps`` (not negative) rounded to a whole picosecond, a tie upwards."""
    return int(ps + Fraction(1, 2))


def in_us(ps: Fraction | int) -> Decimal:
    """``ps`` picoseconds in microseconds: exact as far as 28 digits go."""
    exact = Fraction(ps)
    return Decimal(exact.numerator) / Decimal(exact.denominator * PS_PER_US)
