"""Sets of keys in order of recency, and the one operation on them.

A set is a row of 8 or 16 uint32 keys, most recently looked up first, ``EMPTY`` at its end.  A
look-up tells how deep the key stood and puts it first.  Scalar code takes several branches that
no processor can foresee; as a vector, a row is compared and moved at once.  The vector code is
plain LLVM, so it compiles for any processor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.kernel.decorators import coded
from nicscope.memory_limit import zeros

if TYPE_CHECKING:
    from numpy.typing import NDArray

EMPTY = np.uint32(0)  # what fresh memory holds: sets take none until they are looked into
WIDTHS = (8, 16)


def empty_sets(count: int, width: int) -> NDArray[np.uint32]:
    """``count`` empty sets of ``width`` keys in a row, aligned as the vector code wants them."""
    raw = zeros((count * width + 16,), np.dtype(np.uint32))
    start = -raw.ctypes.data % 64 // 4
    return raw[start : start + count * width]


@coded("nicscope.kernel.compiler.states:look_up")
def look_up(sets: Any, first: Any, key: Any, lanes: Any) -> Any:
    """Put ``key`` first in the row ``sets[first : first + len(lanes)]``; how deep it stood.

    The depth, uint64, is ``len(lanes)`` if the key was not there.
    """
    row = sets[int(first) : int(first) + len(lanes)]
    found = np.flatnonzero(row == key)
    depth = int(found[0]) if len(found) else len(lanes)
    row[1 : depth + 1] = row[:depth].copy()[: len(lanes) - 1]
    row[0] = key
    return np.uint64(depth)
