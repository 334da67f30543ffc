"""Bytes from one array to another at the speed of the memory, in compiled code.

    copy_bytes(target, to, source, begin, count)

copies ``source[begin : begin + count]`` to ``target[to : to + count]``; both are one-dimensional,
contiguous arrays of bytes that do not overlap.  A loop over elements that are read through a state
costs some twenty instructions a byte, because the compiler cannot know what the bytes overwrite.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils, config
from numba.extending import intrinsic

from nicscope.jit import step

raw_memcpy: Any = cgutils.raw_memcpy  # Numba says nothing about its types


def plain_copy(target: Any, to: int, source: Any, begin: int, count: int) -> None:
    """The same without the compiler."""
    target[to : to + count] = source[begin : begin + count]


@step
def checked_copy(target: Any, to: Any, source: Any, begin: Any, count: Any) -> None:
    """The same byte by byte, for whoever wants indices checked."""
    for i in range(count):
        target[to + i] = source[begin + i]


@intrinsic
def compiled_copy(_context: Any, target: Any, to: Any, source: Any, begin: Any, count: Any) -> Any:
    """The same by the machine's own means."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        kinds = signature.args
        bytes_to, bytes_from = (
            context.make_array(kinds[i])(context, builder, value=values[i]).data for i in (0, 2)
        )
        to_at, from_at, size = (
            context.cast(builder, values[i], kinds[i], types.int64) for i in (1, 3, 4)
        )
        raw_memcpy(
            builder, builder.gep(bytes_to, [to_at]), builder.gep(bytes_from, [from_at]), size, 1
        )
        return context.get_dummy_value()

    return types.none(target, to, source, begin, count), generate


def _chosen() -> Any:
    if config.DISABLE_JIT:
        return plain_copy
    return checked_copy if config.BOUNDSCHECK else compiled_copy


copy_bytes: Any = _chosen()
