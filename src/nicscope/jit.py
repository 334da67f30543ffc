"""The one decorator that every compiled kernel wears, and records that both worlds can read.

Numba's own ``cache=True`` stamps only the file of the outermost function, so an edited callee or
an imported constant keeps running as it was.  Kernels here are stamped with the whole package
and with the bounds-check flag instead.  ``tests/test_jit.py`` guards the private interface of
``numba.core.caching`` that this leans on; that is why Numba's minor version is pinned.
"""

from __future__ import annotations

import functools
import hashlib
import os
import tempfile
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

import numba
import numpy as np
from numba.core import config
from numba.core import types as numba_types
from numba.core.caching import CompileResultCacheImpl, FunctionCache
from numba.core.registry import CPUDispatcher

from nicscope.indexing import KernelCompiler
from nicscope.stepping import StepCompiler, rebuilt_step

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

P = ParamSpec("P")
R = TypeVar("R")

PACKAGE = Path(__file__).parent
plain_type: Any = numba_types.unliteral  # about whose types Numba says nothing

_listeners: list[Callable[[str], None]] = []


def on_compilation(listener: Callable[[str], None]) -> None:
    """Call ``listener(kernel_name)`` for each kernel that is not in the cache and must compile."""
    _listeners.append(listener)


@functools.cache
def package_stamp() -> str:
    """SHA-256 over every Python file of the package: what compiled code depends on."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        digest.update(str(path.relative_to(PACKAGE)).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


@functools.cache
def cache_directory() -> Path | None:
    """Where compiled kernels are kept, one folder per installation; None if nothing is writable."""
    home = hashlib.sha256(str(PACKAGE).encode()).hexdigest()[:12]
    name = f"{home}-checked" if config.BOUNDSCHECK else home
    base = os.environ.get("NUMBA_CACHE_DIR") or os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    folder = Path(base).expanduser() / "nicscope" / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return None


class _PackageLocator:
    """Places and stamps a kernel's cache files by the package instead of by its file."""

    def __init__(self, folder: Path, disambiguator: str) -> None:
        self._folder = folder
        self._disambiguator = disambiguator

    @classmethod
    def from_function(cls, function: Any, path: str) -> _PackageLocator | None:
        folder = cache_directory()
        if folder is None:
            return None
        try:
            place = str(Path(path).relative_to(PACKAGE))
        except ValueError:
            place = path
        place_digest = hashlib.sha256(place.encode()).hexdigest()[:8]
        return cls(folder, f"{place_digest}-{function.__code__.co_firstlineno}")

    def get_cache_path(self) -> str:
        return str(self._folder)

    def ensure_cache_path(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)

    def get_source_stamp(self) -> tuple[str, bool]:
        return package_stamp(), bool(config.BOUNDSCHECK)

    def get_disambiguator(self) -> str:
        return self._disambiguator


class _StepLocator(_PackageLocator):
    """Keeps a step, which has no entry from Python, apart from the kernel made of it for tests."""

    def get_disambiguator(self) -> str:
        return f"{super().get_disambiguator()}-step"


class _PackageCacheImpl(CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_PackageLocator,)


class _StepCacheImpl(CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_StepLocator,)

    def rebuild(self, target_context: Any, payload: Any) -> Any:
        return rebuilt_step(target_context, payload)


class _PackageCache(FunctionCache):  # type: ignore[misc]
    _impl_class: Any = _PackageCacheImpl

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        found = super().load_overload(sig, target_context)
        if found is None:
            for listener in _listeners:
                listener(self._py_func.__name__)
        return found


