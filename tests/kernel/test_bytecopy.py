"""Bytes move between rows of states as slices would move them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nicscope.kernel.decorators import copy_bytes, kernel
from nicscope.kernel.entry import bound

SIZE = 40


class Shelves(NamedTuple):
    source: np.ndarray
    target: np.ndarray


@kernel
def move(shelves, row, to, begin, count):
    copy_bytes(shelves.target[row], to, shelves.source[row], begin, count)


@given(data=st.data())
def test_a_copy_touches_exactly_what_it_should(data):
    row = data.draw(st.integers(0, 2))
    count = data.draw(st.integers(0, SIZE))
    to, begin = (data.draw(st.integers(0, SIZE - count)) for _ in range(2))
    source = np.arange(3 * SIZE, dtype=np.uint8).reshape(3, SIZE)
    target = np.full((3, SIZE), 255, np.uint8)
    expected = target.copy()
    expected[row, to : to + count] = source[row, begin : begin + count]

    bound(move, Shelves(source, target))(row, to, begin, count)

    assert target.tolist() == expected.tolist()
    again = np.full(SIZE, 255, np.uint8)
    copy_bytes(again, to, source[row], begin, count)
    assert again.tolist() == expected[row].tolist()
