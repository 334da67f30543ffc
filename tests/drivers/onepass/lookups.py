"""Hypothesis strategies: lookups of one NIC, and where to cut them."""

import numpy as np
from hypothesis import strategies as st

BLOCK = 16


@st.composite
def lookups(draw, longest=60):
    """Numbers, in blocks with gaps between them, and the index of each lookup."""
    blocks = draw(st.lists(st.integers(0, 40), min_size=1, max_size=4, unique=True))
    known = [block * BLOCK + i for block in blocks for i in range(draw(st.integers(1, BLOCK)))]
    numbers = draw(st.lists(st.sampled_from(known), max_size=longest))
    spread = draw(st.sampled_from((1, 3, 8, 37)))  # so that sets are shared to various degrees
    offset = draw(st.integers(0, 2**40))
    index = [number * spread + offset for number in numbers]
    return np.array(numbers, np.uint32), np.array(index, np.int64)


def cuts():
    """Where to cut: fractions of the whole, in any number."""
    return st.lists(st.floats(0, 1), max_size=5)


def chunks(columns, where):
    """The rows of ``columns`` cut at the fractions ``where``."""
    ends = [int(fraction * len(columns[0])) for fraction in sorted(where)]
    return zip(*(np.split(column, ends) for column in columns), strict=True)
