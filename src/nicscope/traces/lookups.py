"""The pages that requests touch: one lookup per page, in ascending order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nicscope.kernel.decorators import kernel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from nicscope.traces.schema import Requests

PIECE = 1 << 16


@kernel
def expand(first, counts, rows, pages, start):
    """Fill ``rows`` and ``pages`` with lookups, from lookup ``start[1]`` of row ``start[0]`` on.

    Returns how many were filled in, and the row and lookup to go on from.
    """
    row, done = start
    filled = 0
    while row < first.size and filled < pages.size:
        take = min(counts[row] - done, pages.size - filled)
        for i in range(take):
            rows[filled + i] = row
            pages[filled + i] = first[row] + done + i
        filled += take
        done += take
        if done == counts[row]:
            row += 1
            done = 0
    return filled, row, done


def page_span(requests: Requests, page_size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First page of each request and how many pages it touches; ``page_size`` a power of two."""
    shift = np.uint64(page_size.bit_length() - 1)
    first = requests.address >> shift
    last = (requests.address + (requests.length - np.uint32(1))) >> shift
    return first.view(np.int64), (last - first + np.uint64(1)).view(np.int64)


def lookups_of(
    requests: Requests, page_size: int, piece: int = PIECE
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Row and page of every lookup, at most ``piece`` at a time; good until the next."""
    first, counts = page_span(requests, page_size)
    rows, pages = np.empty(piece, np.int64), np.empty(piece, np.int64)
    row, done = 0, 0
    while row < first.size:
        count, row, done = expand(first, counts, rows, pages, (row, done))
        yield rows[:count], pages[:count]
