"""Misses of fully associative LRU caches of every capacity at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.drivers.onepass.distance import NEVER, StackDistances
from nicscope.kernel.decorators import kernel
from nicscope.memory_limit import outgrown

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

MANY = 1 << 24  # sizes: a curve of more takes half the memory if its misses fit 32 bits
MOST = 2**32 - 1  # lookups whose counts do
PIECE = 1 << 20  # sizes whose counts are added up at a time


class Curve(NamedTuple):
    """What fully associative LRU caches miss."""

    lookups: int
    compulsory: int  # first lookups of a key, which every cache misses
    # Misses with room for 0, 1, ... groups of keys, to where there is room for all: int64, or
    # uint32 from ``MANY`` groups on.
    misses: NDArray[Any]
    group: int = 1  # keys that are looked up together or not at all

    @property
    def footprint(self) -> int:
        """Keys that were looked up, those of lookups that were skipped among them."""
        return self.group * (len(self.misses) - 1)

    def misses_at(self, capacities: ArrayLike) -> NDArray[np.int64]:
        """Misses with room for ``capacities`` keys each, which may exceed the footprint."""
        groups = np.asarray(capacities) // self.group
        found = self.misses[np.minimum(groups, len(self.misses) - 1)]
        return np.asarray(found, np.int64)

    def of_groups(self, bits: int) -> Curve:
        """The same, where each key that was fed stands for 2**bits, which are its group.

        A group of which a cache has not room for all is missed as a whole when it comes again:
        each of its keys comes after all others.
        """
        if not bits:
            return self
        misses = self.misses.astype(np.int64) << bits
        return Curve(self.lookups << bits, self.compulsory << bits, misses, self.group << bits)


@kernel
def tally(counts, distances):
    """Count each distance but ``NEVER``."""
    for i in range(distances.size):
        if distances[i] != NEVER:
            counts[np.uint64(distances[i])] += 1


def _add_up(counts: NDArray[Any], lookups: int) -> None:
    """Replace counts of distances by the misses of ``lookups`` with room for so many keys each."""
    for begin in range(0, len(counts), PIECE):
        piece = counts[begin : begin + PIECE].astype(np.int64)
        hits = np.cumsum(piece)
        counts[begin : begin + PIECE] = lookups - hits + piece
        lookups -= int(hits[-1])


class LruCurve:
    """The exact miss curve of fully associative LRU caches, of any footprint."""

    def __init__(self) -> None:
        self._distances = StackDistances()
        self._counts: NDArray[Any] = np.zeros(1024, np.uint32)  # int64 if there may be more
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
        self._expect(len(distances))
        if keys > len(self._counts):
            self._counts = outgrown(self._counts, 2 * keys)
        tally(self._counts, distances)

    def repeat(self, times: int) -> None:
        """Look up so many times what was looked up last."""
        self._expect(times)
        self._counts[0] += times

    def _expect(self, lookups: int) -> None:
        """Have room for the counts of as many more."""
        self._lookups += lookups
        if self._lookups > MOST and self._counts.dtype == np.uint32:
            self._counts = self._counts.astype(np.int64)

    def skip(self) -> None:
        """Count only what comes from here on; what was looked up stays in the caches."""
        self._before += self._lookups - int(self._counts.sum())
        self._counts[:] = 0
        self._lookups = 0

    def result(self) -> Curve:
        """Return the curve of everything fed, and not skipped, so far."""
        return self._curve_in(self._counts.copy())

    def taken(self) -> Curve:
        """As ``result``, in the memory of what was fed: nothing can be fed any more."""
        counts, self._counts = self._counts, np.zeros(0, np.uint32)
        self._distances = StackDistances()
        return self._curve_in(counts)

    def _curve_in(self, counts: NDArray[Any]) -> Curve:
        compulsory = self._lookups - int(counts.sum())
        footprint = self._before + compulsory
        misses = outgrown(counts, footprint + 1)[: footprint + 1]
        _add_up(misses, self._lookups)
        if footprint < MANY:
            misses = misses.astype(np.int64)
        return Curve(self._lookups, compulsory, misses)
