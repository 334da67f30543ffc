"""State as compiled code knows it, and code written by hand: distant calls, copies, search."""

from __future__ import annotations

import functools
from collections import namedtuple
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.core.callconv import Status
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
from nicscope.kernel.loading import LOST, PENDING
from nicscope.kernel.settings import CHECKED

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


unlikely: Any = cgutils.if_unlikely
room_for: Any = cgutils.alloca_once
raw_memcpy: Any = cgutils.raw_memcpy  # Numba says nothing about its types


@intrinsic
def call(_context: Any, state: Any, place: Any, arguments: Any) -> Any:
    """Call what the state's array ``calls`` has the address of; an error there is one here."""
    numbers = [types.int64] * len(arguments)

    def generate(context: Any, builder: Any, _signature: Any, values: Any) -> Any:
        calls = field_of(context, builder, state, values[0], "calls")
        array = context.make_array(context.typing_context.resolve_getattr(state, "calls"))
        words = builder.bitcast(array(context, builder, value=calls).data, WORD.as_pointer())
        number = context.cast(builder, values[1], place, types.int64)
        address = builder.load(builder.gep(words, [number]))
        convention = context.call_conv
        shape = convention.get_function_type(types.int64, (state, *numbers))
        given = [
            context.cast(builder, builder.extract_value(values[2], i), each, types.int64)
            for i, each in enumerate(arguments)
        ]
        result = room_for(builder, WORD)
        excinfo = room_for(builder, shape.args[1].pointee)
        nobody = builder.inttoptr(WORD(LOST), shape.args[1].pointee)
        builder.store(nobody, excinfo)
        function = builder.inttoptr(address, shape.as_pointer())
        code = builder.call(function, [result, excinfo, values[0], *given])
        left = builder.load(excinfo)
        lost = builder.icmp_unsigned("==", left, nobody)
        code = builder.select(lost, code.type(PENDING), code)
        with unlikely(builder, builder.icmp_signed("!=", code, code.type(0))):
            status = Status(code, None, None, None, None, None, None, left)
            convention.return_status_propagate(builder, status)
        return builder.load(result)

    return types.int64(state, place, arguments), generate


@intrinsic
def copy_bytes(_context: Any, target: Any, to: Any, source: Any, begin: Any, count: Any) -> Any:
    """Copy ``source[begin : begin + count]`` to ``target[to : ...]`` as the machine can."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kinds = signature.args
        to_at, from_at, size = (
            context.cast(builder, values[i], kinds[i], types.int64) for i in (1, 3, 4)
        )
        into, out_of = (context.make_array(kinds[i])(context, builder, values[i]) for i in (0, 2))
        if CHECKED:
            _check(context, builder, into, to_at, size)
            _check(context, builder, out_of, from_at, size)
        target_at, source_at = builder.gep(into.data, [to_at]), builder.gep(out_of.data, [from_at])
        with builder.if_then(builder.icmp_signed(">", size, WORD(0))):
            raw_memcpy(builder, target_at, source_at, size, 1)
        return context.get_dummy_value()

    return types.none(target, to, source, begin, count), generate


def _check(context: Any, builder: Any, array: Any, begin: Any, count: Any) -> None:
    """Raise ``IndexError`` unless ``array`` has ``count`` bytes from ``begin``."""
    length = array.nitems
    left = builder.sub(length, begin)
    outside = builder.or_(
        builder.icmp_signed("<", begin, WORD(0)), builder.icmp_signed("<", left, count)
    )
    some = builder.icmp_signed(">", count, WORD(0))
    with unlikely(builder, builder.and_(some, outside)):
        context.call_conv.return_user_exc(
            builder, IndexError, ("bytes outside of the array they are copied from or to",)
        )


@intrinsic
def look_up(_context: Any, sets: Any, _first: Any, _key: Any, lanes: Any) -> Any:
    """Put a key first in a row of keys, all at once; how deep it stood.

    The length of the tuple ``lanes`` is the width of the row.
    """
    width = len(lanes)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = proxy(signature.args[0])(context, builder, arguments[0])
        bits, word = ir.IntType(width), ir.IntType(32)
        row_type = ir.VectorType(word, width)
        pointer = builder.bitcast(builder.gep(array.data, [arguments[1]]), row_type.as_pointer())
        row = builder.load(pointer, align=4 * width)
        lone = builder.insert_element(ir.Constant(row_type, ir.Undefined), arguments[2], word(0))

        keys = builder.shuffle_vector(lone, lone, row_type([0] * width))
        found = builder.bitcast(builder.icmp_unsigned("==", row, keys), bits)
        # The lanes up to the key are those below and at the lowest bit found: all if none is.
        moved = builder.xor(found, builder.sub(found, bits(1)))
        older = builder.shuffle_vector(row, lone, row_type([width, *range(width - 1)]))
        mask = builder.bitcast(moved, ir.VectorType(ir.IntType(1), width))
        builder.store(builder.select(mask, older, row), pointer, align=4 * width)
        return builder.zext(builder.cttz(found, ir.IntType(1)(0)), ir.IntType(64))

    return types.uint64(sets, types.uint64, types.uint32, lanes), generate


@intrinsic
def lowest_bit(_context: Any, _word: Any) -> Any:
    """The place of the lowest bit that is set in a word that is not 0."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(1))

    return types.int64(types.uint64), generate
