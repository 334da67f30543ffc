"""Arrays of a state that are replaced between two calls: every kernel finds the new ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest

from nicscope.kernel.decorators import kernel
from nicscope.kernel.entry import bound
from nicscope.kernel.layout import Growing, renew
from nicscope.kernel.records import longer

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Part(Growing):
    short: NDArray[np.int64]
    other: NDArray[np.int64]


class Inner(NamedTuple):
    before: NDArray[np.int64]
    part: Part


class Outer(NamedTuple):
    inner: Inner
    behind: NDArray[np.int64]


@kernel
def count_up(state, place):
    state.inner.part.short[place] += 1
    state.behind[0] += 1
    return state.inner.part.short.size


@kernel
def total(inner):
    return inner.part.short.sum() + inner.part.other.sum()


@kernel
def total_by_argument(inner, factor):
    return factor * inner.part.short.sum()


def state():
    part = Part({"short": np.zeros(2, np.int64), "other": np.zeros(1, np.int64)})
    return Outer(Inner(np.zeros(3, np.int64), part), np.zeros(1, np.int64))


def test_whoever_was_bound_before_an_array_grew_works_on_the_longer_one():
    outer = state()
    counts, totals = bound(count_up, outer), bound(total, outer.inner)
    assert counts(1) == 2
    part = outer.inner.part
    old = part.short

    part.short = longer(part.short, 50)
    renew(part)

    assert counts(49) == 50
    assert part.short[[1, 49]].tolist() == [1, 1]
    assert old.tolist() == [0, 1]  # nobody writes to what it was
    assert totals() == total_by_argument(outer.inner, 1) == 2
    assert outer.behind[0] == 2


def test_a_state_without_the_part_keeps_its_arrays():
    one, another = state(), state()
    counts, others = bound(count_up, one), bound(count_up, another)
    one.inner.part.short = longer(one.inner.part.short, 9)
    renew(one.inner.part)

    assert (counts(0), others(0)) == (9, 2)


def test_a_part_has_the_arrays_that_it_annotates_in_their_order():
    part = Part({"other": np.ones(1, np.int64), "short": np.zeros(2, np.int64)})

    assert Part._fields == ("short", "other")
    assert [len(array) for array in part] == [2, 1]
    with pytest.raises(KeyError, match="other"):
        Part({"short": np.zeros(2, np.int64)})
