"""State that is handed over is the state itself, whatever its arrays are, at any time.

That a second process compiles nothing is shown on a package of one file made for the test.
"""

from __future__ import annotations

import gc
import json
import weakref
from typing import Any, NamedTuple

import numpy as np
import pytest

from nicscope.kernel.decorators import kernel
from nicscope.kernel.entry import bound
from nicscope.kernel.layout import (
    dtype_of_text,
    handed,
    kind_of_plain,
    plain_kind,
    text_of_dtype,
)
from nicscope.kernel.records import records
from tiny_package import make_tiny, run_tiny

PAIR = np.dtype([("left", "i8"), ("right", "f4"), ("row", "i2", (3,))], align=True)


class Inner(NamedTuple):
    pairs: Any  # PAIR, 2-D
    none: Any  # i8, of no length
    scalar: Any  # 0-D


class Outer(NamedTuple):
    bytes: Any  # u1, 3-D
    inner: Inner
    every_second: Any  # i8, not contiguous
    columns: Any  # f8, in Fortran's order
    empty: Any  # f8, 2-D, one axis of no length
    read_only: Any  # i8


def outer():
    numbers = np.arange(10)
    numbers.flags.writeable = False
    return Outer(
        bytes=np.arange(24, dtype=np.uint8).reshape(2, 3, 4),
        inner=Inner(records((2, 3), PAIR), np.zeros(0, np.int64), np.array(7.5)),
        every_second=np.arange(10)[::-2],
        columns=np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        empty=np.zeros((4, 0)),
        read_only=numbers,
    )


@kernel
def read_and_write(handed, number, place):
    state = handed
    inner = state.inner
    inner.pairs[1, place].left += number
    inner.pairs[0, place].right = number
    inner.pairs[1, 1].row[place] = 9
    state.bytes[1, place, 3] += 100
    state.every_second[place] = number
    state.columns[1, place] *= number
    total = inner.none.size + 10 * state.empty.shape[0] + 100 * state.empty.shape[1]
    return total + 1000 * state.read_only[place] + inner.scalar[()] + state.bytes.shape[2]


def expected(state, number, place):
    state.inner.pairs["left"][1, place] += number
    state.inner.pairs["right"][0, place] = number
    state.inner.pairs["row"][1, 1, place] = 9
    state.bytes[1, place, 3] += 100
    state.every_second[place] = number
    state.columns[1, place] *= number
    return 40 + 1000 * place + 7.5 + 4


def contents(state):
    return [
        contents(field) if isinstance(field, tuple) else (field.shape, field.tobytes())
        for field in state
    ]


def test_arrays_of_every_kind_are_read_and_written_where_they_are():
    got, plain = outer(), outer()
    call = bound(read_and_write, got)

    for number, place in ((5, 2), (-3, 0), (7, 2)):
        assert call(number, place) == expected(plain, number, place)
    assert contents(got) == contents(plain)
    assert contents(got) != contents(outer())


def test_two_states_of_one_type_are_not_confused():
    first, second = outer(), outer()
    on_first, on_second = bound(read_and_write, first), bound(read_and_write, second)
    on_first(1, 0)
    on_second(2, 0)
    on_first(3, 0)

    assert (first.inner.pairs["left"][1, 0], second.inner.pairs["left"][1, 0]) == (4, 2)


def test_what_python_writes_between_two_calls_is_seen():
    state = outer()
    call = bound(read_and_write, state)
    call(1, 1)
    state.inner.pairs["left"][1, 1] = 50
    call(1, 1)

    assert state.inner.pairs["left"][1, 1] == 51


def test_a_state_may_also_be_passed_whole():
    got, plain = outer(), outer()

    assert read_and_write(got, 5, 2) == expected(plain, 5, 2)
    assert contents(got) == contents(plain)


def test_a_call_that_is_bound_keeps_the_arrays_alive():
    state = outer()
    array = weakref.ref(state.columns)
    call = bound(read_and_write, state)
    del state
    gc.collect()

    assert array() is not None
    assert call(2, 1) == 1051.5
    assert array()[1, 1] == 8.0
    del call
    gc.collect()
    assert array() is None


