"""State handed over to compiled code at the cost of one address, however many arrays it has.

Numba unboxes every array of a NamedTuple at every call from Python, some 100 ns each: for a
machine of forty arrays, several times what a short call does.  Here the arrays' addresses, shapes
and strides are written into one table when the state is bound to a kernel, which reads them there.

    @kernel
    def advance(machine, most):
        machine.nodes[0].cpu = IDLE
        ...

    go_on = bound(advance, machine)
    go_on(100)

In compiled code the state is the address of its table, and a field is read when it is named: so
kernels hand a state on for one word, and its size costs no time to compile.  A state can be taken
apart by field only, not as the tuple that it is outside.  ``row_of(state, n)`` is such a state too:
row n of each of its arrays.

What is handed over has a Numba type of its own, made of the NamedTuple's, so kernels are cached as
ever: nothing is generated or closed over.  Without the compiler the NamedTuple itself is passed.
"""

from __future__ import annotations

import functools
import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils, config
from numba.core.pythonapi import NativeValue
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import (
    intrinsic,
    lower_getattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)
from numba.np.numpy_support import from_dtype, map_layout

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

WORD = ir.IntType(64)
# Numba says nothing about the types of these.
tuple_type: Any = types.BaseTuple.from_types
unboxed: Any = unbox
native: Any = NativeValue
element: Any = cgutils.gep_inbounds
proxy: Any = cgutils.create_struct_proxy
infer: Any = infer_getattr
lower: Any = lower_getattr_generic


def bound(kernel: Callable[..., Any], state: Any) -> Callable[..., Any]:
    """``kernel`` with ``state`` for its first argument; all others are int64.

    ``state`` is a NamedTuple of arrays and of such NamedTuples.  The kernel
    compiles or is read from the cache here, and a call finds it without a look at the types of its
    arguments.  What is returned keeps the arrays alive.  Errors: ``TypeError`` for a field that is
    not an array.
    """
    if config.DISABLE_JIT:
        return functools.partial(kernel, state)
    handed = Handed(state)
    dispatcher: Any = kernel
    numbers = dispatcher.py_func.__code__.co_argcount - 1
    entry = dispatcher.compile((type_of_handed(handed), *[types.int64] * numbers))
    return functools.partial(entry, handed)


class Handed:
    """The table of one state's arrays, and the state itself, which must live as long."""

    def __init__(self, state: Any) -> None:
        self.state = state
        rows = [number for array in _arrays_of(state) for number in _row_of(array)]
        self.table = np.array(rows, np.int64)
        self.address = self.table.ctypes.data  # read by ``_unbox_handed``


def _arrays_of(state: Any) -> Iterator[NDArray[Any]]:
    for name, field in zip(state._fields, state, strict=True):
        if isinstance(field, np.ndarray):
            yield field
        elif hasattr(field, "_fields"):
            yield from _arrays_of(field)
        else:
            raise TypeError(f"only arrays can be handed over; {name} is {field!r}")


def _row_of(array: NDArray[Any]) -> tuple[int, ...]:
    return (array.ctypes.data, *array.shape, *array.strides)


class HandedType(types.Type):
    """Of a ``Handed``; ``state`` is the type of the NamedTuple."""

    def __init__(self, state: Any) -> None:
        self.state = state
        super().__init__(name=f"Handed({name_of(state)})")


@functools.cache
def name_of(state: Any) -> str:
    """A short name for the type of a NamedTuple, of the class's and of all that its fields are.

    Numba hashes types and writes their names into symbols all the time; the whole name of a
    machine has ten thousand letters.
    """
    fields = (
        f"{name}: {kind if isinstance(kind, types.Array) else name_of(kind)}"
        for name, kind in zip(state.fields, state.types, strict=True)
    )
    kind = state.instance_class
    whole = f"{kind.__module__}.{kind.__qualname__}({', '.join(fields)})"
    return f"{kind.__name__} {hashlib.sha256(whole.encode()).hexdigest()[:16]}"


register_model(HandedType)(models.OpaqueModel)


def type_of_handed(handed: Handed) -> HandedType:
    """The type under which compiled code knows it."""
    return HandedType(_type_of(handed.state))


@typeof_impl.register(Handed)
def _typeof_handed(handed: Handed, _context: Any) -> HandedType:
    return type_of_handed(handed)


def _type_of(state: Any) -> types.Type:
    if isinstance(state, np.ndarray):
        return _array_type(state.dtype, state.ndim, map_layout(state), not state.flags.writeable)
    kind: types.Type = tuple_type([_type_of(field) for field in state], type(state))
    return kind


@functools.cache
def _array_type(dtype: np.dtype[Any], ndim: int, layout: Any, read_only: bool) -> types.Type:
    return types.Array(from_dtype(dtype), ndim, layout, read_only)


def _unbox_handed(_type: HandedType, handed: Any, c: Any) -> Any:
    address = c.pyapi.object_getattr_string(handed, "address")
    pointer = c.pyapi.long_as_voidptr(address)
    c.pyapi.decref(address)
    return native(pointer, is_error=c.pyapi.c_api_error())


unboxed(HandedType)(_unbox_handed)


class RowType(types.Type):
    """Of one row of a state whose arrays all have as many: each array without its first axis."""

    def __init__(self, state: Any) -> None:
        self.state = state
        super().__init__(name=f"Row({name_of(state)})")


