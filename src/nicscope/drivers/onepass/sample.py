"""The LRU miss curve of a NIC, estimated from the lookups of some keys.

The estimate.  Lookups are divided into strata by how often their key was looked up before: that
is known of every lookup, sampled or not, and says most about how soon a key comes back.  The
share of misses among a stratum's sampled lookups is taken for that of all its lookups.  Few keys
get as far as the last strata; where fewer than ``LEAST_IN_STRATUM`` sampled keys did, lookups
count as many times as there are keys per sampled key, and what is lacking then counts as hits
(the correction of SHARDS-adj).  First lookups, and the number of keys, are known exactly.

The interval adds what two errors may be.  Which keys were sampled: from the differences between
``GROUPS`` groups of the sampled keys, by Student's t.  How many of the keys between two lookups
of a key were sampled, which shifts the curve sideways, and alike for many lookups: the
hypergeometric deviation around each capacity, to which the width of a bucket is added.

Small capacities are better told from bursts of lookups (``Bursts``): a capacity gets
the estimate from these where its interval is much narrower.

Source: for the sampling and its fixed-size form, see where keys are chosen; strata and groups are
standard practice of survey sampling (W. G. Cochran, "Sampling Techniques", 3rd edition, 1977, 5A.9,
6.13).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nicscope.drivers.onepass.distance import NEVER, StackDistances, check_numbers
from nicscope.kernel.decorators import kernel

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


# Counts of distances in few buckets: each to itself first, then in parts of an octave.

PART_BITS = 6
PARTS = 1 << PART_BITS
OCTAVES = 40 - PART_BITS
BUCKETS = PARTS * (OCTAVES + 1)
NO_REUSE = BUCKETS  # where first lookups are counted


@kernel
def bit_length(value):
    """How many bits ``value`` has without leading zeros."""
    length = 0
    while value > 0:
        value >>= 1
        length += 1
    return length


@kernel
def bucket_of(distance):
    """Where a whole ``distance`` is counted."""
    octave = max(0, bit_length(distance) - PART_BITS - 1)
    return min(octave * PARTS + (distance >> octave), BUCKETS - 1)


def bucket_starts() -> NDArray[np.int64]:
    """Return the least distance of each bucket, and where the last ends; (BUCKETS + 1,)."""
    bucket = np.arange(BUCKETS + 1)
    octave = np.maximum(bucket // PARTS - 1, 0)
    starts: NDArray[np.int64] = (bucket - octave * PARTS) << octave
    return starts


def at_or_beyond(counts: NDArray[np.float64], places: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return how many were counted at ``places`` or beyond: the last axis becomes theirs.

    A bucket that a place divides is taken to be filled evenly.
    """
    beyond = np.flip(np.cumsum(np.flip(counts, -1), -1), -1)
    place = np.interp(places, bucket_starts(), np.arange(BUCKETS + 1))
    bucket = np.minimum(place.astype(np.int64), BUCKETS - 1)
    part = place - bucket
    found: NDArray[np.float64] = beyond[..., bucket] * (1 - part) + beyond[..., bucket + 1] * part
    return found


# Choosing keys by a hash, and counting what was measured of them.
#
# A key is sampled if its hash lies below a threshold: then all its lookups are, and a stack
# distance among sampled keys is to one among all keys as the threshold is to 2**64.
# Source: C. Waldspurger, N. Park, A. Garthwaite and I. Ahmad, "Efficient MRC construction with
# SHARDS", FAST 2015.

GROUP_BITS = 5
GROUPS = 1 << GROUP_BITS  # the sampled keys, divided at random
STRATA = 17  # a lookup's is the bit length of the number of earlier lookups of its key, at most
MOST = np.uint16(0xFFFF)  # earlier lookups

FIRST, SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)
HALF, GROUP_PLACE, GROUP_MASK = np.uint64(32), np.uint64(20), np.uint64(GROUPS - 1)
GOLDEN, WORD = 0x9E3779B9, 0xFFFFFFFF  # 2**32 / golden ratio: multiples are spread evenly


@kernel
def mixed(key, seed):
    """Hash of ``key``, 64 bits; ``seed`` is 64 bits too."""
    value = (np.uint64(key) ^ seed) * FIRST
    return (value ^ (value >> HALF)) * SECOND