def test_a_state_of_another_layout_or_class_has_another_type():
    other = outer()._replace(every_second=np.arange(5))
    renamed = NamedTuple("Outer", [(f"{name}_", Any) for name in Outer._fields])(*outer())
    elsewhere = NamedTuple("Outer", [(name, Any) for name in Outer._fields])
    elsewhere.__module__ = "another"

    assert handed(outer()).kind == handed(outer()).kind
    assert handed(outer()).kind != handed(other).kind
    assert handed(outer()).kind != handed(renamed).kind
    assert handed(outer()).kind != handed(elsewhere(*outer())).kind


def test_a_kind_is_the_same_when_it_has_been_text():
    kind = handed(outer()).kind

    assert kind_of_plain(json.loads(json.dumps(plain_kind(kind)))) == kind
    assert dtype_of_text(text_of_dtype(PAIR)) == PAIR
    assert dtype_of_text(text_of_dtype(PAIR)).isalignedstruct
    with pytest.raises(ValueError, match="describes no state"):
        kind_of_plain(["state", "Outer"])


@pytest.mark.compiled
def test_what_is_not_an_array_is_refused_by_name():
    with pytest.raises(TypeError, match="only arrays can be handed over; empty is 3"):
        bound(read_and_write, outer()._replace(empty=3))


MODULE = """
import sys
from typing import Any, NamedTuple
import numpy as np
from tiny.kernel.decorators import kernel
from tiny.kernel.entry import bound

class Part(NamedTuple):
    numbers: Any

class Whole(NamedTuple):
    part: Part
    pairs: Any

@kernel
def add(handed, number):
    whole = handed
    whole.part.numbers[1] += number
    return whole.part.numbers[1] + whole.pairs[0].left
"""
SCRIPT = """
import numpy as np
from tiny.kernel.entry import on_compilation
from tiny.kernel.records import records
compiled = []
on_compilation(compiled.append)
from tiny.whole import Part, Whole, add, bound
pairs = records(1, np.dtype([("left", "i8")]))
pairs["left"] = 1000
call = bound(add, Whole(Part(np.arange(3)), pairs))
print(call(10) + call(100), *compiled)
"""


@pytest.mark.compiled
def test_the_second_process_finds_a_bound_kernel_in_the_cache(tmp_path):
    (make_tiny(tmp_path) / "whole.py").write_text(MODULE)

    assert run_tiny(tmp_path, SCRIPT, tmp_path / "cache") == ["2122", "add"]
    assert run_tiny(tmp_path, SCRIPT, tmp_path / "cache") == ["2122"]


THREADS = """
import threading
from tiny.kernel import loading
from tiny.kernel.entry import on_compilation
from tiny.kernel.records import records
import numpy as np
compiled = []
on_compilation(compiled.append)
from tiny.whole import Part, Whole, add, bound
pairs = records(1, np.dtype([("left", "i8")]))
together = threading.Barrier(8)
sums = []
def enter():
    state = Whole(Part(np.zeros(3, np.int64)), pairs)
    together.wait()
    call = bound(add, state)
    for _ in range(1000):
        call(1)
    sums.append(int(state.part.numbers[1]))
threads = [threading.Thread(target=enter) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(*sums, *compiled, len(loading._loaded))
"""


@pytest.mark.compiled
@pytest.mark.parametrize("round_", ["compiled", "loaded"])
def test_threads_that_enter_a_kernel_at_once_have_it_made_once(tmp_path, round_):
    (make_tiny(tmp_path) / "whole.py").write_text(MODULE)
    made = ["add"]
    if round_ == "loaded":
        run_tiny(tmp_path, SCRIPT, tmp_path / "cache")
        made = []

    assert run_tiny(tmp_path, THREADS, tmp_path / "cache") == [*["1000"] * 8, *made, "1"]