class _StepCache(_PackageCache):
    _impl_class = _StepCacheImpl


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile ``function`` on first call, without the interpreter lock, and cache it by package.

    Kernels own nothing and allocate nothing: they are compiled without reference counting, which
    otherwise costs more than their work.  Errors: none of its own.  Indices are not checked
    unless ``NUMBA_BOUNDSCHECK=1``; callers validate first.  With ``NUMBA_DISABLE_JIT=1`` the
    plain function comes back.
    """
    return function if config.DISABLE_JIT else _compiled(function)


def distant(function: Callable[P, R]) -> Callable[P, R]:
    """A kernel that others call through its address, and never hold: see ``nicscope.distant``."""
    return function if config.DISABLE_JIT else _compiled(function, inline=False)


def step(function: Callable[P, R]) -> Callable[P, R]:
    """A kernel for kernels: always inlined, so that handing it a whole NIC costs nothing.

    It has no entry from Python and no machine code of its own: see ``nicscope.stepping``.  When
    tests call it from Python all the same, it is compiled once more, as a kernel.
    """
    return function if config.DISABLE_JIT else _compiled_step(function)


def routine(function: Callable[P, R]) -> Callable[P, R]:
    """A step that is called, not inlined: for what is long, has many callers and is rarely run.

    A call passes every array of its arguments, some tens of nanoseconds.
    """
    return function if config.DISABLE_JIT else _compiled_step(function, inline=False)


def _compiled_step(function: Callable[P, R], inline: bool = True) -> Callable[P, R]:
    dispatcher: Any = _compiled(
        function,
        _StepCache,
        inline,
        StepCompiler,
        no_cpython_wrapper=True,
        no_cfunc_wrapper=True,
    )
    dispatcher.__class__ = _Step
    return cast("Callable[P, R]", dispatcher)


def _compiled(
    function: Callable[P, R],
    cache: type[_PackageCache] = _PackageCache,
    inline: bool = True,
    compiler_of: type[Any] = KernelCompiler,
    **options: bool,
) -> Callable[P, R]:
    compiler: Any = numba.njit  # whose published types know neither these options nor its result
    dispatcher = compiler(
        nogil=True, _nrt=False, forceinline=inline, pipeline_class=compiler_of, **options
    )(function)
    cast("Any", dispatcher).__class__ = _Kernel
    if cache_directory() is not None:
        dispatcher._cache = cache(function)
    return cast("Callable[P, R]", dispatcher)


class _Kernel(CPUDispatcher):
    def get_call_template(self, args: Any, kws: Any) -> Any:
        """As its own, but of one type for all numbers: Numba compiles anew for each constant."""
        types = tuple(plain_type(each) for each in args)
        named = {name: plain_type(each) for name, each in kws.items()}
        return super().get_call_template(types, named)


class _Step(_Kernel):
    def __call__(self, *arguments: Any) -> Any:
        return _entry_of(self)(*arguments)


@functools.cache
def _entry_of(dispatcher: Any) -> Callable[..., Any]:
    return kernel(dispatcher.py_func)


def records(shape: int | tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Zeroed records of ``dtype`` whose fields are attributes, compiled or not."""
    return as_records(np.zeros(shape, dtype))


def as_records(array: NDArray[Any]) -> NDArray[Any]:
    """``array`` of a structured dtype, such that ``array[i].field`` works with the JIT off too."""
    return array.view(_with_attributes(array.dtype)) if config.DISABLE_JIT else array


@functools.cache
def _with_attributes(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """``dtype`` whose scalars have a property for each field.

    Those of a recarray look for each attribute among those of every scalar, fail, and ask the
    dtype: four times as long, which is most of what interpreted kernels do.
    """
    members: dict[str, Any] = {
        "__slots__": (),
        "__getattribute__": object.__getattribute__,
        "__setattr__": object.__setattr__,
    }
    for name in dtype.names or ():
        members[name] = property(itemgetter(name), functools.partial(_set_field, name))
    return np.dtype((type("Record", (np.record,), members), dtype))


def _set_field(name: str, record: Any, value: Any) -> None:
    record[name] = value


def longer(array: NDArray[Any], length: int) -> NDArray[Any]:
    """``array`` itself if it has ``length`` elements, else a copy with zeros behind."""
    if len(array) >= length:
        return array
    copy = records(length, array.dtype) if array.dtype.names else np.zeros(length, array.dtype)
    copy[: len(array)] = array
    return copy
