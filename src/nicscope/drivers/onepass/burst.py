"""The miss ratio of small LRU caches, from bursts of consecutive lookups of all keys.

A sample of the keys cannot tell what is in a cache that holds few sampled keys.  A burst can: in
each ``PERIOD`` of lookups one of ``BURST`` is measured exactly, as if it began without a past.
Its first half only fills the caches.  In the second, a lookup of a key that was not looked up in
the burst before has a distance of at least as many keys as the burst has seen; whether larger
caches would miss is open, and the interval allows for both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nicscope.drivers.onepass.bucket import BUCKETS, at_or_beyond, bucket_of
from nicscope.drivers.onepass.distance import StackDistances
from nicscope.kernel.decorators import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

PERIOD = 1 << 19  # lookups
BURST = 1 << 15
FILLING = BURST // 2
GROUPS = 32
FEWEST = 6  # bursts from which to estimate how much they differ

# Student's t, two-sided 99 %, for FEWEST - 1 = 5 to GROUPS - 1 = 31 degrees of freedom; any table
# has these.  99 %, not 95, because the narrower of two intervals is taken in the end, and a user
# looks at many capacities at once.
STUDENT_99 = (
    4.032, 3.707, 3.499, 3.355, 3.250, 3.169, 3.106, 3.055, 3.012, 2.977, 2.947, 2.921, 2.898,
    2.878, 2.861, 2.845, 2.831, 2.819, 2.807, 2.797, 2.787, 2.779, 2.771, 2.763, 2.756, 2.750,
    2.744,
)  # fmt: skip


class Guess(NamedTuple):
    """Miss ratios and, on both sides, how far they may be off; each of shape (capacities,)."""

    ratio: NDArray[np.float64]
    error: NDArray[np.float64]


@kernel
def record_burst(state, distances, measured, unseen):
    """Count the lookups of a burst that come after its first half.

    ``state`` holds the lookups of the burst so far, and its keys.  A key that was last looked up
    in an earlier burst has a distance of at least all keys of this one.  ``measured`` counts
    distances, or all keys so far if that is less; ``unseen`` the latter alone.
    """
    for i in range(distances.size):
        distance, keys = np.int64(distances[i]), state[1]
        if state[0] >= FILLING:
            measured[bucket_of(min(distance, keys))] += 1.0
            if distance >= keys:
                unseen[bucket_of(keys)] += 1.0
        state[0] += 1
        state[1] += distance >= keys


class Bursts:
    """Bursts of one NIC's lookups; every key costs 4 bytes."""

    def __init__(self, seed: int) -> None:
        """Place the bursts by ``seed``."""
        self._random = np.random.default_rng(seed)
        self._distances = StackDistances()
        self._state = np.zeros(2, np.int64)
        self._measured = np.zeros((GROUPS, BUCKETS + 1))
        self._unseen = np.zeros((GROUPS, BUCKETS + 1))
        self._number = -1
        self._start = -BURST  # of the current burst; the next is placed when it is over
        self._done = 0

    def feed(self, numbers: NDArray[np.uint32]) -> None:
        """Look up ``numbers`` after all that were fed before."""
        end = self._done + len(numbers)
        while self._done < end:
            if self._done >= self._start + BURST:
                self._place_next()
            until = min(end, self._start + BURST)
            if self._start < end:
                burst = numbers[max(self._start, self._done) + len(numbers) - end :]
                self._record(burst[: until - max(self._start, self._done)])
            self._done = until if self._start < end else end

    def skip(self) -> None:
        """Measure only what comes from here on; a burst under way goes on."""
        self._measured[:] = 0
        self._unseen[:] = 0

    def guess(self, capacities: NDArray[np.float64]) -> Guess | None:
        """Return the miss ratio at ``capacities``, if there were bursts enough."""
        started = self._measured.any(axis=1)
        groups = int(np.count_nonzero(started))
        if groups < FEWEST:
            return None
        measured, unseen = self._measured[started], self._unseen[started]
        lookups = measured.sum(axis=1)
        known = at_or_beyond(measured, capacities)
        doubt = (unseen.sum(axis=1)[:, None] - at_or_beyond(unseen, capacities)) / 2
        total = lookups.sum()
        misses = known + doubt
        ratio = misses.sum(axis=0) / total
        rest = misses - ratio * lookups[:, None]
        deviation = np.sqrt(rest.var(axis=0, ddof=1) * groups) / total
        return Guess(ratio, STUDENT_99[groups - FEWEST] * deviation + doubt.sum(axis=0) / total)

    def _place_next(self) -> None:
        self._number += 1
        self._start = self._number * PERIOD + int(self._random.integers(PERIOD - BURST + 1))
        self._state[:] = 0

    def _record(self, numbers: NDArray[np.uint32]) -> None:
        group = self._number % GROUPS
        for distances in self._distances.pieces(numbers):
            record_burst(self._state, distances, self._measured[group], self._unseen[group])
