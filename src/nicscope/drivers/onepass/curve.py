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
    # Misses with room for 0, 1, ... groups of keys, to where there is room for all.
    misses: NDArray[np.int64]
    group: int = 1  # keys that are looked up together or not at all

    @property
    def footprint(self) -> int:
        """Keys that were looked up, those of lookups that were skipped among them."""
        return self.group * (len(self.misses) - 1)

    def misses_at(self, capacities: ArrayLike) -> NDArray[np.int64]:
        """Misses with room for ``capacities`` keys each, which may exceed the footprint."""
        groups = np.asarray(capacities) // self.group
        found: NDArray[np.int64] = self.misses[np.minimum(groups, len(self.misses) - 1)]
        return found

    def of_groups(self, bits: int) -> Curve:
        """The same, where each key that was fed stands for 2**bits, which are its group.

        A group of which a cache has not room for all is missed as a whole when it comes again:
        each of its keys comes after all others.
        """
        keys = self.group << bits
        parts = (self.lookups << bits, self.compulsory << bits, self.misses << bits)
        return Curve(*parts, keys)


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

    def feed(self, numbers: NDArray[np.uint32], repeats: int = 0) -> LruCurve:
        """Look up ``numbers`` (uint32, 1-D) after all that were fed before.

        And ``repeats`` times the one that was looked up last, where that was left out.
        """
        self.repeat(repeats)
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

    def repeat(self, times: int) -> None:
        """Look up so many times what was looked up last."""
        self._lookups += times
        self._counts[0] += times

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
