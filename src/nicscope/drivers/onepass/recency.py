"""Sets of keys in order of recency, and the one operation on them.

A set is a row of 8 or 16 uint32 keys, most recently looked up first, ``EMPTY`` at its end.  A
look-up tells how deep the key stood and puts it first.  Scalar code takes several branches that
no processor can foresee; as a vector, a row is compared and moved at once.  The vector code is
plain LLVM, so it compiles for any processor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils, config
from numba.extending import intrinsic

if TYPE_CHECKING:
    from numpy.typing import NDArray

EMPTY = np.uint32(0xFFFFFFFF)
WIDTHS = (8, 16)


def empty_sets(count: int, width: int) -> NDArray[np.uint32]:
    """``count`` empty sets of ``width`` keys in a row, aligned as the vector code wants them."""
    raw = np.full(count * width + 16, EMPTY)
    start = -raw.ctypes.data % 64 // 4
    return raw[start : start + count * width]


def plain_look_up(sets: Any, first: Any, key: Any, lanes: Any) -> Any:
    """Put ``key`` first in the row ``sets[first : first + len(lanes)]``; how deep it stood.

    The depth, uint64, is ``len(lanes)`` if the key was not there.
    """
    row = sets[int(first) : int(first) + len(lanes)]
    found = np.flatnonzero(row == key)
    depth = int(found[0]) if len(found) else len(lanes)
    row[1 : depth + 1] = row[:depth].copy()[: len(lanes) - 1]
    row[0] = key
    return np.uint64(depth)


@intrinsic
def vector_look_up(_context: Any, sets: Any, _first: Any, _key: Any, lanes: Any) -> Any:
    """As ``plain_look_up``, in compiled code; the length of the tuple ``lanes`` is the width."""
    width = len(lanes)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        proxy = cgutils.create_struct_proxy(signature.args[0])  # type: ignore[no-untyped-call]
        array = proxy(context, builder, arguments[0])
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


look_up: Any = plain_look_up if config.DISABLE_JIT else vector_look_up
