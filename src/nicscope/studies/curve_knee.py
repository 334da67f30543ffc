"""The knee of a miss-ratio curve."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
