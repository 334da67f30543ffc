"""A platform's tabulated costs handed back, and the straight line that is nearest to them.

Pricing reads a table at the mean size of its events, which is exact only as far as the table
is a straight line: the line's residuals are what that costs.
"""

from __future__ import annotations

from fractions import Fraction
from statistics import linear_regression
from typing import TYPE_CHECKING

from nicscope.config.platform import in_us

if TYPE_CHECKING:
    from collections.abc import Sequence
    from decimal import Decimal

    from nicscope.config.platform import Platform


def cost_at(platform: Platform, cost: str, size: int | None = None) -> Decimal:
    """Cost (us) of one event of ``size``; the lower bound, where the platform states a range."""
    low, _ = platform.costs[cost].each(None if size is None else Fraction(size))
    return in_us(low)


def nearest_line(platform: Platform, cost: str, sizes: Sequence[int]) -> list[float]:
    """At each of ``sizes``, the least-squares line through the costs (us) at those sizes."""
    slope, start = linear_regression(sizes, [float(cost_at(platform, cost, n)) for n in sizes])
    return [start + slope * size for size in sizes]
