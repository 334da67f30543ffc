"""Calls through addresses, so that a caller is compiled without what it calls.

Numba links all that a function calls into it and optimises the whole again, at every level: deep
programs compile in time that grows with depth times size.  A distant function is compiled by
itself, and its address stands in the state's array ``calls``, at a place that both sides know.

    link(machine, FUNCTIONS)     # once per state, outside
    call(machine, 3, (n, now))   # FUNCTIONS[3](machine, n, now), in compiled code

A distant function takes a state that was handed over and int64s, and returns int64, a truth value
or nothing.  Without the compiler ``call`` calls what was linked last, whose list never differs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import config
from numba.extending import intrinsic

from nicscope.handover import Handed, HandedType, field_of, type_of_handed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WORD = ir.IntType(64)
_RETURNED = (types.int64, types.boolean, types.none)
_linked: list[Callable[..., Any]] = []
_addresses: dict[tuple[Any, ...], list[int]] = {}


def link(state: Any, functions: Sequence[Callable[..., Any]]) -> None:
    """Write the addresses of ``functions``, kernels all, into ``state.calls``.

    They compile or are read from the cache here.  Errors: ``TypeError`` for one that returns what
    a call cannot bring.
    """
    _linked[:] = functions
    if config.DISABLE_JIT:
        return
    kind = type_of_handed(Handed(state))
    key = (kind, *map(id, functions))
    if key not in _addresses:  # to look them all up takes longer than a small simulation
        _addresses[key] = [_address_of(function, kind) for function in functions]
    state.calls[: len(functions)] = _addresses[key]


def _address_of(function: Any, kind: HandedType) -> int:
    numbers = function.py_func.__code__.co_argcount - 1
    signature = (kind, *[types.int64] * numbers)
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
        words = context.make_array(signature.args[0].state.types[_place_of(state)])(
            context, builder, value=calls
        ).data
        index = context.cast(builder, values[1], place, types.int64)
        address = builder.load(builder.gep(builder.bitcast(words, WORD.as_pointer()), [index]))
        handed = context.get_value_type(state)
        kind = ir.FunctionType(WORD, [handed] + [WORD] * len(arguments))
        numbers = [
            context.cast(builder, builder.extract_value(values[2], i), each, types.int64)
            for i, each in enumerate(arguments)
        ]
        function = builder.inttoptr(address, kind.as_pointer())
        return builder.call(function, [values[0], *numbers])

    return types.int64(state, place, arguments), generate


def _place_of(state: Any) -> int:
    place: int = state.state.fields.index("calls")
    return place


call: Any = plain_call if config.DISABLE_JIT else compiled_call