@register_model(RowType)
class _RowModel(models.StructModel):
    """Where the table of the state begins, and which row."""

    def __init__(self, manager: Any, kind: RowType) -> None:
        base: Any = super()
        base.__init__(manager, kind, [("table", types.voidptr), ("row", types.int64)])


def plain_row_of(state: Any, row: int) -> Any:
    """Row ``row`` of every array of ``state``, as a state of the same kind."""
    rows = (
        field[row] if isinstance(field, np.ndarray) else plain_row_of(field, row) for field in state
    )
    return tuple.__new__(type(state), rows)


@intrinsic
def compiled_row_of(_context: Any, state: Any, row: Any) -> Any:
    """As ``plain_row_of``, of what was handed over: two words, and an array is read when named."""
    result = RowType(state.state)

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        made = proxy(result)(context, builder)
        made.table = builder.bitcast(arguments[0], made.table.type)
        made.row = context.cast(builder, arguments[1], row, types.int64)
        return made._getvalue()

    return result(state, row), generate


row_of: Any = plain_row_of if config.DISABLE_JIT else compiled_row_of


class _Fields(AttributeTemplate):
    """The types of a handed state's fields: arrays, and states within it, handed over too."""

    key = HandedType

    def generic_resolve(  # type: ignore[override]
        self, handed: HandedType, name: str
    ) -> types.Type | None:
        return _type_of_field(handed, name)


@functools.cache
def _type_of_field(handed: HandedType, name: str) -> types.Type | None:
    state: Any = handed.state
    if name not in state.fields:
        return None
    kind = state.types[state.fields.index(name)]
    return kind if isinstance(kind, types.Array) else HandedType(kind)


infer(_Fields)


def field_of(context: Any, builder: Any, handed: Any, table: Any, name: str) -> Any:
    """Write the code that reads field ``name``: its words, or where those of a state begin."""
    state = handed.state
    words = builder.bitcast(table, WORD.as_pointer())
    begin = element(builder, words, place_of_field(state, name))
    kind = state.types[state.fields.index(name)]
    if not isinstance(kind, types.Array):
        return builder.bitcast(begin, context.get_value_type(HandedType(kind)))
    return _read_array(context, builder, kind, begin)


lower(HandedType)(field_of)


class _RowFields(AttributeTemplate):
    """The types of a row's fields: arrays without their first axis, and rows of states within."""

    key = RowType

    def generic_resolve(  # type: ignore[override]
        self, row: RowType, name: str
    ) -> types.Type | None:
        return _type_of_row_field(row, name)


@functools.cache
def _type_of_row_field(row: RowType, name: str) -> types.Type | None:
    state: Any = row.state
    if name not in state.fields:
        return None
    kind = state.types[state.fields.index(name)]
    return _row_type(kind) if isinstance(kind, types.Array) else RowType(kind)


infer(_RowFields)


def _row_type(kind: Any) -> types.Type:
    return types.Array(kind.dtype, kind.ndim - 1, kind.layout, not kind.mutable)


def _lower_row_field(context: Any, builder: Any, row: Any, value: Any, name: str) -> Any:
    """Write the code that reads field ``name`` of a row."""
    state = row.state
    made = proxy(row)(context, builder, value=value)
    words = builder.bitcast(made.table, WORD.as_pointer())
    begin = element(builder, words, place_of_field(state, name))
    kind = state.types[state.fields.index(name)]
    if not isinstance(kind, types.Array):
        inner = proxy(RowType(kind))(context, builder)
        inner.table = builder.bitcast(begin, inner.table.type)
        inner.row = made.row
        return inner._getvalue()
    return _read_array(context, builder, kind, begin, made.row)


lower(RowType)(_lower_row_field)


def place_of_field(state: Any, name: str) -> int:
    """Where in the table of a state of type ``state`` the words of field ``name`` begin."""
    return sum(_words_of(kind) for kind in state.types[: state.fields.index(name)])


def _words_of(kind: Any) -> int:
    if isinstance(kind, types.Array):
        return 1 + 2 * int(kind.ndim)
    return sum(_words_of(each) for each in kind.types)


def _read_array(context: Any, builder: Any, kind: Any, begin: Any, row: Any = None) -> Any:
    from numba.np import arrayobj  # slow to import, and not needed where all is cached

    code: Any = arrayobj
    words = [_read_word(builder, begin, place) for place in range(_words_of(kind))]
    address = words[0]
    shape, strides = words[1 : 1 + kind.ndim], words[1 + kind.ndim :]
    if row is not None:
        address = builder.add(address, builder.mul(row, strides[0]))
        kind, shape, strides = _row_type(kind), shape[1:], strides[1:]
    array = code.make_array(kind)(context, builder)
    data = builder.inttoptr(address, array.data.type)
    item_bytes = context.get_abi_sizeof(context.get_data_type(kind.dtype))
    code.populate_array(array, data, shape, strides, item_bytes, meminfo=None)
    return array._getvalue()


def _read_word(builder: Any, begin: Any, place: int) -> Any:
    """One word of a table, which never changes: it need not be read again after each store."""
    word = builder.load(element(builder, begin, place))
    word.set_metadata("invariant.load", builder.module.add_metadata([]))
    return word
