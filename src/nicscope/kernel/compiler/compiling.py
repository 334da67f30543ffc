"""One entry compiled: the only way from a function to machine code."""

from __future__ import annotations

import contextlib
import functools
import gc
import threading
import types as python_types
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numba
from numba.core import types
from numba.core.registry import CPUDispatcher, cpu_target
from numba.extending import typeof_impl

from nicscope.kernel.compiler.entries import call_name, enter_name
from nicscope.kernel.compiler.libraries import EntryCompiler, StepCompiler
from nicscope.kernel.compiler.states import HandedType
from nicscope.kernel.decorators import STEPS
from nicscope.kernel.entering import Entry
from nicscope.kernel.layout import StateKind, names_of
from nicscope.kernel.store import Made

if TYPE_CHECKING:
    from collections.abc import Iterator

unliteral: Any = types.unliteral  # about whose types Numba says nothing
_lock = threading.RLock()  # one function at a time: what is compiled is kept for its callers


class _Dispatcher(CPUDispatcher):
    def get_call_template(self, args: Any, kws: Any) -> Any:
        """As its own, but of one type for all numbers: Numba compiles anew for each constant."""
        plain = tuple(unliteral(each) for each in args)
        named = {name: unliteral(each) for name, each in kws.items()}
        return super().get_call_template(plain, named)


@functools.cache
def _step_of(function: Any) -> Any:
    """What compiles ``function`` into its callers."""
    return _dispatcher(function, STEPS[function].inline, StepCompiler)


def _dispatcher(function: Any, inline: bool, compiler: Any) -> Any:
    jit: Any = numba.njit  # whose published types know neither these options nor its result
    made = jit(
        nogil=True,
        _nrt=False,
        forceinline=inline,
        pipeline_class=compiler,
        no_cpython_wrapper=compiler is StepCompiler,
        no_cfunc_wrapper=True,
    )(function)
    made.__class__ = _Dispatcher
    return made


@functools.cache
def _written(code: str) -> Any:
    """The type of the intrinsic that ``code`` names."""
    module, _, name = code.partition(":")
    intrinsic = getattr(import_module(module), name)
    typing: Any = cpu_target.typing_context
    typing.refresh()
    return typing.resolve_value_type(intrinsic)


def _type_of_function(function: Any) -> Any:
    known = STEPS.get(function)
    if known is None:
        return None
    return _written(known.code) if known.code else types.Dispatcher(_step_of(function))


@typeof_impl.register(python_types.FunctionType)
def _typeof_function(function: Any, _context: Any) -> Any:
    return _type_of_function(function)


@typeof_impl.register(Entry)
def _typeof_entry(entry: Entry, _context: Any) -> Any:
    return _type_of_function(entry.function)


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Python collects no garbage meanwhile, which took a tenth of the time of compiling."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def compiled(function: Any, kind: StateKind, key: str) -> Made:
    """Machine code of ``function`` for a state of ``kind``, or for a call with such arguments.

    Errors: those of Numba for what it cannot compile.
    """
    with _lock, _uncollected():
        numbers = 0
        if kind.name == "arguments":
            whole = _of_arguments(function, len(kind.fields))
        else:
            whole = _copy(function)
            numbers = function.__code__.co_argcount - 1
        whole._entry_key = key
        dispatcher = _dispatcher(whole, False, EntryCompiler)
        signature = (HandedType(kind), *[types.int64] * numbers)
        dispatcher.compile(signature)
        library = dispatcher.overloads[signature].library
        call = call_name(key)
        return Made(
            enter_name(key),
            call if call in library.exported else "",
            library.needed(),
            library.object_code(),
        )


def _copy(function: Any) -> Any:
    """The same function, as another, which has a key of its own."""
    return functools.update_wrapper(
        python_types.FunctionType(
            function.__code__,
            function.__globals__,
            function.__name__,
            function.__defaults__,
            function.__closure__,
        ),
        function,
        assigned=("__module__", "__qualname__"),
        updated=(),
    )


def _of_arguments(function: Any, count: int) -> Any:
    """A function of one state that hands its fields on to ``function``."""
    given = ", ".join(f"state.{name}" for name in names_of(count))
    space: dict[str, Any] = {"function": function}
    exec(f"def whole(state):\n    return function({given})\n", space)
    return space["whole"]
