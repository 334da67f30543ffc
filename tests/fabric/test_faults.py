"""Fates are as likely as asked, independent, and the same however one asks."""

import math
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicscope.clock import NEVER
from nicscope.fabric.faults import (
    CORRUPTED,
    DUPLICATED,
    LOST,
    NOWHERE,
    REORDERED,
    fate,
    flip,
    is_dead,
    new_deaths,
    new_faults,
    philox,
)
from nicscope.kernel.decorators import kernel
from suite import INTERPRETED

PACKETS = 20_000 if INTERPRETED else 400_000
WORD = st.integers(0, 2**32 - 1)

# Of Random123's kat_vectors for philox4x32 10: counter, key, result.
PUBLISHED = [
    ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xA4093822, 0x299F31D0],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]


@kernel
def fates_of(faults, sender, copy, fates):
    """The fates of the sender's first packets."""
    for number in range(fates.size):
        fates[number] = fate(faults[0], sender, number, copy)


def fates(faults, sender=0, copy=0, count=PACKETS):
    out = np.zeros(count, np.uint8)
    fates_of(faults, sender, copy, out)
    return out


@pytest.mark.parametrize(("counter", "key", "result"), PUBLISHED)
def test_the_hash_is_the_published_one(counter, key, result):
    assert list(philox(*counter, *key)) == result


@given(st.integers(0, 2**64 - 1), WORD, WORD, WORD)
def test_a_fate_is_a_plain_function_of_its_arguments(seed, sender, number, copy):
    faults = new_faults(seed, 0.3, 0.4, 0.5, 0.6)
    words = philox_of_python([number, sender, copy, 0], [seed % 2**32, seed >> 32])
    thresholds = [math.ceil(p * 2**32) for p in (0.3, 0.4, 0.5, 0.6)]
    bits = (LOST, DUPLICATED, REORDERED, CORRUPTED)
    below = [bit for bit, word, most in zip(bits, words, thresholds, strict=True) if word < most]

    assert fate(faults[0], sender, number, copy) == sum(below)


def philox_of_python(counter, key):
    """The paper's round, in whole numbers."""
    a, b, c, d = counter
    for step in range(10):
        left, right = ((k + step * w) % 2**32 for k, w in zip(key, WEYL, strict=True))
        one, two = a * 0xD2511F53, c * 0xCD9E8D57
        a, b, c, d = two >> 32 ^ b ^ left, two % 2**32, one >> 32 ^ d ^ right, one % 2**32
    return [a, b, c, d]


WEYL = (0x9E3779B9, 0xBB67AE85)


def test_each_fault_is_as_likely_as_asked_and_knows_nothing_of_the_others():
    asked = {LOST: 0.01, DUPLICATED: 0.02, REORDERED: 0.3, CORRUPTED: 0.5}
    seen = fates(new_faults(7, *asked.values()))

    for fault, probability in asked.items():
        expected = PACKETS * probability
        assert abs(np.count_nonzero(seen & fault) - expected) < 5 * math.sqrt(expected)
    both = PACKETS * 0.3 * 0.5
    together = np.count_nonzero((seen & REORDERED > 0) & (seen & CORRUPTED > 0))
    assert abs(together - both) < 5 * math.sqrt(both)


def test_another_seed_sender_or_copy_has_other_fates():
    seen = [
        fates(new_faults(seed, loss=0.5), sender, copy, 2_000)
        for seed, sender, copy in [(1, 0, 0), (2, 0, 0), (2**32 + 1, 0, 0), (1, 1, 0), (1, 0, 1)]
    ]

    for i, one in enumerate(seen):
        for other in seen[:i]:
            assert 800 < np.count_nonzero(one != other) < 1_200


def test_nothing_happens_at_0_and_everything_at_1():
    assert not fates(new_faults(3), count=1_000).any()
    assert (fates(new_faults(3, 1, 1, 1, 1), count=1_000) == 15).all()


@given(st.binary(min_size=1, max_size=200), WORD, st.integers(0, 5))
def test_a_corrupted_packet_differs_in_one_bit_and_its_crc_shows_it(content, number, copy):
    faults = new_faults(11)[0]
    changed = np.frombuffer(content, np.uint8).copy()
    place = flip(changed, faults, 0, number, copy)
    difference = np.unpackbits(
        changed ^ np.frombuffer(content, np.uint8), bitorder="little"
    ).nonzero()[0]

    assert difference.tolist() == [place]
    assert zlib.crc32(changed.tobytes()) != zlib.crc32(content)


def test_every_bit_of_a_packet_can_be_hit():
    faults = new_faults(5)[0]
    places = {int(flip(np.zeros(4, np.uint8), faults, 0, number, 0)) for number in range(500)}

    assert places == set(range(32))
    assert flip(np.zeros(0, np.uint8), faults, 0, 0, 0) == NOWHERE


def test_what_dies_is_dead_from_then_on_and_the_rest_lives():
    deaths = new_deaths(3, 2, {1: 500}, {0: 0})

    assert [bool(is_dead(deaths.links, 1, now)) for now in (0, 499, 500, NEVER)] == [
        False,
        False,
        True,
        True,
    ]
    assert is_dead(deaths.nodes, 0, 0)
    assert not is_dead(deaths.links, 0, NEVER - 1)
    assert not is_dead(deaths.nodes, 1, NEVER - 1)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"loss": 1.5}, "loss must be a probability from 0 to 1, got 1.5"),
        ({"corruption": -0.1}, "corruption must be a probability from 0 to 1, got -0.1"),
        ({"reordering": math.nan}, "reordering must be a probability from 0 to 1, got nan"),
        ({"seed": -1}, "the seed must be from 0 to 2\\*\\*64 - 1, got -1"),
    ],
)
def test_what_is_no_probability_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        new_faults(**{"seed": 0, **wrong})


def test_a_death_of_what_is_not_there_is_refused():
    with pytest.raises(ValueError, match="there are links 0 to 2, got 3 to die"):
        new_deaths(3, 2, {3: 0})
    with pytest.raises(ValueError, match="node 1 must die at 0 ps or later, got -1"):
        new_deaths(3, 2, of_nodes={1: -1})