@kernel
def choose(numbers, counts, limits, chosen, earlier):
    """Write the lookups whose hash is below ``limits[1]``, seeded with ``limits[0]``; how many.

    ``earlier`` gets the number of earlier lookups of each key, which ``counts`` counts to ``MOST``.
    """
    size = 0
    for i in range(numbers.size):
        number = np.uint64(numbers[i])
        before = counts[number]
        counts[number] = before + np.uint16(before != MOST)
        chosen[size] = numbers[i]
        earlier[size] = before
        size += mixed(number, limits[0]) < limits[1]
    return size


@kernel
def hashes(numbers, seed, found):
    """Write the hash of every key."""
    for i in range(numbers.size):
        found[i] = mixed(numbers[i], seed)


@kernel
def record(counts, distances, earlier, sampled, scale):
    """Count sampled lookups by stratum, group and bucket of their distance among all keys.

    ``sampled`` holds the hashes.  ``scale`` is the sampling rate and the number of lookups
    recorded before.  A distance of j among sampled keys stands for all from j to j + 1, over
    which lookups are spread evenly.
    """
    keys = 1.0 / scale[0]
    for i in range(distances.size):
        stratum = bit_length(np.int64(earlier[i]))
        group = np.int64((sampled[i] >> GROUP_PLACE) & GROUP_MASK)
        if distances[i] == NEVER:
            counts[stratum, group, NO_REUSE] += 1.0
        else:
            part = ((scale[1] + i) * GOLDEN & WORD) / (WORD + 1)
            bucket = bucket_of(np.int64((distances[i] + part) * keys))
            counts[stratum, group, bucket] += 1.0


@kernel
def add_strata(counts, lookups):
    """Add to ``lookups`` how many lookups each stratum has, but for those beyond ``MOST``."""
    for key in range(counts.size):
        count = np.int64(counts[key])
        for stratum in range(STRATA):
            start = (1 << stratum) >> 1
            if start >= count:
                break
            lookups[stratum] += min(count, np.int64(1 << stratum)) - start


# The miss ratio of small LRU caches, from bursts of consecutive lookups of all keys.
#
# A sample of the keys cannot tell what is in a cache that holds few sampled keys.  A burst can: in
# each ``PERIOD`` of lookups one of ``BURST`` is measured exactly, as if it began without a past.
# Its first half only fills the caches.  In the second, a lookup of a key that was not looked up in
# the burst before has a distance of at least as many keys as the burst has seen; whether larger
# caches would miss is open, and the interval allows for both.

PERIOD = 1 << 19  # lookups
BURST = 1 << 15
FILLING = BURST // 2
BURST_GROUPS = 32
FEWEST = 6  # bursts from which to estimate how much they differ

# Student's t, two-sided 99 %, for FEWEST - 1 = 5 to BURST_GROUPS - 1 = 31 degrees of freedom; any
# table has these.  99 %, not 95, because the narrower of two intervals is taken in the end, and a
# user looks at many capacities at once.
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
        self._measured = np.zeros((BURST_GROUPS, BUCKETS + 1))
        self._unseen = np.zeros((BURST_GROUPS, BUCKETS + 1))
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
        group = self._number % BURST_GROUPS
        for distances in self._distances.pieces(numbers):
            record_burst(self._state, distances, self._measured[group], self._unseen[group])


PIECE = 1 << 18  # lookups at a time
WORTHWHILE = 1000  # sampled keys below which an exact curve is both better and cheap
LEAST_IN_STRATUM = 30  # sampled keys
NORMAL_95 = 1.96
STUDENT_95 = 2.04  # with GROUPS - 1 = 31 degrees of freedom
MUCH = 2  # times narrower the interval from bursts must be: the other adds up two worst cases
KEPT = 7 / 8  # of the sampled keys when they have become too many


class Estimate(NamedTuple):
    """What fully associative LRU caches miss, about."""

    capacities: NDArray[np.float64]  # shape (n,): room for so many keys
    miss_ratio: NDArray[np.float64]  # shape (n,): misses per lookup
    low: NDArray[np.float64]  # shape (n,): with high, an interval that holds the exact value
    high: NDArray[np.float64]  # shape (n,): of each capacity in at least 95 % of all samples
    lookups: int
    compulsory: int  # exact: first lookups of a key
    sampled_lookups: int
    sampled_keys: int
    rate: float  # the share of keys sampled that the threshold stood for in the end
    footprint: int  # exact: keys that were looked up, those of lookups that were skipped among them

    @property
    def is_pointless(self) -> bool:
        """Whether so few keys were sampled that the exact curve should be taken instead."""
        return self.sampled_keys < WORTHWHILE


