"""Misses of set-associative LRU caches of many shapes, and why they missed.

Sets refine by bits of the index: a set of a cache with ``2**s`` sets is divided between two sets
of the next.  So a key that was looked up last in its set was looked up last in its smaller sets
too: it stands first there, changes nothing, and need not be looked up any more.  What is left
of a piece of the lookups goes from level to level, coarse to fine, and gets fewer.

The rows hold keys in order of recency, so one level tells the misses for each number of ways.
Source: M. D. Hill and A. J. Smith, "Evaluating associativity in CPU caches", IEEE Transactions
on Computers 38(12), 1989, for the inclusion; the kinds of misses are those of replay.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.drivers.onepass.curve import Curve, LruCurve
from nicscope.drivers.onepass.distance import PIECE, StackDistances, check_numbers
from nicscope.kernel.decorators import coded, kernel
from nicscope.memory_limit import zeros

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


# Sets of keys in order of recency, and the one operation on them.
#
# A set is a row of 8 or 16 uint32 keys, most recently looked up first, ``EMPTY`` at its end.  A
# look-up tells how deep the key stood and puts it first.  Scalar code takes several branches that
# no processor can foresee; as a vector, a row is compared and moved at once.  The vector code is
# plain LLVM, so it compiles for any processor.

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


MOST_SET_BITS = 26

# Counts are kept four times and added up in the end: a lookup that counts where the one before
# it did would have to wait for it.
COPIES = 4
ONE, COPY, HALF = np.uint64(1), np.uint64(COPIES - 1), np.uint64(32)
# No lookup has this number.  Rows hold the numbers' complements, so that its place is an empty one.
NO_NUMBER = np.uint32(0xFFFFFFFF)


class Counts(NamedTuple):
    """What set-associative LRU caches miss; row ``i`` has ``2**set_bits[i]`` sets."""

    set_bits: NDArray[np.int64]  # shape (levels,), ascending
    lookups: int
    misses: NDArray[np.int64]  # shape (levels, ways): with 1, 2, ... ways
    kinds: Kinds | None  # if asked for


class Kinds(NamedTuple):
    """The misses by kind: compulsory + capacity + conflict = misses."""

    capacity: NDArray[np.int64]  # shape (levels, ways): LRU over all entries would miss too
    conflict: NDArray[np.int64]  # shape (levels, ways): it would hit
    fully_associative: Curve  # which also says how many misses are compulsory


class Batch(NamedTuple):
    """The lookups of a piece that still matter; overwritten from level to level."""

    lookups: NDArray[np.uint64]  # the number's complement in the upper half, index in the lower
    distances: NDArray[np.uint32]  # LRU stack distances over all keys; empty if not asked for


@kernel
def gather(batch, numbers, index, distances):
    """Fill ``batch`` with the lookups that do not repeat the one before; how many they are."""
    kept = 0
    previous = NO_NUMBER
    for i in range(numbers.size):
        batch.lookups[kept] = np.uint64(numbers[i] ^ NO_NUMBER) << HALF | np.uint64(index[i])
        if batch.distances.size:
            batch.distances[kept] = distances[i]
        kept += numbers[i] != previous
        previous = numbers[i]
    return kept


@kernel
def sift(sets, level, batch, size, counts, lanes):
    """Look up the first ``size`` of ``batch``; how many stood deeper than first, and are kept.

    ``counts``, shape (COPIES * (ways + 1),), is indexed by copy and depth.
    """
    ways = np.uint64(len(lanes))
    mask = (ONE << level) - ONE
    kept = 0
    for i in range(size):
        lookup = batch.lookups[i]
        depth = look_up(sets, (lookup & mask) * ways, np.uint32(lookup >> HALF), lanes)
        counts[(np.uint64(i) & COPY) * (ways + ONE) + depth] += 1
        batch.lookups[kept] = lookup
        kept += depth != 0
    return kept


@kernel
def sift_with_distances(sets, level, batch, size, counts, lanes):
    """As ``sift``; ``counts`` is indexed by copy, depth and depth in an equal share of all keys.

    The last is the stack distance per set, at most ``ways``: a fully associative cache of
    ``sets * w`` entries misses from ``w`` on.
    """
    ways = np.uint64(len(lanes))
    mask = (ONE << level) - ONE
    kept = 0
    for i in range(size):
        lookup, distance = batch.lookups[i], batch.distances[i]
        depth = look_up(sets, (lookup & mask) * ways, np.uint32(lookup >> HALF), lanes)
        share = min(np.uint64(distance) >> level, ways)
        row = (np.uint64(i) & COPY) * (ways + ONE) + depth
        counts[row * (ways + ONE) + share] += 1
        batch.lookups[kept] = lookup
        batch.distances[kept] = distance
        kept += depth != 0
    return kept


@kernel
def cascade(sets, levels, batch, size, counts, lanes):
    """Sift the first ``size`` of ``batch`` through the levels ``levels[0] ... levels[1]``.

    The sets of one level follow those of the one before.
    """
    first = 0
    for level in range(levels[0], levels[1] + 1):
        row = counts[level - levels[0]]
        if batch.distances.size == 0:
            size = sift(sets[first:], np.uint64(level), batch, size, row, lanes)
        else:
            size = sift_with_distances(sets[first:], np.uint64(level), batch, size, row, lanes)
        first += len(lanes) << level


def of_groups(counts: Counts, bits: int, low: int, high: int) -> Counts:
    """The caches with 2**low to 2**high sets, where each key that was fed stands for 2**bits.

    These are looked up one after the other and lie in one set after the other: as many keys as a
    cache has sets stand for each other.  ``counts`` are those of the fed keys, from 1 set on if
    there are fewer sets than keys in a group; a group then takes several ways of each set.
    """
    first = int(counts.set_bits[0])
    ways = np.arange(1, counts.misses.shape[1] + 1)
    levels = np.arange(low, high + 1)
    rows = np.maximum(levels - bits, 0) - first
    # Groups that a set has room for; where it has none, all of its lookups miss.
    room = ways[None, :] >> np.maximum(bits - levels, 0)[:, None]
    columns = (rows[:, None], np.maximum(room - 1, 0))
    misses = np.where(room > 0, counts.misses[columns], counts.lookups) << bits
    kinds = counts.kinds
    if kinds is not None:
        whole = kinds.fully_associative
        small = counts.lookups - whole.compulsory
        capacity = np.where(room > 0, kinds.capacity[columns], small) << bits
        conflict = np.where(room > 0, kinds.conflict[columns], 0) << bits
        kinds = Kinds(capacity, conflict, whole.of_groups(bits))
    return Counts(levels, counts.lookups << bits, misses, kinds)


class SetAssociativeGrid:
    """Every set-associative LRU cache with a power of two of sets, and 1 up to ``ways`` ways."""

    def __init__(
        self,
        max_set_bits: int = MOST_SET_BITS,
        ways: int = 8,
        split: bool = True,
        *,
        min_set_bits: int = 0,
    ) -> None:
        """Set counts from ``2**min_set_bits`` to ``2**max_set_bits``; kinds of misses if ``split``.

        Errors: ValueError for more than 2**26 sets or 16 ways.
        """
        if not 0 <= min_set_bits <= max_set_bits <= MOST_SET_BITS:
            found = f"{min_set_bits!r} and {max_set_bits!r}"
            raise ValueError(f"set bits must ascend from 0 to {MOST_SET_BITS}, got {found}")
        if not 1 <= ways <= WIDTHS[-1]:
            raise ValueError(f"ways must be from 1 to {WIDTHS[-1]}, got {ways!r}")
        width = next(width for width in WIDTHS if width >= ways)
        self._ways = ways
        self._lanes = (0,) * width
        self._levels = (min_set_bits, max_set_bits)
        self._sets = empty_sets((2 << max_set_bits) - (1 << min_set_bits), width)
        shares = width + 1 if split else 1
        self._shape = (max_set_bits - min_set_bits + 1, COPIES, width + 1, shares)
        self._counts = np.zeros((self._shape[0], COPIES * (width + 1) * shares), np.int64)
        self._lookups = 0
        self._split = split
        # The last place takes what is written but not kept.
        self._batch = Batch(
            np.empty(PIECE + 1, np.uint64), np.empty((PIECE + 1) * split, np.uint32)
        )
        self._distances = StackDistances()
        self._curve = LruCurve()

    def feed(
        self, numbers: NDArray[np.uint32], index: NDArray[np.integer], repeats: int = 0
    ) -> SetAssociativeGrid:
        """Look up ``numbers`` (uint32, 1-D, below 2**32 - 1) in the sets of ``index`` (integers).

        A key must come with the same ``index`` every time.  ``repeats``: as ``LruCurve.feed``.
        """
        check_numbers(numbers)
        if index.shape != numbers.shape:
            raise ValueError(f"index must be as long as numbers, {len(numbers)}, got {len(index)}")
        if numbers.max(initial=0) == NO_NUMBER:
            raise ValueError(f"numbers must be below {NO_NUMBER}, which stands for no key")
        self._lookups += len(numbers) + repeats
        self._curve.repeat(repeats)
        mask = (1 << self._levels[1]) - 1
        start = 0
        for distances in self._pieces(numbers):
            end = start + len(distances) if self._split else min(start + PIECE, len(numbers))
            low = (index[start:end] & mask).astype(np.uint32)
            size = gather(self._batch, numbers[start:end], low, distances)
            cascade(self._sets, self._levels, self._batch, size, self._counts, self._lanes)
            start = end
        return self

    def _pieces(self, numbers: NDArray[np.uint32]) -> Iterator[NDArray[np.uint32]]:
        """Yield the distances of each piece, which the curve gets too; empty ones unless split."""
        if not self._split:
            yield from repeat(np.empty(0, np.uint32), -(-len(numbers) // PIECE))
            return
        for distances in self._distances.pieces(numbers):
            self._curve.take(distances, self._distances.keys)
            yield distances

    def skip(self) -> None:
        """Count only what comes from here on; what was looked up stays in the caches."""
        self._counts[:] = 0
        self._lookups = 0
        self._curve.skip()

    def held(self) -> NDArray[np.int64]:
        """Return how many keys each cache holds by now: shape (levels, ways), as ``misses``.

        A set of the w most recent keys is the first w of its row, and a cache never holds less
        than it did.
        """
        width = len(self._lanes)
        low, high = self._levels
        found = []
        for level in range(low, high + 1):
            first = ((1 << level) - (1 << low)) * width
            rows = self._sets[first : first + (width << level)].reshape(-1, width)
            # Keys stand in front: the k-th place is taken in as many sets as hold k keys or more.
            found.append(np.cumsum(np.count_nonzero(rows != EMPTY, axis=0))[: self._ways])
        return np.array(found, np.int64)

    def result(self, *, last: bool = False) -> Counts:
        """Return the misses in everything fed so far; if ``last``, nothing is fed any more."""
        # joint[s, d, e]: lookups that stood d deep in their set, and e deep in their share.
        joint = self._counts.reshape(self._shape).sum(axis=1)
        joint[:, 0, 0] += self._lookups - joint.sum(axis=(1, 2))  # those sifted out before
        levels = np.arange(self._levels[0], self._levels[1] + 1)
        misses = _at_least(joint.sum(axis=2), axis=1)[:, 1 : self._ways + 1]
        if not self._split:
            return Counts(levels, self._lookups, misses, None)
        if last:
            self._distances = StackDistances()
        curve = self._curve.taken() if last else self._curve.result()
        both = _at_least(_at_least(joint, axis=1), axis=2)
        ways = np.arange(1, self._ways + 1)
        capacity = both[:, ways, ways] - curve.compulsory
        kinds = Kinds(capacity, misses - capacity - curve.compulsory, curve)
        return Counts(levels, self._lookups, misses, kinds)


def _at_least(counts: NDArray[np.int64], axis: int) -> NDArray[np.int64]:
    """Sum ``counts`` from each place of ``axis`` to its end."""
    return np.flip(np.cumsum(np.flip(counts, axis), axis), axis)
