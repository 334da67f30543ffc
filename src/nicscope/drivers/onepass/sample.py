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

Small capacities are better told from bursts of lookups (``burst``): a capacity gets
the estimate from these where its interval is much narrower.

Source: for the sampling and its fixed-size form, see ``spatial``; strata and groups are standard
practice of survey sampling (W. G. Cochran, "Sampling Techniques", 3rd edition, 1977, 5A.9, 6.13).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nicscope.drivers.onepass.bucket import BUCKETS, PARTS, at_or_beyond
from nicscope.drivers.onepass.burst import Bursts
from nicscope.drivers.onepass.distance import StackDistances, check_numbers
from nicscope.drivers.onepass.spatial import GROUPS, STRATA, add_strata, choose, hashes, record

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

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