class SampledCurve:
    """The miss curve of fully associative LRU caches from a sample of the keys.

    A fixed ``rate``, or at most ``keys`` keys: then all are sampled until they are too many, and
    the rate falls from there.  The same ``seed`` samples the same keys.  Every key costs 10 bytes,
    sampled or not.
    """

    def __init__(
        self, rate: float | None = None, *, keys: int | None = None, seed: int = 0
    ) -> None:
        """Sample either a share ``rate`` of the keys or at most ``keys`` keys.

        Errors: ValueError unless exactly one is given, the rate above 0 and at most 1, and keys
        at least 64.
        """
        if (rate is None) == (keys is None):
            raise ValueError("give either rate or keys")
        if rate is not None and not 0 < rate <= 1:
            raise ValueError(f"rate must be above 0 and at most 1, got {rate!r}")
        if keys is not None and keys < 2 * GROUPS:
            raise ValueError(f"keys must be at least {2 * GROUPS}, got {keys!r}")
        self._most = keys
        self._rate = 1.0 if rate is None else rate
        self._seed = np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]
        self._distances = StackDistances()
        self._counts = np.zeros(1024, np.uint16)  # shape (numbers,): lookups, at most MOST
        self._sampled = np.zeros((STRATA, GROUPS, BUCKETS + 1))
        self._bursts = Bursts(seed)
        self._lookups = 0
        self._skipped = 0  # lookups before those that count, and by stratum
        self._skipped_strata = np.zeros(STRATA, np.int64)
        self._recorded = 0

    def feed(self, numbers: NDArray[np.uint32]) -> SampledCurve:
        """Look up ``numbers`` (uint32, 1-D) after all that were fed before."""
        check_numbers(numbers)
        self._make_room(int(numbers.max(initial=0)))
        self._lookups += len(numbers)
        self._bursts.feed(numbers)
        chosen = np.empty(PIECE + 1, np.uint32)
        earlier = np.empty(PIECE + 1, np.uint16)
        with np.errstate(over="ignore"):  # hashes do, where nothing is compiled
            for start in range(0, len(numbers), PIECE):
                piece = numbers[start : start + PIECE]
                limits = (self._seed, self._threshold())
                size = choose(piece, self._counts, limits, chosen, earlier)
                self._take(chosen[:size], earlier[:size])
        return self

    def skip(self) -> None:
        """Count only what comes from here on; what was looked up stays in the caches."""
        self._skipped += self._lookups
        self._lookups = 0
        self._skipped_strata = self._strata()
        self._sampled[:] = 0
        self._recorded = 0
        self._bursts.skip()

    def _strata(self) -> NDArray[np.int64]:
        """Lookups by how often their key was looked up before, skipped ones among them."""
        strata = np.zeros(STRATA, np.int64)
        add_strata(self._counts, strata)
        strata[-1] += self._skipped + self._lookups - strata.sum()
        return strata

    def result(self, capacities: ArrayLike) -> Estimate:
        """Estimate the miss ratio with room for each of ``capacities`` keys."""
        capacities = np.asarray(capacities, np.float64)
        every = self._strata()
        strata = every - self._skipped_strata
        keys, compulsory = int(every[0]), int(strata[0])
        aside = self._sideways(capacities, keys)
        places = np.stack([capacities, capacities + aside, np.maximum(capacities - aside, 0)])
        (ratio, further, nearer), (error, _, _) = self._estimate(places, strata, keys)
        nearer[aside >= capacities] = 1.0  # as without a cache
        least = compulsory / max(self._lookups, 1)
        low, high = np.clip(further - error, least, 1), np.clip(nearer + error, least, 1)
        guess = self._bursts.guess(capacities)
        if guess is not None:
            better = MUCH * 2 * guess.error < high - low
            ratio = np.where(better, guess.ratio, ratio)
            low = np.where(better, guess.ratio - guess.error, low).clip(least, 1)
            high = np.where(better, guess.ratio + guess.error, high).clip(least, 1)
        ratio, low, high = (np.where(capacities < keys, x, least) for x in (ratio, low, high))
        if not self._distances.keys:
            low, high = np.zeros_like(low), np.ones_like(high)
        return Estimate(
            capacities,
            ratio,
            low,
            high,
            self._lookups,
            compulsory,
            self._recorded,
            self._distances.keys,
            self._rate,
            keys,
        )

    def _threshold(self) -> np.uint64:
        return np.uint64(min(int(self._rate * 2**64), 2**64 - 1))

    def _make_room(self, highest: int) -> None:
        if highest >= len(self._counts):
            bigger = np.zeros(max(highest + 1, len(self._counts) * 3 // 2), np.uint16)
            bigger[: len(self._counts)] = self._counts
            self._counts = bigger

    def _hashes(self, numbers: NDArray[np.uint32]) -> NDArray[np.uint64]:
        found = np.empty(len(numbers), np.uint64)
        hashes(numbers, self._seed, found)
        return found

    def _take(self, chosen: NDArray[np.uint32], earlier: NDArray[np.uint16]) -> None:
        """Record sampled lookups; sample less from where the keys become too many."""
        while self._most is not None:
            new = np.flatnonzero(earlier == 0)
            room = self._most - self._distances.keys
            if len(new) <= room:
                break
            end = new[room] + 1
            self._record(chosen[:end], earlier[:end])
            self._lower_rate()
            still = np.flatnonzero(self._hashes(chosen[end:]) < self._threshold()) + end
            chosen, earlier = chosen[still], earlier[still]
        self._record(chosen, earlier)

    def _record(self, chosen: NDArray[np.uint32], earlier: NDArray[np.uint16]) -> None:
        sampled = self._hashes(chosen)
        start = 0
        for distances in self._distances.pieces(chosen):
            piece = slice(start, start := start + len(distances))
            scale = (self._rate, self._recorded)
            record(self._sampled, distances, earlier[piece], sampled[piece], scale)
            self._recorded += len(distances)

    def _lower_rate(self) -> None:
        """Keep a share ``KEPT`` of the sampled keys; what was recorded weighs as much less."""
        known = self._distances.known()
        sampled = self._hashes(known)
        threshold = np.sort(sampled)[int(len(sampled) * KEPT)]
        before = self._rate
        self._rate = float(threshold) / 2**64
        self._sampled *= self._rate / before
        self._distances = StackDistances()
        for _ in self._distances.pieces(known[sampled < self._threshold()]):
            pass  # only the order of the keys matters from here on

    def _sideways(self, capacities: NDArray[np.float64], keys: int) -> NDArray[np.float64]:
        """How far a capacity may be from the one that the sample stands for."""
        sampled = max(self._distances.keys, 1)
        left = np.maximum(1 - capacities / max(keys, 1), 0)
        variance = capacities * left * max(keys - sampled, 0) / sampled
        return NORMAL_95 * np.sqrt(variance) + capacities / PARTS * (capacities >= 2 * PARTS)

    def _estimate(
        self, capacities: NDArray[np.float64], strata: NDArray[np.int64], keys: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Miss ratios at ``capacities``, and by how much the choice of keys may change them."""
        sampled_keys = max(self._distances.keys, 1)
        weight = max(keys, 1) / sampled_keys  # keys per sampled key
        last, is_last = self._last_stratum(strata)
        strata = np.append(strata[:last], strata[last:].sum())
        recorded = self._sampled[: last + 1].copy()
        recorded[last] += self._sampled[last + 1 :].sum(axis=0)

        every = recorded.sum(axis=2)  # shape (strata, groups), as are the first two of misses
        misses = at_or_beyond(recorded, capacities / (weight * self._rate))
        weights = strata / np.maximum(every.sum(axis=1), 1)
        shares = misses.sum(axis=1) / np.maximum(every.sum(axis=1), 1)[:, None, None]
        if not is_last:
            weights[last], shares[last] = weight, 0.0
        total = max(self._lookups, 1)
        ratio = np.einsum("s,sgij->ij", weights, misses) / total
        # How far a group is from having as many misses as its lookups would let one expect.
        rest = np.einsum("s,sgij->gij", weights, misses - shares[:, None] * every[..., None, None])
        variance = rest.var(axis=0, ddof=1) * GROUPS * max(1 - 1 / weight, 0)
        error = STUDENT_95 * np.sqrt(variance) / total
        if sampled_keys < LEAST_IN_STRATUM:
            error[:] = 1.0
        return np.clip(ratio, strata[0] / total if last else 0, 1), error

    def _last_stratum(self, strata: NDArray[np.int64]) -> tuple[int, bool]:
        """Return the last stratum that enough sampled keys got to, and whether any got further."""
        counts = self._counts[self._distances.known()]
        starts = (1 << np.arange(STRATA)) >> 1
        enough = (counts[:, None] > starts).sum(axis=0) >= LEAST_IN_STRATUM
        last = max(int(np.count_nonzero(enough)) - 1, 0)
        return last, not strata[last + 1 :].any()
