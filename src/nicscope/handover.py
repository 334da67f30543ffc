"""State handed over to compiled code at the cost of one address, however many arrays it has.

Numba unboxes every array of a NamedTuple at every call from Python, some 100 ns each: for a
machine of forty arrays, several times what a short call does.  Here the arrays' addresses, shapes
and strides are written into one table when the state is bound to a kernel, which reads them there.

    @kernel
    def advance(handed, most):
        machine = taken(handed)
        ...

    go_on = bound(advance, machine)
    go_on(100)

What is handed over has a Numba type of its own, made of the NamedTuple's, so kernels are cached as
ever: nothing is generated or closed over.  Without the compiler the NamedTuple itself is passed.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils, config
from numba.core.pythonapi import NativeValue
from numba.extending import intrinsic, models, register_model, typeof_impl, unbox
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


def bound(kernel: Callable[..., Any], state: Any) -> Callable[..., Any]:
    """``kernel`` with ``state`` for its first argument; all others are int64.

    ``state`` is a NamedTuple of arrays and of such NamedTuples; the kernel ``taken``s it.  It
    compiles or is read from the cache here, and a call finds it without a look at the types of its
    arguments.  What is returned keeps the arrays alive.  Errors: ``TypeError`` for a field that is
    not an array.
    """
    if config.DISABLE_JIT:
        return functools.partial(kernel, state)
    handed = Handed(state)
    dispatcher: Any = kernel
    numbers = dispatcher.py_func.__code__.co_argcount - 1
    entry = dispatcher.compile((_typeof_handed(handed, None), *[types.int64] * numbers))
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

    def __init__(self, state: types.Type) -> None:
        self.state = state
        super().__init__(name=f"Handed({state})")

    @property
    def key(self) -> types.Type:
        """What it is told from others by: two NamedTuples may have one name."""
        return self.state


register_model(HandedType)(models.OpaqueModel)


@typeof_impl.register(Handed)
def _typeof_handed(handed: Handed, _context: Any) -> HandedType:
    return HandedType(_type_of(handed.state))


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


def plain_taken(handed: Any) -> Any:
    """The NamedTuple that was handed over."""
    return handed


@intrinsic
def compiled_taken(_context: Any, handed: Any) -> Any:
    """As ``plain_taken``, in compiled code; what was passed whole is given back as it is."""
    if not isinstance(handed, HandedType):
        return handed(handed), lambda _context, _builder, _signature, arguments: arguments[0]

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        table = builder.bitcast(arguments[0], WORD.as_pointer())
        return _Reader(context, builder, table).state(handed.state)

    return handed.state(handed), generate


taken: Any = plain_taken if config.DISABLE_JIT else compiled_taken


class _Reader:
    """Writes the code that reads a table's words in their order."""

    def __init__(self, context: Any, builder: Any, table: Any) -> None:
        self._context = context
        self._builder = builder
        self._table = table
        self._place = 0

    def state(self, kind: Any) -> Any:
        """The NamedTuple of type ``kind`` whose arrays stand next."""
        fields = [self._array(k) if isinstance(k, types.Array) else self.state(k) for k in kind]
        return self._context.make_tuple(self._builder, kind, fields)

    def _array(self, kind: Any) -> Any:
        from numba.np import arrayobj  # slow to import, and not needed where all is cached

        code: Any = arrayobj
        array = code.make_array(kind)(self._context, self._builder)
        data = self._builder.inttoptr(self._word(), array.data.type)
        shape = [self._word() for _ in range(kind.ndim)]
        strides = [self._word() for _ in range(kind.ndim)]
        item_bytes = self._context.get_abi_sizeof(self._context.get_data_type(kind.dtype))
        code.populate_array(array, data, shape, strides, item_bytes, meminfo=None)
        return array._getvalue()

    def _word(self) -> Any:
        place = element(self._builder, self._table, self._place)
        self._place += 1
        return self._builder.load(place)
