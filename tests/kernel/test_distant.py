"""Distant functions are compiled when they are called, found by every state, and fail loudly."""

from __future__ import annotations

import signal
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest

from nicscope.kernel.decorators import distant, kernel
from nicscope.kernel.distant import Declarations, call, link, new_calls
from nicscope.kernel.entry import Version, bound


class State(NamedTuple):
    before: Any  # i8, 2-D
    calls: Any
    total: Any  # i8


@distant
def add(state, number):
    state.total[0] += number
    return state.total[0]


@distant
def is_over(state, limit):
    return state.total[0] > limit


@distant
def add_both(state, left, right):
    call(state, 0, (left,))
    return call(state, 0, (right,))


@distant
def never_called(state):
    state.total[0] = -1


@distant
def half(state):
    return state.total[0] / 2


FUNCTIONS = (add, is_over, add_both, never_called, half)


@kernel
def go(handed, left, right):
    state = handed
    reached = call(state, 2, (left, right))
    return reached if call(state, 1, (10,)) & 1 == 1 else -reached


@kernel
def go_half(handed):
    state = handed
    return call(state, 4, ())


def new_state():
    state = State(np.zeros((2, 3), np.int64), new_calls(len(FUNCTIONS)), np.zeros(1, np.int64))
    link(state, FUNCTIONS)
    return state


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


DECLARED = Declarations()


@DECLARED.function
def halve(state, number):
    """Half of ``number``, counted."""


@DECLARED.question
def is_even(state, number):
    """Whether ``number`` is even."""


@kernel
def go_and_ask(handed, number):
    state = handed
    return halve(state, number) if is_even(state, number) else -1


def module_of(**functions):
    module = ModuleType("made")
    for name, function in functions.items():
        function.__name__, function.__module__ = name, "made"
        setattr(module, name, distant(function))
    return module


def test_declared_functions_are_found_by_their_names_and_called_like_steps():
    def half_of(state, number):
        state.total[0] += 1
        return number // 2

    def even(state, number):
        state.before[0, 0] = number
        return number % 2 == 0

    state = State(np.zeros((2, 3), np.int64), new_calls(len(DECLARED)), np.zeros(1, np.int64))
    link(state, DECLARED.found_in(module_of(is_even=even), module_of(halve=half_of)))

    assert [bound(go_and_ask, state)(number) for number in (8, 7, 6)] == [4, -1, 3]
    assert state.total[0] == 2


def test_a_declaration_that_fits_no_function_is_refused():
    def with_more(state, number, more):
        return state.total[number + more]

    def right(state, number):
        return state.total[number]

    with pytest.raises(TypeError, match="halve is declared once and defined 0 times"):
        DECLARED.found_in(module_of(is_even=right))
    with pytest.raises(TypeError, match="halve is declared once and defined 2 times"):
        DECLARED.found_in(module_of(halve=right), module_of(halve=right))
    with pytest.raises(TypeError, match="halve is declared with other arguments"):
        DECLARED.found_in(module_of(halve=with_more))


@pytest.mark.compiled
def test_what_is_never_called_is_never_compiled(monkeypatch):
    tried = []
    monkeypatch.setattr("nicscope.kernel.entry._listeners", [tried.append])
    monkeypatch.setattr("nicscope.kernel.store.folder", lambda: None)
    monkeypatch.setattr("nicscope.kernel.distant._linkers", {})

    bound(go, new_state())(1, 2)

    assert "add" in tried
    assert "never_called" not in tried


@pytest.mark.compiled
def test_a_function_that_returns_no_number_ends_the_call_that_led_to_it():
    with pytest.raises(TypeError, match="half returns no int64"):
        bound(go_half, new_state())()


@distant
def fail(state, number):
    return state.no_such_field[number]


@distant
def lead_to_failure(state, number):
    return call(state, 0, (number,)) + 1


