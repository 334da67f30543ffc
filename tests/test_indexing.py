"""Indices in compiled code: at every place that there is; none from the end."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from numba.core import config

from nicscope.kernel.decorators import kernel
from nicscope.kernel.records import records

PAIR = np.dtype([("left", "i8"), ("right", "i4")], align=True)


@kernel
def _exchange(table, row, column, rows, place):
    """Read and write through one index, two, a row, and the field of a record."""
    found = table[row, column]
    table[row, column] = table[row][0]
    table[row][0] = found
    rows[place].right += 1
    return found


@given(
    row=st.integers(0, 3),
    column=st.integers(0, 2),
    place=st.integers(0, 4),
    kind=st.sampled_from((np.int64, np.int32, np.uint8, int)),
)
def test_every_place_can_be_read_and_written_by_indices_of_any_type(row, column, place, kind):
    table = np.arange(12.0).reshape(4, 3)
    expected = table.copy()
    expected[row, column], expected[row, 0] = expected[row, 0], expected[row, column]
    rows = records(5, PAIR)

    found = _exchange(table, kind(row), kind(column), rows, kind(place))

    assert found == 3 * row + column
    assert (table == expected).all()
    assert rows["right"].tolist() == [int(each == place) for each in range(5)]


def _element(array, place):
    return array[place]


def _compiled(monkeypatch, checked):
    """That function as all kernels are compiled, with bounds checks or without."""
    from nicscope.kernel.compiler.passes import KernelCompiler

    monkeypatch.setattr(config, "BOUNDSCHECK", checked)
    dispatcher = njit(_nrt=False, pipeline_class=KernelCompiler)(_element)
    dispatcher(np.arange(3), 0)
    return dispatcher


@pytest.mark.compiled
@pytest.mark.parametrize("place", [-1, -3, 3])
def test_a_checked_kernel_refuses_what_is_not_there_and_to_count_from_the_end(monkeypatch, place):
    with pytest.raises(IndexError):
        _compiled(monkeypatch, checked=1)(np.arange(3), place)


@pytest.mark.compiled
def test_a_kernel_does_not_ask_for_the_sign_of_an_index(monkeypatch):
    dispatcher = _compiled(monkeypatch, checked=0)
    code = dispatcher.inspect_llvm(dispatcher.signatures[0])
    body = code[code.index("define ") : code.index("\n}")]

    assert "select" not in body
