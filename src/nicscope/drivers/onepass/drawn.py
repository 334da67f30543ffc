"""Misses of caches with random replacement, over recorded lookups.

No cache of another size says what such a one holds, so each is run for itself.  What is looked up
is kept as dense numbers, which makes finding one a step: a number has one place, or none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nicscope.kernel.decorators import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.drivers.replay.lookups import Lookups

NOWHERE = -1


@kernel
def look_up_drawn(numbers, rows, draws, ways, slots, used, places):
    """Misses of one cache whose sets of ``ways`` slots lie one behind the other.

    ``rows``: the set of each lookup; ``draws``: random words, of which a miss in a full set takes
    that of its lookup; ``slots`` and ``places``: what is where, and where what is, or ``NOWHERE``.
    """
    misses = 0
    for i in range(len(numbers)):
        number = np.int64(numbers[i])
        if places[number] != NOWHERE:
            continue
        misses += 1
        row = np.int64(rows[i])
        if used[row] < ways:
            slot = row * ways + np.int64(used[row])
            used[row] += 1
        else:
            slot = row * ways + np.int64(draws[i]) % ways
            places[slots[slot]] = NOWHERE
        slots[slot] = number
        places[number] = slot
    return misses


class KeptLookups:
    """The recorded lookups of one NIC, for several caches in turn."""

    def __init__(self) -> None:
        self.pages = 0  # lookups that count, also those that are left out of what is kept
        self._numbers: list[NDArray[np.uint32]] = []
        self._index: list[NDArray[np.uint32]] = []
        self._begin = 0  # of those that count

    def feed(self, lookups: Lookups) -> None:
        """Records more lookups."""
        self.pages += lookups.pages
        self._numbers.append(lookups.numbers.copy())
        self._index.append(lookups.set_index.copy())

    def skip(self) -> None:
        """Count only what comes from here on."""
        self.pages = 0
        self._begin = sum(map(len, self._numbers))

    def misses(self, lines: int, ways: int, seed: int) -> int:
        """Misses of a cache of so many lines, in sets of so many; 0 ways: without sets."""
        numbers, index = self._whole()
        sets = lines // ways if ways else 1
        rows = index & np.uint32(sets - 1) if ways else np.zeros(len(index), np.uint32)
        draws = np.random.default_rng([seed, lines, ways]).integers(1 << 31, size=len(numbers))
        slots = np.zeros(lines, np.int64)
        used = np.zeros(sets, np.int64)
        places = np.full(int(numbers.max(initial=0)) + 1, NOWHERE, np.int64)
        state = (ways or lines, slots, used, places)
        begin = self._begin
        look_up_drawn(numbers[:begin], rows[:begin], draws[:begin], *state)
        return int(look_up_drawn(numbers[begin:], rows[begin:], draws[begin:], *state))

    @property
    def footprint(self) -> int:
        """Lines that were looked up."""
        return len(np.unique(self._whole()[0]))

    def _whole(self) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        if len(self._numbers) > 1:
            self._numbers = [np.concatenate(self._numbers)]
            self._index = [np.concatenate(self._index)]
        if not self._numbers:
            return np.zeros(0, np.uint32), np.zeros(0, np.uint32)
        return self._numbers[0], self._index[0]
