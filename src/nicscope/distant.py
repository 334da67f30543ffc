"""Calls through addresses, so that a caller is compiled without what it calls.

Numba links all that a function calls into it and optimises the whole again, at every level: deep
programs compile in time that grows with depth times size.  A distant function is compiled by
itself, when it is first called: its address stands in the state's array ``calls``, at a place that
both sides know.

    calls=new_calls(len(FUNCTIONS))       # a field of the state
    link(machine, FUNCTIONS)              # once per state, outside
    call(machine, 3, (n, now))            # FUNCTIONS[3](machine, n, now), in compiled code

A distant function takes a state that was handed over and int64s, and returns int64, a truth value
or nothing.  Without the compiler ``call`` calls what was linked last, whose list never differs.
"""

from __future__ import annotations

import _thread
import ctypes
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import config
from numba.extending import intrinsic

from nicscope.handover import Handed, HandedType, field_of, place_of_field, type_of_handed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

WORD = ir.IntType(64)
_BYTES = 8  # of a word
_LINKER = 0  # place in ``calls`` of what is called for an address that is not known yet
_FIRST = 1  # place of the first function
_LATER_S = 0.01  # until an interrupt is raised again: by then its callback has returned
_RETURNED = (types.int64, types.boolean, types.none)
_Word = ctypes.c_int64
_Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, _Word)
_NOTHING = ctypes.CFUNCTYPE(_Word)(lambda: 0)  # in place of a function without code
_linked: list[Callable[..., Any]] = []
_linkers: dict[tuple[Any, ...], _Linker] = {}
failures: list[BaseException] = []  # of compiling in the middle of a run; see ``raise_failure``


def new_calls(functions: int) -> NDArray[np.int64]:
    """The array ``calls`` of a state, for so many functions."""
    return np.zeros(_FIRST + functions, np.int64)


def link(state: Any, functions: Sequence[Callable[..., Any]]) -> None:
    """Let ``call`` on ``state`` find ``functions``, kernels all.

    Each compiles, or is read from the cache, when it is first called.
    """
    _linked[:] = functions
    if config.DISABLE_JIT:
        return
    kind = type_of_handed(Handed(state))
    key = (kind, *map(id, functions))
    if key not in _linkers:
        _linkers[key] = _Linker(kind, functions)
    state.calls[:] = _linkers[key].calls


def raise_failure() -> None:
    """Raise what kept a function from being compiled in the middle of a run, if anything did.

    Compiled code cannot be left there: it goes on, with nothing in the function's place, to its
    end or to the next chance to ask.
    """
    if failures:
        raise failures.pop()


def _address(callback: Any) -> int:
    return ctypes.cast(callback, ctypes.c_void_p).value or 0


class _Linker:
    """The addresses of functions for states of one type, so far as they are known."""

    def __init__(self, kind: HandedType, functions: Sequence[Callable[..., Any]]) -> None:
        self._kind = kind
        self._functions = functions
        self._where = place_of_field(kind.state, "calls") * _BYTES
        self._callback = _Callback(self._find)
        self.calls = new_calls(len(functions))
        self.calls[_LINKER] = _address(self._callback)

    def _find(self, table: int, place: int) -> None:
        """Write the address of function ``place`` where the state with ``table`` looks for it.

        The caller looks again, so after an interrupt, which cannot leave here, the next try finds
        it; and the interrupt is raised once more when it can be.
        """
        slot = place + _FIRST
        try:
            if not self.calls[slot]:
                self.calls[slot] = self._address_of(self._functions[place])
            self._write(table, slot, int(self.calls[slot]))
        except KeyboardInterrupt:
            threading.Timer(_LATER_S, _thread.interrupt_main).start()
        except BaseException as error:
            failures.append(error)
            self._write(table, slot, _address(_NOTHING))

    def _write(self, table: int, slot: int, address: int) -> None:
        calls = _Word.from_address(table + self._where).value
        _Word.from_address(calls + slot * _BYTES).value = address

    def _address_of(self, function: Any) -> int:
        numbers = function.py_func.__code__.co_argcount - 1
        signature = (self._kind, *[types.int64] * numbers)
        function.compile(signature)
        compiled = function.overloads[signature]
        if compiled.signature.return_type not in _RETURNED:
            raise TypeError(
                f"{function.py_func.__name__} returns {compiled.signature.return_type}, not int64"
            )
        name = compiled.fndesc.llvm_cfunc_wrapper_name
        address: int = compiled.library.get_pointer_to_function(name)
        return address


def plain_call(state: Any, place: int, arguments: Any) -> Any:
    """What the function at ``place`` returns."""
    return _linked[place](state, *arguments)


@intrinsic
def compiled_call(_context: Any, state: Any, place: Any, arguments: Any) -> Any:
    """As ``plain_call``; of nothing or a truth value only the lowest bit may mean anything."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        calls = field_of(context, builder, state, values[0], "calls")
        kind = signature.args[0].state
        array = context.make_array(kind.types[kind.fields.index("calls")])
        words = builder.bitcast(array(context, builder, value=calls).data, WORD.as_pointer())
        number = context.cast(builder, values[1], place, types.int64)
        handed = context.get_value_type(state)
        slot = builder.gep(words, [builder.add(number, WORD(_FIRST))])

        look = builder.append_basic_block("look")
        ask = builder.append_basic_block("ask")
        known = builder.append_basic_block("known")
        builder.branch(look)
        builder.position_at_end(look)
        address = builder.load(slot)
        unknown = builder.icmp_unsigned("==", address, WORD(0))
        builder.cbranch(unknown, ask, known).set_weights([1, 1000])
        builder.position_at_end(ask)
        linker = ir.FunctionType(ir.VoidType(), [handed, WORD])
        where = builder.load(builder.gep(words, [WORD(_LINKER)]))
        builder.call(builder.inttoptr(where, linker.as_pointer()), [values[0], number])
        builder.branch(look)
        builder.position_at_end(known)

        function = ir.FunctionType(WORD, [handed] + [WORD] * len(arguments))
        numbers = [
            context.cast(builder, builder.extract_value(values[2], i), each, types.int64)
            for i, each in enumerate(arguments)
        ]
        return builder.call(builder.inttoptr(address, function.as_pointer()), [values[0], *numbers])

    return types.int64(state, place, arguments), generate


call: Any = plain_call if config.DISABLE_JIT else compiled_call
