"""Distant functions compile when they are first called, and are found by every state."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba.core import config

from nicscope import distant, jit
from nicscope.distant import call, link, new_calls, raise_failure
from nicscope.handover import bound

needs_the_compiler = pytest.mark.skipif(bool(config.DISABLE_JIT), reason="nothing is compiled")
WAIT_S = 5  # for what comes at once


class State(NamedTuple):
    before: Any  # i8, 2-D
    calls: Any
    total: Any  # i8


@jit.distant
def add(state, number):
    state.total[0] += number
    return state.total[0]


@jit.distant
def is_over(state, limit):
    return state.total[0] > limit


@jit.distant
def add_both(state, left, right):
    call(state, 0, (left,))
    return call(state, 0, (right,))


@jit.distant
def never_called(state):
    state.total[0] = -1


@jit.distant
def half(state):
    return state.total[0] / 2


FUNCTIONS = (add, is_over, add_both, never_called, half)


@jit.kernel
def go(handed, left, right):
    state = handed
    reached = call(state, 2, (left, right))
    return reached if call(state, 1, (10,)) & 1 == 1 else -reached


@jit.kernel
def go_half(handed):
    state = handed
    return call(state, 4, ())


def new_state():
    state = State(np.zeros((2, 3), np.int64), new_calls(len(FUNCTIONS)), np.zeros(1, np.int64))
    link(state, FUNCTIONS)
    return state


def fresh(function):
    """A kernel as if it had never been called in this process."""
    return jit.distant(function if config.DISABLE_JIT else function.py_func)


def test_functions_are_found_by_their_places_also_from_within_each_other():
    go_on = bound(go, new_state())

    assert go_on(1, 2) == -3
    assert go_on(3, 4) == -10
    assert go_on(1, 0) == 11


def test_each_state_is_changed_by_its_own_calls_alone():
    first, second = new_state(), new_state()
    bound(go, first)(20, 1)
    third = new_state()

    for state in (second, third):
        assert bound(go, state)(1, 1) == -2

    assert first.total[0] == 21


@needs_the_compiler
def test_what_is_never_called_is_never_compiled(monkeypatch):
    unused = fresh(never_called)
    monkeypatch.setattr("test_distant.FUNCTIONS", (*FUNCTIONS[:3], unused, half))

    bound(go, new_state())(1, 2)

    assert not unused.overloads


@needs_the_compiler
def test_what_cannot_be_compiled_is_told_at_the_next_chance():
    bound(go_half, new_state())()

    with pytest.raises(TypeError, match="half returns float64, not int64"):
        raise_failure()
    raise_failure()  # once


@needs_the_compiler
def test_an_interrupt_while_a_function_is_compiled_neither_spoils_the_call_nor_is_lost(
    monkeypatch,
):
    tries = []
    address_of = distant._Linker._address_of

    def interrupted_once(linker, function):
        tries.append(function)
        if len(tries) == 1:
            raise KeyboardInterrupt
        return address_of(linker, function)

    monkeypatch.setattr(distant._Linker, "_address_of", interrupted_once)
    monkeypatch.setattr("test_distant.FUNCTIONS", tuple(map(fresh, FUNCTIONS)))
    results = []

    def run():
        results.append(bound(go, new_state())(5, 6))
        time.sleep(WAIT_S)

    with pytest.raises(KeyboardInterrupt):
        run()

    assert results in ([11], [])
    assert len(tries) == 4
