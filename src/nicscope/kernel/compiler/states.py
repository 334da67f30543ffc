"""State as compiled code knows it: the address of a table, and types made of its kind.

A field is read when it is named.  ``row_of(state, n)`` is such a state too: row n of each of its
arrays.
"""

from __future__ import annotations

import functools
from collections import namedtuple
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import intrinsic, lower_getattr_generic, models, register_model
from numba.np import arrayobj
from numba.np.numpy_support import from_dtype

from nicscope.kernel.layout import (
    NOTHING,
    ArrayKind,
    StateKind,
    digest_of_kind,
    dtype_of_text,
    place_of_field,
    words_in,
)

WORD = ir.IntType(64)
# Numba says nothing about the types of these.
tuple_type: Any = types.BaseTuple.from_types
element: Any = cgutils.gep_inbounds
proxy: Any = cgutils.create_struct_proxy
infer: Any = infer_getattr
lower: Any = lower_getattr_generic
arrays: Any = arrayobj
_NUMBERS = {
    "int64": types.int64,
    "uint64": types.uint64,
    "float64": types.float64,
    "bool": types.boolean,
    NOTHING: types.none,
}


def _short(kind: StateKind) -> str:
    """A short name: Numba writes the names of types into symbols all the time."""
    return f"{kind.name.rpartition('.')[2]} {digest_of_kind(kind)[:16]}"


class HandedType(types.Type):
    """Of the address of a table of ``kind``."""

    def __init__(self, kind: StateKind) -> None:
        self.kind = kind
        super().__init__(name=f"Handed({_short(kind)})")


register_model(HandedType)(models.OpaqueModel)


class RowType(types.Type):
    """Of one row of a state whose arrays all have as many: each array without its first axis."""

    def __init__(self, kind: StateKind) -> None:
        self.kind = kind
        super().__init__(name=f"Row({_short(kind)})")


@register_model(RowType)
class _RowModel(models.StructModel):
    """Where the table of the state begins, and which row."""

    def __init__(self, manager: Any, kind: RowType) -> None:
        base: Any = super()
        base.__init__(manager, kind, [("table", types.voidptr), ("row", types.int64)])


@functools.cache
def array_type(kind: ArrayKind) -> types.Type:
    """The type of an array of ``kind``."""
    layout: Any = kind.layout
    dtype: Any = from_dtype(dtype_of_text(kind.dtype))
    made: types.Type = types.Array(dtype, kind.ndim, layout, kind.read_only)
    return made


@functools.cache
def type_of(kind: Any) -> types.Type:
    """The type of a field of ``kind``; a NamedTuple is where its part of the table begins."""
    if isinstance(kind, ArrayKind):
        return array_type(kind)
    if isinstance(kind, StateKind):
        return HandedType(kind)
    return _NUMBERS[kind]


@functools.cache
def value_type_of(kind: Any) -> types.Type:
    """The type of an argument of ``kind``: a NamedTuple is that, with its arrays in registers.

    What a kernel is given once and uses in a loop is twice as fast so; a state that is handed on
    and on is better read where it lies.
    """
    if not isinstance(kind, StateKind):
        return type_of(kind)
    whole: types.Type
    if kind.name == "tuple":
        whole = tuple_type([value_type_of(each) for each in kind.kinds])
    else:
        whole = tuple_type([value_type_of(each) for each in kind.kinds], _class_of(kind))
    return whole


@functools.cache
def _class_of(kind: StateKind) -> type:
    """A class with the name and the fields of the one that ``kind`` was made from."""
    return namedtuple(kind.name.rpartition(".")[2], kind.fields)


@functools.cache
def _type_of_field(kind: StateKind, name: str) -> types.Type | None:
    if name not in kind.fields:
        return None
    found = kind.kinds[kind.fields.index(name)]
    return value_type_of(found) if kind.name == "arguments" else type_of(found)


class _Fields(AttributeTemplate):
    """The types of a handed state's fields."""

    key = HandedType

    def generic_resolve(  # type: ignore[override]
        self, handed: HandedType, name: str
    ) -> types.Type | None:
        return _type_of_field(handed.kind, name)


infer(_Fields)


