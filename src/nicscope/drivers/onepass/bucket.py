"""Counts of distances in few buckets: each to itself first, then in parts of an octave."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nicscope.kernel.decorators import kernel

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
