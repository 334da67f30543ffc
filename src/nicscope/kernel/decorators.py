"""Marks functions that can be compiled, and records how each of them is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

import numpy as np

from nicscope.kernel.entry import Entry
from nicscope.kernel.settings import INTERPRETED, STEPS, Compiled

if TYPE_CHECKING:
    from collections.abc import Callable


P = ParamSpec("P")
R = TypeVar("R")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Marks an entry from Python: ``function`` runs compiled once code is there, else interpreted.

    Kernels own nothing and allocate nothing: they are compiled without reference counting, which
    otherwise costs more than their work, and run without the interpreter lock.  Errors: none of
    its own.  Indices are not checked unless ``NUMBA_BOUNDSCHECK=1``; callers validate first.
    """
    STEPS[function] = Compiled()
    return function if INTERPRETED else cast("Callable[P, R]", Entry(function))


def step(function: Callable[P, R]) -> Callable[P, R]:
    """A kernel for kernels: always inlined, so that handing it a whole NIC costs nothing."""
    STEPS[function] = Compiled()
    return function


def routine(function: Callable[P, R]) -> Callable[P, R]:
    """A step that is called, not inlined: for what is long, has many callers and is rarely run.

    A call passes every array of its arguments, some tens of nanoseconds.
    """
    STEPS[function] = Compiled(inline=False)
    return function


def distant(function: Callable[P, R]) -> Callable[P, R]:
    """A kernel that others call through its address, and never hold: see ``kernel.distant``."""
    STEPS[function] = Compiled(inline=False)
    return function


def coded(code: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A step whose compiled side is written by hand: ``code`` is ``module:name`` of an intrinsic.

    The function itself is what interpreted code calls.  The module is imported where something
    compiles, and nowhere else.
    """

    def register(function: Callable[P, R]) -> Callable[P, R]:
        STEPS[function] = Compiled(code=code)
        return function

    return register


@coded("nicscope.kernel.compiler.states:row_of")
def row_of(state: Any, row: int) -> Any:
    """Row ``row`` of every array of ``state``, as a state of the same kind."""
    rows = [field[row] if isinstance(field, np.ndarray) else row_of(field, row) for field in state]
    return tuple.__new__(type(state), rows)


@coded("nicscope.kernel.compiler.states:copy_bytes")
def copy_bytes(target: Any, to: Any, source: Any, begin: Any, count: Any) -> None:
    """Copy ``source[begin : begin + count]`` to ``target[to : to + count]``.

    Both are one-dimensional, contiguous arrays of bytes that do not overlap.  A loop over elements
    that are read through a state costs some twenty instructions a byte, because the compiler cannot
    know what the bytes overwrite.
    """
    target[to : to + count] = source[begin : begin + count]
