"""Dense numbers for pairs: processes, (process, page), objects, as they first appear.

Lookups of a request are its pages, one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.hashing import place_of as hashed_place
from nicscope.kernel.decorators import kernel
from nicscope.kernel.records import as_records
from nicscope.memory_limit import check_memory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from nicscope.traces.schema import Requests

SLOT = np.dtype(
    [
        ("number", "i8"),  # second half of the key
        ("owner", "i4"),  # first half of the key
        ("identity", "i4"),  # FREE, or which key it was to appear
    ],
    align=True,
)
FREE = -1
FIRST_CAPACITY = 1 << 12
PIECE = 1 << 16


@kernel
def place_of(slots, owner, number):
    """The slot of a key, or the free slot where it belongs."""
    mask = slots.size - 1
    place = np.int64(hashed_place(number, owner, slots.size))
    while slots[place].identity != FREE and (
        slots[place].number != number or slots[place].owner != owner
    ):
        place = (place + 1) & mask
    return place


@kernel
def identify(slots, used, owners, numbers, identities):
    """Write the dense number of each key; returns how many there are now, ``used`` before."""
    for i in range(numbers.size):
        slot = slots[place_of(slots, owners[i], numbers[i])]
        if slot.identity == FREE:
            slot.owner = owners[i]
            slot.number = numbers[i]
            slot.identity = used
            used += 1
        identities[i] = slot.identity
    return used


@kernel
def rehash(old, new):
    """Copy every key of ``old`` to the larger table ``new``."""
    for i in range(old.size):
        if old[i].identity != FREE:
            place = place_of(new, np.int64(old[i].owner), old[i].number)
            new[place].owner = old[i].owner
            new[place].number = old[i].number
            new[place].identity = old[i].identity


def _empty(capacity: int) -> NDArray[Any]:
    slots = np.zeros(capacity, SLOT)
    slots["identity"] = FREE
    return as_records(slots)


class Numbering:
    """Gives each distinct (owner, number) the next dense number, from 0; 32 bytes per key."""

    def __init__(self) -> None:
        self._slots = _empty(FIRST_CAPACITY)
        self.count = 0  # distinct keys so far, at most 2^31

    def number(self, owners: NDArray[np.int64], numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Dense numbers of keys; an owner fits 32 bits, both columns are int64."""
        identities = np.empty(numbers.size, np.int64)
        for start in range(0, numbers.size, PIECE):
            piece = slice(start, start + PIECE)
            self._reserve(min(PIECE, numbers.size - start))
            self.count = int(
                identify(self._slots, self.count, owners[piece], numbers[piece], identities[piece])
            )
        return identities

    def _reserve(self, more: int) -> None:
        """Keep the table at most half full with ``more`` keys to come."""
        capacity = self._slots.size
        while capacity < 2 * (self.count + more):
            capacity *= 2
        if capacity > self._slots.size:
            check_memory(
                capacity * SLOT.itemsize,
                f"keeping more than {capacity // 4:,} pages or objects apart",
                "take larger pages, or a trace that touches fewer",
            )
            larger = _empty(capacity)
            rehash(self._slots, larger)
            self._slots = larger


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
    """Row and page of every lookup, at most ``piece`` at a time; valid until the next call."""
    first, counts = page_span(requests, page_size)
    rows, pages = np.empty(piece, np.int64), np.empty(piece, np.int64)
    row, done = 0, 0
    while row < first.size:
        count, row, done = expand(first, counts, rows, pages, (row, done))
        yield rows[:count], pages[:count]
