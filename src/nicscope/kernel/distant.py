"""Calls through addresses, so that a caller is compiled without what it calls.

Numba links all that a function calls into it and optimises the whole again, at every level: deep
programs compile in time that grows with depth times size.  A distant function is compiled by
itself, when it is first called: its address stands in the state's array ``calls``, at a place that
both sides know.

    calls=new_calls(len(FUNCTIONS))       # a field of the state
    link(machine, FUNCTIONS)              # once per state, outside
    call(machine, 3, (n, now))            # FUNCTIONS[3](machine, n, now), in compiled code

A distant function takes a state that was handed over and int64s, and returns int64, a truth value
or nothing.  Until there is code of one, the address is that of a callback, which interprets it on
the same arrays.  An error there, or anywhere, ends every call that led to it.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.kernel.decorators import coded
from nicscope.kernel.entering import Version
from nicscope.kernel.layout import handed, handed_at, place_of_field
from nicscope.kernel.mode import INTERPRETED, MODE, SWITCH

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from nicscope.kernel.layout import StateKind

_BYTES = 8  # of a word
_Word = ctypes.c_int64
_linked: list[Callable[..., Any]] = []
_linkers: dict[tuple[Any, ...], _Linker] = {}


def new_calls(functions: int) -> NDArray[np.int64]:
    """The array ``calls`` of a state, for so many functions."""
    return np.zeros(functions, np.int64)


def link(state: Any, functions: Sequence[Callable[..., Any]]) -> None:
    """Let ``call`` on ``state`` find ``functions``, kernels all."""
    _linked[:] = functions
    if INTERPRETED:
        return
    kind = handed(state).kind
    key = (kind, *map(id, functions))
    if key not in _linkers:
        _linkers[key] = _Linker(kind, functions)
    state.calls[:] = _linkers[key].calls


@coded("nicscope.kernel.compiler.intrinsics:call")
def call(state: Any, place: int, arguments: Any) -> Any:
    """What the function at ``place`` returns; of a truth value only the lowest bit may count."""
    return _linked[place](state, *arguments)


class _Linker:
    """The addresses of functions for states of one kind: of code, or of callbacks."""

    def __init__(self, kind: StateKind, functions: Sequence[Callable[..., Any]]) -> None:
        self._where = place_of_field(kind, "calls") * _BYTES
        self._slots = [_Slot(self, place, each, kind) for place, each in enumerate(functions)]
        self.calls = np.array([each.address for each in self._slots], np.int64)

    def write(self, table: int, place: int, address: int) -> None:
        """Have the state with ``table``, and all that are linked later, call ``address``."""
        self.calls[place] = address
        calls = _Word.from_address(table + self._where).value
        _Word.from_address(calls + place * _BYTES).value = address


class _Slot:
    """One function, called by compiled code while there is none of its own."""

    def __init__(self, linker: _Linker, place: int, function: Any, kind: StateKind) -> None:
        from nicscope.kernel.loading import prototype

        self._linker = linker
        self._place = place
        self._version = Version(function, kind)
        self._callback = prototype(self._version.numbers)(self._answer)
        self.address = ctypes.cast(self._callback, ctypes.c_void_p).value or 0

    def _answer(self, result: int, excinfo: int, table: int, *numbers: int) -> int:
        """Do what was called for, by code if there is some by now; the status."""
        try:
            code = self._version.code_now()
            if code is None:
                found = self._version.interpret((handed_at(table).state, *numbers))
                _Word.from_address(result).value = int(found or 0)
                return 0
            if not code.call_address:
                raise TypeError(
                    f"{self._version.function.__name__} returns no int64, truth value or nothing"
                )
            if MODE.name != SWITCH:
                self._linker.write(table, self._place, code.call_address)
            return code.call(result, excinfo, table, *numbers)
        except BaseException as error:
            from nicscope.kernel.loading import leave_pending

            return leave_pending(error)
