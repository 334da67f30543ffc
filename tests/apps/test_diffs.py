"""Diffs hold what has changed, and nothing else."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nicscope.apps.svm.diffs import RUN_HEAD, diff_of

PAGE = 256


@given(st.sets(st.integers(0, PAGE // 4 - 1)), st.integers(0, 2**32 - 1))
def test_a_diff_makes_of_the_twin_the_copy_and_touches_no_other_word(words, value):
    twin = np.arange(PAGE, dtype=np.uint8)
    copy = twin.copy()
    for word in words:
        copy.view(np.uint32)[word] ^= np.uint32(value)
    others = np.full((3, PAGE), 9, np.uint8)
    expected = others.copy()

    diff = diff_of(1, copy, twin)

    changed = sorted(words) if value else []
    if not changed:
        assert diff is None
        return
    assert diff is not None
    assert diff.words.tolist() == changed
    runs = sum(1 for word in changed if word - 1 not in changed)
    assert diff.message_bytes == 4 * len(changed) + RUN_HEAD * runs
    assert diff.first_byte == 4 * changed[0]
    diff.apply(others)
    expected[1].view(np.uint32)[changed] = copy.view(np.uint32)[changed]
    assert (others == expected).all()