def field_of(context: Any, builder: Any, handed: Any, table: Any, name: str) -> Any:
    """Write the code that reads field ``name``: its words, or where those of a state begin."""
    words = builder.bitcast(table, WORD.as_pointer())
    begin = element(builder, words, place_of_field(handed.kind, name))
    kind = handed.kind.kinds[handed.kind.fields.index(name)]
    if handed.kind.name == "arguments":
        return _read_value(context, builder, kind, begin)
    return _read(context, builder, kind, begin)


def _read_value(context: Any, builder: Any, kind: Any, begin: Any) -> Any:
    if not isinstance(kind, StateKind):
        return _read(context, builder, kind, begin)
    parts = []
    for each in kind.kinds:
        parts.append(_read_value(context, builder, each, begin))
        begin = element(builder, begin, words_in(each))
    return context.make_tuple(builder, value_type_of(kind), parts)


lower(HandedType)(field_of)


def _read(context: Any, builder: Any, kind: Any, begin: Any) -> Any:
    if isinstance(kind, ArrayKind):
        return _read_array(context, builder, array_type(kind), begin)
    if isinstance(kind, StateKind):
        return builder.bitcast(begin, context.get_value_type(type_of(kind)))
    if kind == NOTHING:
        return context.get_dummy_value()
    word = _read_word(builder, begin, 0)
    if kind == "float64":
        return builder.bitcast(word, ir.DoubleType())
    return builder.trunc(word, ir.IntType(1)) if kind == "bool" else word


class _RowFields(AttributeTemplate):
    """The types of a row's fields: arrays without their first axis, and rows of states within."""

    key = RowType

    def generic_resolve(  # type: ignore[override]
        self, row: RowType, name: str
    ) -> types.Type | None:
        return _type_of_row_field(row.kind, name)


@functools.cache
def _type_of_row_field(state: StateKind, name: str) -> types.Type | None:
    if name not in state.fields:
        return None
    kind = state.kinds[state.fields.index(name)]
    return _row_type(array_type(kind)) if isinstance(kind, ArrayKind) else RowType(kind)


infer(_RowFields)


def _row_type(kind: Any) -> types.Type:
    # A row of what lies column by column is neither.
    layout: Any = "A" if kind.layout == "F" else kind.layout
    return types.Array(kind.dtype, kind.ndim - 1, layout, not kind.mutable)


def _lower_row_field(context: Any, builder: Any, row: Any, value: Any, name: str) -> Any:
    """Write the code that reads field ``name`` of a row."""
    made = proxy(row)(context, builder, value=value)
    words = builder.bitcast(made.table, WORD.as_pointer())
    begin = element(builder, words, place_of_field(row.kind, name))
    kind = row.kind.kinds[row.kind.fields.index(name)]
    if isinstance(kind, ArrayKind):
        return _read_array(context, builder, array_type(kind), begin, made.row)
    inner = proxy(RowType(kind))(context, builder)
    inner.table = builder.bitcast(begin, inner.table.type)
    inner.row = made.row
    return inner._getvalue()


lower(RowType)(_lower_row_field)


@intrinsic
def row_of(_context: Any, state: Any, row: Any) -> Any:
    """Two words, and an array is read when it is named."""
    result = RowType(state.kind)

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        made = proxy(result)(context, builder)
        made.table = builder.bitcast(arguments[0], made.table.type)
        made.row = context.cast(builder, arguments[1], row, types.int64)
        return made._getvalue()

    return result(state, row), generate


def _read_array(context: Any, builder: Any, kind: Any, begin: Any, row: Any = None) -> Any:
    words = [
        _read_word(builder, begin, place)
        for place in range(words_in(ArrayKind("", kind.ndim, "", False)))
    ]
    address = words[0]
    shape, strides = words[1 : 1 + kind.ndim], words[1 + kind.ndim :]
    if row is not None:
        address = builder.add(address, builder.mul(row, strides[0]))
        kind, shape, strides = _row_type(kind), shape[1:], strides[1:]
    array = arrays.make_array(kind)(context, builder)
    data = builder.inttoptr(address, array.data.type)
    item_bytes = context.get_abi_sizeof(context.get_data_type(kind.dtype))
    arrays.populate_array(array, data, shape, strides, item_bytes, meminfo=None)
    return array._getvalue()


def _read_word(builder: Any, begin: Any, place: int) -> Any:
    """One word of a table, which never changes: it need not be read again after each store."""
    word = builder.load(element(builder, begin, place))
    word.set_metadata("invariant.load", builder.module.add_metadata([]))
    return word
