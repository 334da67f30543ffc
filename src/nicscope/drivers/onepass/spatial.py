"""Choosing keys by a hash, and counting what was measured of them.

A key is sampled if its hash lies below a threshold: then all its lookups are, and a stack
distance among sampled keys is to one among all keys as the threshold is to 2**64.
Source: C. Waldspurger, N. Park, A. Garthwaite and I. Ahmad, "Efficient MRC construction with
SHARDS", FAST 2015.
"""

from __future__ import annotations

import numpy as np

from nicscope.drivers.onepass.bucket import NO_REUSE, bit_length, bucket_of
from nicscope.drivers.onepass.distance import NEVER
from nicscope.kernel.decorators import kernel

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
