"""Code written by hand: calls from a distance, copies of bytes, and search in a vector.

The plain side of each is the function that names it in ``kernel.decorators.coded``.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.core.callconv import Status
from numba.extending import intrinsic

from nicscope.kernel.compiler.states import field_of
from nicscope.kernel.loading import LOST, PENDING
from nicscope.kernel.mode import CHECKED

WORD = ir.IntType(64)
unlikely: Any = cgutils.if_unlikely
room_for: Any = cgutils.alloca_once
raw_memcpy: Any = cgutils.raw_memcpy  # Numba says nothing about its types
proxy: Any = cgutils.create_struct_proxy


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
