"""Table indices in the order of first use, as a user library hands them out."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nicscope.drivers.onepass.table_indices import TableIndices
from nicscope.drivers.translation.build import OFFSET_STEP


@given(
    lookups=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20)), min_size=1, max_size=60),
    cut=st.integers(0, 60),
    most=st.integers(4, 9),
)
def test_each_page_has_the_next_index_of_its_process_from_its_first_use_on(lookups, cut, most):
    pages = {pair: number for number, pair in enumerate(dict.fromkeys(lookups))}
    numbers = np.array([7 * pages[pair] for pair in lookups], np.uint32)  # not without gaps
    page = np.array([2**31 + place for _, place in lookups], np.uint64).astype(np.uint32)
    offset = np.array([process * OFFSET_STEP for process, _ in lookups], np.uint64).astype(
        np.uint32
    )
    indices = TableIndices(most)

    parts = (slice(0, cut), slice(cut, None))
    found = np.concatenate([indices.of(numbers[p], (page + offset)[p], page[p]) for p in parts])

    given_out, taken = {}, {}
    for pair in lookups:
        if pair not in given_out:
            given_out[pair] = taken[pair[0]] = taken.get(pair[0], -1) + 1
    expected = [given_out[pair] + pair[0] * OFFSET_STEP for pair in lookups]
    assert found.tolist() == expected