@kernel
def go_and_fail(handed, number):
    state = handed
    found = call(state, 1, (number,))
    state.total[0] = 99
    return found


@pytest.mark.compiled
@pytest.mark.parametrize("error", [ValueError("in the middle"), KeyboardInterrupt()])
def test_an_error_of_interpreted_code_ends_every_call_that_led_to_it(monkeypatch, error):
    def interpreted(_version, _arguments):
        raise error

    state = State(np.zeros((2, 3), np.int64), new_calls(2), np.zeros(1, np.int64))
    monkeypatch.setattr("nicscope.kernel.distant._linkers", {})
    link(state, (fail, lead_to_failure))
    entry = bound(go_and_fail, state)
    code_now = Version.code_now
    monkeypatch.setattr(
        Version,
        "code_now",
        lambda version: None if version.function is fail else code_now(version),
    )
    monkeypatch.setattr(Version, "interpret", interpreted)

    with pytest.raises(type(error)) as raised:
        entry(3)

    assert raised.value is error
    assert state.total[0] == 0


@kernel
def go_after_long(handed, turns):
    state = handed
    odd = 0
    for i in range(turns):
        odd = (odd * 3 + i) & 0xFFFF
    state.before[0, 0] = odd  # or it need not be known
    return call(state, 0, (1,))


@kernel
def fail_after_long(handed, turns, number):
    odd = 0
    for i in range(turns):
        odd = (odd * 3 + i) & 0xFFFF
    return (handed.total[0] + odd) // number


class Rung(Exception):  # noqa: N818 - nobody's error
    """A signal came."""


@pytest.fixture
def alarm():
    """Calls with a signal in the middle, whose handler raises at the next line of Python."""

    def ring(_number, _frame):
        raise Rung

    before = signal.signal(signal.SIGALRM, ring)

    def called(entry, *numbers):
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        return entry(*numbers)

    yield called
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


LONG = 4_000_000_000  # turns: about a second


@pytest.mark.compiled
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_call_in_whose_way_a_signal_comes_is_no_success(monkeypatch, alarm):
    state = new_state()
    monkeypatch.setattr("nicscope.kernel.distant._linkers", {})
    link(state, FUNCTIONS)
    entry = bound(go_after_long, state)
    code_now = Version.code_now
    monkeypatch.setattr(
        Version,
        "code_now",
        lambda version: None if version.function is add else code_now(version),
    )
    assert entry(1) == 1

    with pytest.raises((Rung, RuntimeError)):
        alarm(entry, LONG)

    assert entry(1) == state.total[0]


@pytest.mark.compiled
@pytest.mark.parametrize("heeded", [True, False], ids=["", "in the background"])
def test_an_error_in_whose_way_a_signal_comes_is_an_error_still(alarm, heeded):
    """Also where interrupts are ignored, as of a command that a script starts with ``&``."""
    entry = bound(fail_after_long, new_state())
    assert entry(1, 1) == 0
    before = signal.getsignal(signal.SIGINT)
    if not heeded:
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    try:
        with pytest.raises(Rung):
            alarm(entry, LONG, 0)
    finally:
        signal.signal(signal.SIGINT, before)

    assert entry(1, 1) == 0
    with pytest.raises(ZeroDivisionError):
        entry(1, 0)


@distant
def low_byte(state, number):
    state.total[0] = number << 8
    return np.uint8(number) if number < 0 else state.before[0, 0]


@kernel
def go_wide(handed):
    state = handed
    narrow = np.uint8(200)
    call(state, 0, (narrow,))
    return state.total[0]


def test_numbers_that_are_handed_on_are_as_wide_in_both_worlds(monkeypatch):
    state = State(np.zeros((2, 3), np.int64), new_calls(1), np.zeros(1, np.int64))
    monkeypatch.setattr("nicscope.kernel.distant._linkers", {})
    link(state, (low_byte,))

    assert bound(go_wide, state)() == 51200
