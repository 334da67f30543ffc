"""Indirect calls through addresses, so that a caller compiles without its callees.

Numba links all that a function calls into it and optimises the whole again, at every level: deep
programs compile in time that grows with depth times size.  A distant function is compiled by
itself, when it is first called: its address stands in the state's array ``calls``, at a place that
both sides know.

    PORTS = Declarations()

    @PORTS.function
    def admit(machine, n, slot):          # what callers import; it is called like any step
        "What it does, in words."

    @distant
    def admit(machine, n, slot):          # what it does, in a module that callers never see
        ...

    calls=new_calls(len(PORTS))           # a field of the state
    link(machine, PORTS.found_in(admitting, ...))    # once per state, outside

A distant function takes a state that was handed over and int64s, and returns int64, a truth value
or nothing.  Until there is code of one, the address is that of a callback, which interprets it on
the same arrays.  An error there, or anywhere, ends every call that led to it.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

import numpy as np

from nicscope.kernel.decorators import coded, step
from nicscope.kernel.entry import Version
from nicscope.kernel.layout import StateKind, handed, handed_at, place_of_field
from nicscope.kernel.settings import INTERPRETED, MODE, SWITCH

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType

    from numpy.typing import NDArray


P = ParamSpec("P")
R = TypeVar("R")

_BYTES = 8  # of a word
_Word = ctypes.c_int64
_linked: list[Callable[..., Any]] = []
_linkers: dict[tuple[Any, ...], _Linker] = {}


def new_calls(functions: int) -> NDArray[np.int64]:
    """The array ``calls`` of a state, for so many functions."""
    return np.zeros(functions, np.int64)


def link(state: Any, functions: Sequence[Callable[..., Any]]) -> None:
    """Sets the addresses through which ``call`` on ``state`` finds ``functions``, all kernels."""
    if INTERPRETED:
        _linked[:] = functions
        return
    kind = handed(state).kind
    key = (kind, *map(id, functions))
    if key not in _linkers:
        _linkers[key] = _Linker(kind, functions)
    _linked[:] = _linkers[key].plain
    state.calls[:] = _linkers[key].calls


def relink(state: Any, place: int, address: int, plain: Callable[..., Any]) -> None:
    """Has ``state`` call machine code at ``address`` for the function at ``place``.

    ``plain`` does the same for interpreted code.  Such code is entered as compiled functions are:
    with the addresses of a result, an exception and the state, and the numbers.  Places behind
    those of ``link`` are for a state that has only such functions.
    """
    _linked.extend([plain] * (place + 1 - len(_linked)))
    _linked[place] = plain
    if not INTERPRETED:
        state.calls[place] = address


@coded("nicscope.kernel.compiler.states:call")
def call(state: Any, place: int, arguments: Any) -> Any:
    """Calls the function at ``place``; of a truth value only the lowest bit is significant."""
    return int(_linked[place](state, *map(int, arguments)) or 0)


class Declarations:
    """Functions that are called from a distance: each gets the next place when it is declared.

    ``behind``: those that have the places before, to which none may be added then.
    """

    def __init__(self, behind: Declarations | None = None) -> None:
        self._declared: list[Any] = []
        self._first = 0 if behind is None else len(behind)

    def __len__(self) -> int:
        return self._first + len(self._declared)

    def place_of(self, name: str) -> int:
        """The place of the function of that name.  Errors: ``ValueError``."""
        return self._first + [each.__name__ for each in self._declared].index(name)

    def function(self, declared: Callable[P, R]) -> Callable[P, R]:
        """A step that calls the function of this name and arguments, which returns an int64."""
        place = self._add(declared)

        def called(state: Any, *numbers: Any) -> Any:
            return call(state, place, numbers)

        return cast("Callable[P, R]", self._step(called, declared))

    def question(self, declared: Callable[P, R]) -> Callable[P, R]:
        """The same of a function that returns a truth value."""
        place = self._add(declared)

        def asked(state: Any, *numbers: Any) -> Any:
            return call(state, place, numbers) != 0

        return cast("Callable[P, R]", self._step(asked, declared))

    def _add(self, declared: Any) -> int:
        self._declared.append(declared)
        return len(self) - 1

    def _step(self, made: Any, declared: Any) -> Any:
        for each in ("__module__", "__name__", "__qualname__", "__doc__"):
            setattr(made, each, getattr(declared, each))
        return step(made)

    def found_in(self, *modules: ModuleType) -> tuple[Callable[..., Any], ...]:
        """The functions themselves, in the order of their places, from the modules that have them.

        Errors: ``TypeError`` where one is missing, is there twice, or takes other arguments.
        """
        return tuple(self._found(declared, modules) for declared in self._declared)

    def _found(self, declared: Any, modules: Sequence[ModuleType]) -> Callable[..., Any]:
        name = declared.__name__
        found = [
            vars(each)[name]
            for each in modules
            if getattr(vars(each).get(name), "__module__", "") == each.__name__
        ]
        if len(found) != 1:
            raise TypeError(f"{name} is declared once and defined {len(found)} times")
        [function] = found
        if _arguments(function) != _arguments(declared):
            raise TypeError(f"{name} is declared with other arguments than it is defined with")
        return cast("Callable[..., Any]", function)


def _arguments(function: Any) -> tuple[str, ...]:
    """What a function takes beside the state, which each room calls as it sees it."""
    code = function.__code__
    return tuple(code.co_varnames[1 : code.co_argcount])


class _Linker:
    """The addresses of functions for states of one kind: of code, or of callbacks."""

    def __init__(self, kind: StateKind, functions: Sequence[Callable[..., Any]]) -> None:
        self._where = place_of_field(kind, "calls") * _BYTES
        self._slots = [_Slot(self, place, each, kind) for place, each in enumerate(functions)]
        self.calls = np.array([each.address for each in self._slots], np.int64)
        self.plain: list[Callable[..., Any]] = [each.call_interpreted for each in self._slots]

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

    def call_interpreted(self, state: Any, *numbers: int) -> Any:
        """Interprets the call for interpreted code, and counts one more function to compile."""
        code = self._version.code_now()
        function = self._version.function
        if MODE.name != SWITCH:
            if _linked[self._place] == self.call_interpreted:
                _linked[self._place] = self._linker.plain[self._place] = function
            return function(state, *numbers)
        whole = handed(state)
        if code is None or whole.kind != self._version.kind:
            return function(state, *numbers)
        from nicscope.kernel.loading import exception_of

        result, excinfo = _Word(), ctypes.c_void_p()
        status = code.call(
            ctypes.addressof(result), ctypes.addressof(excinfo), whole.address, *numbers
        )
        if status:
            raise exception_of(status, excinfo.value)
        return result.value

    def _answer(self, result: int, excinfo: int, table: int, *numbers: int) -> int:
        """Do what was called for, by code if there is some by now; the status.

        What a signal raises as this is entered, or left, is lost: then the caller finds ``excinfo``
        as it was, and takes neither status nor result for one.
        """
        from nicscope.kernel.loading import leave_pending

        answered, left = _Word.from_address(excinfo), _Word(0)
        try:
            code = self._version.code_now()
            if code is None:
                found = self._version.interpret((handed_at(table).state, *numbers))
                _Word.from_address(result).value = int(found or 0)
                status = 0
            else:
                if not code.call_address:
                    name = self._version.function.__name__
                    raise TypeError(f"{name} returns no int64, truth value or nothing")
                if MODE.name != SWITCH:
                    self._linker.write(table, self._place, code.call_address)
                status = code.call(result, ctypes.addressof(left), table, *numbers)
        except BaseException as error:
            status = leave_pending(error)
        answered.value = left.value
        return status
