"""What goes wrong on the way, by seed: a packet's fate depends on who sent it and which it is.

Fates are hashes, not draws, so no order of asking and no batching changes them.  The hash is
Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): its key is
the seed, its counter the packet.  How a driver realises a fate: ``docs/reliability.md``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nicscope.clock import NEVER
from nicscope.kernel.decorators import step
from nicscope.kernel.records import records

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

# A fate is a sum of these.
LOST = 1
DUPLICATED = 2
REORDERED = 4
CORRUPTED = 8

NOWHERE = -1

LOW = 0xFFFFFFFF
WORDS = 2**32
ROUNDS = 10
# What a hash is asked for.
FATE = 0
BIT = 1

# A fault befalls a packet if its word of the hash is below the threshold: probability * 2**32.
FAULTS = np.dtype(
    [
        ("seed", "u8"),
        ("loss", "i8"),
        ("duplication", "i8"),
        ("reordering", "i8"),
        ("corruption", "i8"),
    ],
    align=True,
)


class Deaths(NamedTuple):
    """When parts of the network die: ps, ``NEVER`` if they do not."""

    links: NDArray[np.int64]  # shape (links,)
    nodes: NDArray[np.int64]  # shape (nodes,)


def new_faults(
    seed: int,
    loss: float = 0.0,
    duplication: float = 0.0,
    reordering: float = 0.0,
    corruption: float = 0.0,
) -> NDArray[Any]:
    """FAULTS, shape (1,), from probabilities per packet on the network.  Errors: ValueError.

    A probability is rounded up to the next multiple of 2**-32; 0 and 1 are exact.
    """
    if not 0 <= seed < 2**64:
        raise ValueError(f"the seed must be from 0 to 2**64 - 1, got {seed!r}")
    given = {
        "loss": loss,
        "duplication": duplication,
        "reordering": reordering,
        "corruption": corruption,
    }
    faults = records(1, FAULTS)
    faults["seed"] = seed
    for name, probability in given.items():
        if not 0 <= probability <= 1:
            raise ValueError(f"{name} must be a probability from 0 to 1, got {probability!r}")
        faults[name] = int(np.ceil(probability * WORDS))
    return faults


def new_deaths(
    links: int,
    nodes: int,
    of_links: Mapping[int, int] | None = None,
    of_nodes: Mapping[int, int] | None = None,
) -> Deaths:
    """When which of ``links`` links and ``nodes`` nodes die, by number; the others live on.

    Errors: ValueError.
    """
    return Deaths(
        _times("link", links, of_links or {}),
        _times("node", nodes, of_nodes or {}),
    )


def _times(what: str, count: int, deaths: Mapping[int, int]) -> NDArray[np.int64]:
    times = np.full(count, NEVER, np.int64)
    for number, time in deaths.items():
        if not 0 <= number < count:
            raise ValueError(f"there are {what}s 0 to {count - 1}, got {number!r} to die")
        if not 0 <= time <= NEVER:
            raise ValueError(f"{what} {number} must die at 0 ps or later, got {time!r}")
        times[number] = time
    return times


@step
def is_dead(times, number, now):
    """Whether that link or node is dead at ``now`` (ps)."""
    return now >= times[number]


@step
def fate(faults, sender, number, copy):
    """The faults of a packet: a sum of ``LOST``, ``DUPLICATED``, ``REORDERED``, ``CORRUPTED``.

    ``faults``: a record of FAULTS.  ``sender`` and ``number`` name the packet, ``copy`` which
    sending of it this is, each by its low 32 bits.
    """
    lost, duplicated, reordered, corrupted = _hash(faults.seed, sender, number, copy, FATE)
    happens = np.int64(0)
    if lost < faults.loss:
        happens |= LOST
    if duplicated < faults.duplication:
        happens |= DUPLICATED
    if reordered < faults.reordering:
        happens |= REORDERED
    if corrupted < faults.corruption:
        happens |= CORRUPTED
    return happens


@step
def damaged_bit(faults, sender, number, copy, byte_count):
    """The place of the one bit of so many bytes (up to 2**28) that the network inverts.

    Bit 0 is the lowest of the first byte.
    """
    word, _, _, _ = _hash(faults.seed, sender, number, copy, BIT)
    return np.int64((np.uint64(word) * np.uint64(8 * byte_count)) >> np.uint64(32))


@step
def invert(content, place):
    """Invert bit ``place`` of ``content`` (uint8, 1-D)."""
    content[place >> 3] = content[place >> 3] ^ np.uint8(1 << (place & 7))


@step
def flip(content, faults, sender, number, copy):
    """The place of the one bit of ``content`` (uint8, 1-D) that this inverts.

    ``NOWHERE`` if there are no bytes.
    """
    if content.size == 0:
        return NOWHERE
    place = damaged_bit(faults, sender, number, copy, content.size)
    invert(content, place)
    return place


@step
def _hash(seed, sender, number, copy, purpose):
    """Four words of 32 bits, int64, from the packet's name under ``seed``."""
    key = np.uint64(seed)
    return philox(
        number & LOW,
        sender & LOW,
        copy & LOW,
        purpose,
        np.int64(key & np.uint64(LOW)),
        np.int64(key >> np.uint64(32)),
    )


@step
def philox(a, b, c, d, left, right):
    """Philox4x32-10 of counter (a, b, c, d) and key (left, right): four 32-bit words, int64."""
    for _ in range(ROUNDS):
        # Products of two 32-bit words just fit unsigned.
        one = np.uint64(a) * np.uint64(0xD2511F53)
        two = np.uint64(c) * np.uint64(0xCD9E8D57)
        a = np.int64(two >> np.uint64(32)) ^ b ^ left
        b = np.int64(two & np.uint64(LOW))
        c = np.int64(one >> np.uint64(32)) ^ d ^ right
        d = np.int64(one & np.uint64(LOW))
        left = (left + 0x9E3779B9) & LOW
        right = (right + 0xBB67AE85) & LOW
    return a, b, c, d
