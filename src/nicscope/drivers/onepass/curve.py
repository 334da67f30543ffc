"""Misses of fully associative LRU caches of every capacity at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nicscope.drivers.onepass.distance import NEVER, StackDistances
from nicscope.kernel.decorators import kernel

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


class Curve(NamedTuple):
    """What fully associative LRU caches miss."""

    lookups: int
    compulsory: int  # first lookups of a key, which every cache misses
    misses: NDArray[np.int64]  # shape (footprint + 1,): misses with room for 0, 1, ... keys

    @property
    def footprint(self) -> int:
        """Keys that were looked up, those of lookups that were skipped among them."""
        return len(self.misses) - 1

    def misses_at(self, capacities: ArrayLike) -> NDArray[np.int64]:
        """Misses with room for ``capacities`` keys each, which may exceed the footprint."""
        return self.misses[np.minimum(capacities, len(self.misses) - 1)]


@kernel
def tally(counts, distances):
    """Count each distance but ``NEVER``."""
    for i in range(distances.size):
        if distances[i] != NEVER:
            counts[np.uint64(distances[i])] += 1


class LruCurve:
    """The exact miss curve of fully associative LRU caches, of any footprint."""

    def __init__(self) -> None:
        self._distances = StackDistances()
        self._counts = np.zeros(1024, np.int64)
        self._lookups = 0
        self._before = 0  # keys that were looked up when counting began

    def feed(self, numbers: NDArray[np.uint32]) -> LruCurve:
        """Look up ``numbers`` (uint32, 1-D) after all that were fed before."""
        for distances in self._distances.pieces(numbers):
            self.take(distances, self._distances.keys)
        return self

    def take(self, distances: NDArray[np.uint32], keys: int) -> None:
        """Count distances that were measured elsewhere, among ``keys`` keys so far."""
        self._lookups += len(distances)
        if keys > len(self._counts):
            bigger = np.zeros(2 * keys, np.int64)
            bigger[: len(self._counts)] = self._counts
            self._counts = bigger
        tally(self._counts, distances)

    def skip(self) -> None:
        """Count only what comes from here on; what was looked up stays in the caches."""
        self._before += self._lookups - int(self._counts.sum())
        self._counts[:] = 0
        self._lookups = 0

    def result(self) -> Curve:
        """Return the curve of everything fed, and not skipped, so far."""
        compulsory = self._lookups - int(self._counts.sum())
        footprint = self._before + compulsory
        misses = np.full(footprint + 1, self._lookups)
        misses[1:] -= np.cumsum(self._counts[:footprint])
        return Curve(self._lookups, compulsory, misses)
