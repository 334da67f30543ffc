"""The line of uses against tags in an ordered dictionary."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicscope.kernel.decorators import kernel
from nicscope.kernel.entry import bound
from nicscope.nic.recency import (
    LAST_TIME,
    drop_held,
    grown_recency,
    keep_uses,
    lowest_bit,
    new_recency,
    renew_held,
    uses_of,
)
from oracle.cache import PlainCache


class Uses(NamedTuple):
    recency: Any
    keys: Any
    held: Any  # shape (keys,): what was told of each use
    gone: Any


@kernel
def use_all(uses):
    now, oldest, word, left = uses_of(uses.recency)
    for i in range(uses.keys.size):
        key = np.int64(uses.keys[i])
        held, gone, now, oldest, word, left = renew_held(uses.recency, key, now, oldest, word, left)
        uses.held[i] = held
        uses.gone[i] = gone
    keep_uses(uses.recency, now, oldest, left)


def used(recency, keys):
    uses = Uses(recency, np.array(keys), np.zeros(len(keys), int), np.zeros(len(keys), int))
    bound(use_all, uses)()
    return list(zip(uses.held.tolist(), uses.gone.tolist(), strict=True))


def expected(cache, keys):
    """Whether each was there, and the tag that left: of key k that is k + 1."""
    found = []
    for key in keys:
        held = cache.lookup(key + 1)
        found.append((int(held), 0 if held else cache.fill(key + 1)))
    return found


@given(
    capacity=st.sampled_from((1, 2, 7, 64, 100)),
    parts=st.lists(
        st.tuples(st.integers(1, 200), st.integers(1, 400), st.integers(0, 2**32)), max_size=4
    ),
    begun=st.sampled_from((1, 60, LAST_TIME - 1000, LAST_TIME - 5000)),
)
def test_it_holds_what_a_fully_associative_cache_holds(capacity, parts, begun):
    # Each part has more keys than those before it, few uses of many or many of few.
    recency, cache, known = new_recency(capacity), PlainCache(1, capacity), 0
    recency.order[0]["now"] = recency.order[0]["oldest"] = begun
    for more, count, seed in parts:
        known += more
        recency = grown_recency(recency, known)
        drawn = random.Random(seed)
        most = drawn.choice((known, min(known, capacity), min(known, 3)))
        keys = [drawn.randrange(most) for _ in range(count)]
        assert used(recency, keys) == expected(cache, keys)


def test_what_is_used_in_turns_stays_however_often_the_line_is_full():
    recency = grown_recency(new_recency(3), 10)
    assert len(recency.line) < 1000

    told = used(recency, [5, 9, 0] + [5, 9] * 1000 + [0, 1, 5, 9])

    assert told[3:-3] == [(1, 0)] * 2001
    assert told[-3:] == [(0, 6), (0, 10), (0, 1)]


def test_slots_are_counted_anew_before_their_numbers_end():
    recency = grown_recency(new_recency(2), 8)
    recency.order[0]["now"] = recency.order[0]["oldest"] = LAST_TIME - 700

    told = used(recency, [7, 3] * 2000 + [1, 7, 3])

    assert told == [(0, 0)] * 2 + [(1, 0)] * 3998 + [(0, 8), (0, 4), (0, 2)]
    assert recency.order[0]["now"] < LAST_TIME // 2


@kernel
def drop_and_use_all(uses):
    """Of each two keys, the first is dropped before the second is used."""
    now, oldest, word, left = uses_of(uses.recency)
    for i in range(0, uses.keys.size, 2):
        dropped, key = np.int64(uses.keys[i]), np.int64(uses.keys[i + 1])
        uses.held[i], word, left = drop_held(uses.recency, dropped, oldest, word, left)
        held, gone, now, oldest, word, left = renew_held(uses.recency, key, now, oldest, word, left)
        uses.held[i + 1], uses.gone[i + 1] = held, gone
    keep_uses(uses.recency, now, oldest, left)


@given(
    capacity=st.sampled_from((1, 2, 7, 64)),
    keys=st.integers(1, 90),
    count=st.integers(1, 400),
    seed=st.integers(0, 2**32),
)
def test_what_is_dropped_leaves_its_place(capacity, keys, count, seed):
    recency, cache = grown_recency(new_recency(capacity), keys), PlainCache(1, capacity)
    drawn = random.Random(seed)
    asked = np.array([drawn.randrange(keys) for _ in range(2 * count)])
    uses = Uses(recency, asked, np.zeros(2 * count, int), np.zeros(2 * count, int))
    bound(drop_and_use_all, uses)()
    for i in range(0, 2 * count, 2):
        assert uses.held[i] == cache.drop(asked[i] + 1)
        assert [(uses.held[i + 1], uses.gone[i + 1])] == expected(cache, asked[i + 1 : i + 2])


@pytest.mark.parametrize("word", [1, 2, 12, 1 << 63, (1 << 64) - 1, 0xF0 << 40])
def test_the_lowest_bit_is_the_one_below_which_all_are_clear(word):
    place = int(lowest_bit(np.uint64(word)))
    assert word & ((1 << place) - 1) == 0
    assert word >> place & 1
