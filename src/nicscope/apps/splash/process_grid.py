"""How processes share out a plane or a box: so that each has as square a part as can be."""

from __future__ import annotations

import math


def plane(processes: int) -> tuple[int, int]:
    """Rows and columns of processes, as square as can be, no fewer rows."""
    columns = next(c for c in range(math.isqrt(processes), 0, -1) if processes % c == 0)
    return processes // columns, columns


def edges(side: int, shares: int) -> list[int]:
    """Where each share of ``side`` things in a row begins, and where the last ends."""
    return [side * share // shares for share in range(shares + 1)]
