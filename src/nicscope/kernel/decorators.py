"""What functions wear that can be compiled, and what is known of each.

A function that wears ``step``, ``routine`` or ``distant`` stays the plain function, so that
interpreted code calls it as such; ``kernel`` makes an entry from Python of it.  Nothing here needs
the compiler: which function is to be compiled in which way stands in a table that it reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ParamSpec, TypeVar, cast

from nicscope.kernel.entering import Entry
from nicscope.kernel.mode import INTERPRETED
from nicscope.kernel.steps import STEPS, Compiled

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """An entry from Python: runs ``function`` compiled where that is at hand, else as it is.

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
