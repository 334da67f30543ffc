"""How processes share out a plane or a box: so that each has as square a part as can be."""

from __future__ import annotations

import math


def plane(processes: int) -> tuple[int, int]:
    """Rows and columns of processes, as square as can be, no fewer rows."""
    columns = next(c for c in range(math.isqrt(processes), 0, -1) if processes % c == 0)
    return processes // columns, columns


def cube(processes: int) -> tuple[int, int, int]:
    """Layers, rows and columns of processes, as even as can be, no fewer columns than rows."""
    layers = next(n for n in range(round(processes ** (1 / 3)) + 1, 0, -1) if _fits(n, processes))
    columns, rows = plane(processes // layers)
    return layers, rows, columns


def _fits(layers: int, processes: int) -> bool:
    return layers**3 <= processes and processes % layers == 0


def edges(side: int, shares: int) -> list[int]:
    """Where each share of ``side`` things in a row begins, larger ones first, and the last ends."""
    least, larger = divmod(side, shares)
    return [share * least + min(share, larger) for share in range(shares + 1)]
