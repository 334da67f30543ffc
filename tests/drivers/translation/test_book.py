"""The observer's book: what it knows survives that it grows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicscope.nic.translate.book import (
    grown_book,
    new_book,
    note_fill,
    note_hit,
    note_invalidation,
    note_miss,
)

KEYS = 12
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("miss", "miss", "hit", "fill", "invalidate", "grow")),
        st.integers(0, KEYS - 1),
    ),
    max_size=60,
)
_NOTES = {
    "miss": lambda book, key: note_miss(book, key, 0),
    "hit": note_hit,
    "fill": note_fill,
    "invalidate": note_invalidation,
}


@given(kinds=st.booleans(), capacity=st.integers(1, 4), steps=STEPS)
def test_a_book_that_grows_on_the_way_counts_as_one_that_was_large_from_the_start(
    kinds, capacity, steps
):
    large = grown_book(new_book(kinds, capacity), KEYS)
    growing = new_book(kinds, capacity)
    for step, key in steps:
        growing = grown_book(growing, key + 1)
        if step in _NOTES:
            _NOTES[step](large, key)
            _NOTES[step](growing, key)

    assert growing.counts.tolist() == large.counts.tolist()
    assert growing.past.tolist() == large.past[: len(growing.past)].tolist()


@pytest.mark.parametrize("kinds", [True, False])
def test_a_book_with_room_is_left_as_it_is(kinds):
    book = grown_book(new_book(kinds, 2), 5)
    assert grown_book(book, 5) is book
