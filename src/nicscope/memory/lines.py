"""Lines of a translation cache in the order of their last fill, for the high-water scan.

miNI (IV.B.2) unpins the pages of lines that have left the NIC once too many are pinned.  Lines
that have left wait in a binary heap, the least recently filled first; ``place`` finds a line that
is filled again and must come out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nicscope.kernel.decorators import step
from nicscope.kernel.records import longer

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Lines(NamedTuple):
    """The lines of one node; arrays have length 0 where no scheme uses them."""

    filled: NDArray[np.int64]  # shape (lines,): when it was last filled, counted in fills
    place: NDArray[np.int32]  # shape (lines,): its place in the heap + 1; 0 if not waiting
    heap: NDArray[np.int32]  # shape (lines,)
    counts: NDArray[np.int64]  # shape (2,): fills so far, lines in the heap


def new_lines() -> Lines:
    """No line filled."""
    return Lines(
        np.zeros(0, np.int64), np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(2, np.int64)
    )


def grown_lines(lines: Lines, count: int) -> Lines:
    """The same lines with room for ``count`` of them."""
    return Lines(
        longer(lines.filled, count),
        longer(lines.place, count),
        longer(lines.heap, count),
        lines.counts,
    )


@step
def fill_line(lines, line):
    """Note the fill of ``line``: it is on the NIC and no longer waits for unpinning."""
    lines.counts[0] += 1
    lines.filled[line] = lines.counts[0]
    if lines.place[line] != 0:
        remove_line(lines, line)


@step
def await_unpinning(lines, line):
    """Have ``line``, evicted from the NIC with pages pinned, wait for unpinning."""
    lines.counts[1] += 1
    _set_address(lines, lines.counts[1] - 1, line)


@step
def remove_line(lines, line):
    """Remove ``line`` from those that wait for unpinning."""
    hole = np.int64(lines.place[line]) - 1
    lines.place[line] = 0
    lines.counts[1] -= 1
    last = np.int64(lines.heap[lines.counts[1]])
    if last != line:
        _set_address(lines, hole, last)


@step
def _set_address(lines, hole, line):
    """Put ``line`` where it belongs, starting from the empty place ``hole``."""
    heap, filled = lines.heap, lines.filled
    while hole > 0 and filled[heap[(hole - 1) >> 1]] > filled[line]:
        _put(lines, hole, heap[(hole - 1) >> 1])
        hole = (hole - 1) >> 1
    while True:
        child = 2 * hole + 1
        if child >= lines.counts[1]:
            break
        if child + 1 < lines.counts[1] and filled[heap[child + 1]] < filled[heap[child]]:
            child += 1
        if filled[heap[child]] >= filled[line]:
            break
        _put(lines, hole, heap[child])
        hole = child
    _put(lines, hole, line)


@step
def _put(lines, place, line):
    lines.heap[place] = line
    lines.place[line] = place + 1
