"""Two tiers: each entry from Python runs compiled where compiled code is at hand, else as it is."""

from __future__ import annotations

import enum
import functools
import hashlib
import operator
import random
import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.kernel.layout import (
    Handed,
    StateKind,
    digest_of_kind,
    handed,
    kind_of_arguments,
)
from nicscope.kernel.settings import INTERPRETED, MODE, SWITCH, WAIT, Wrapped

if TYPE_CHECKING:
    from collections.abc import Callable

    from nicscope.kernel.loading import Code


_LOOK_S = 0.02  # between two looks for code that another process makes
_depth = threading.local()  # of interpreted kernels, which call each other as plain functions
_draw = random.Random(MODE.seed).random  # which tier is entered, to test that
_listeners: list[Callable[[str], None]] = []
_making = threading.RLock()  # threads enter the same kernels: each is loaded and compiled once


class Pace:
    """How much work to give a series of kernels per call: little while any is interpreted."""

    interpreted = 0  # entries, in this process

    def __init__(self) -> None:
        self._before = -1

    def next(self, compiled: int, interpreted: int) -> int:
        """``compiled``, if all that was entered since this was last asked was compiled."""
        before, self._before = self._before, Pace.interpreted
        return compiled if MODE.name == WAIT or before == Pace.interpreted else interpreted


def on_compilation(listener: Callable[[str], None]) -> None:
    """Call ``listener(kernel_name)`` for each kernel that this process must compile."""
    _listeners.append(listener)


class Version:
    """A kernel for states of one kind: its code, once that is there."""

    def __init__(self, function: Any, kind: StateKind) -> None:
        self.function = function
        self.kind = kind
        self.whole = kind.name == "arguments"
        self.numbers = 0 if self.whole else function.__code__.co_argcount - 1
        self.spent_s = 0.0  # interpreting
        self.asked = False
        self._code: Code | None = None
        self._look_at = 0.0

    @functools.cached_property
    def key(self) -> str:
        """What the code is kept under.  Errors: ``UnknownGlobalError``."""
        from nicscope.kernel.fingerprint import digest_of_function, maker_stamp

        digest = hashlib.sha256(maker_stamp().encode())
        digest.update(digest_of_function(self.function))
        digest.update(digest_of_kind(self.kind).encode())
        return digest.hexdigest()[:40]

    def code_now(self) -> Code | None:
        """The code that the next call will enter, or None: it will be interpreted."""
        if MODE.name == SWITCH:
            return self._made() if _draw() < MODE.share else None
        if self._code is None:
            if MODE.name == WAIT:
                return self._made()
            now = time.monotonic()
            if now >= self._look_at:
                self._look_at = now + _LOOK_S
                self._look()
        return self._code

    def has_code(self) -> bool:
        """Whether there is code that has been entered."""
        return self._code is not None

    def _look(self) -> None:
        """Loads what another process has compiled, or requests it."""
        from nicscope.kernel import queue, store

        if store.is_kept(self.key):
            self._load()
        if self._code is None:
            queue.ask(self)

    def _load(self) -> None:
        from nicscope.kernel import store

        with _making:
            made = store.read(self.key) if self._code is None else None
            if made is not None:
                from nicscope.kernel.loading import load

                self._code = load(made, self.numbers)

    def _made(self) -> Code:
        """The code from the cache, or else compiled now."""
        with _making:
            self._load()
            if self._code is None:
                from nicscope.kernel import store
                from nicscope.kernel.compiler.compiling import compiled
                from nicscope.kernel.loading import load

                for listener in _listeners:
                    listener(self.function.__name__)
                made = compiled(self.function, self.kind, self.key)
                store.write(self.key, made)
                self._code = load(made, self.numbers)
        if self._code is None:
            raise RuntimeError(f"{self.function.__name__} needs a symbol that is not there")
        return self._code

    def interpret(self, arguments: tuple[Any, ...]) -> Any:
        """What the plain function returns, as compiled code would return it."""
        Pace.interpreted += 1
        begin = time.perf_counter()
        outer = getattr(_depth, "entered", False)
        _depth.entered = True
        try:
            return _plain(self.function(*arguments))
        finally:
            _depth.entered = outer
            self.spent_s += time.perf_counter() - begin


def _plain(result: Any) -> Any:
    if isinstance(result, np.generic):
        return result.item()
    if isinstance(result, tuple):
        return tuple(map(_plain, result))
    if isinstance(result, enum.IntEnum):
        return int(result)
    return result


class Entry(Wrapped):
    """A kernel as Python calls it with arrays, states and numbers."""

    def __init__(self, function: Any) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self._versions: dict[StateKind, Version] = {}

    def version(self, kind: StateKind) -> Version:
        """That for states, or arguments, of ``kind``."""
        known = self._versions.get(kind)
        if known is None:
            known = self._versions.setdefault(kind, Version(self.function, kind))
        return known

    def has_code(self) -> bool:
        """Whether any call has entered compiled code."""
        return any(each.has_code() for each in self._versions.values())

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Run it once."""
        if getattr(_depth, "entered", False):
            return self.function(*arguments, **named)
        if named:
            code = self.function.__code__
            names = code.co_varnames[len(arguments) : code.co_argcount]
            arguments += tuple(named[each] for each in names)
        version = self.version(kind_of_arguments(arguments))
        code = version.code_now()
        if code is None:
            return version.interpret(arguments)
        return code.bound(Handed(arguments, version.kind))()


@functools.cache
def _entry_of(function: Any) -> Entry:
    """The entry of a step, which tests and a few callers bind as if it were a kernel."""
    return Entry(function)


class Switching:
    """A kernel bound to a state, interpreted until there is code."""

    __slots__ = ("_code", "_handed", "_version")

    def __init__(self, version: Version, state: Handed) -> None:
        self._version = version
        self._handed = state
        self._code: Callable[..., Any] | None = None

    def __call__(self, *numbers: int) -> Any:
        """Run it once."""
        if self._code is not None:
            return self._code(*numbers)
        code = self._version.code_now()
        if code is None:
            return self._version.interpret((self._handed.state, *map(operator.index, numbers)))
        entry = code.bound(self._handed)
        if MODE.name != SWITCH:
            self._code = entry
        return entry(*numbers)

    def has_code(self) -> bool:
        """Whether the next call enters compiled code for certain."""
        return self._code is not None


def bound(kernel: Callable[..., Any], state: Any) -> Callable[..., Any]:
    """``kernel`` with ``state`` for its first argument; all others are int64.

    ``state`` is a NamedTuple of arrays and of such NamedTuples.  What is returned keeps the arrays
    alive, and a call finds the kernel without a look at the types of its arguments.  Errors:
    ``TypeError`` for a field that is not an array.
    """
    if INTERPRETED:
        return functools.partial(kernel, state)
    whole = handed(state)
    version = (kernel if isinstance(kernel, Entry) else _entry_of(kernel)).version(whole.kind)
    if MODE.name == SWITCH:
        return Switching(version, whole)
    code = version.code_now()
    return Switching(version, whole) if code is None else code.bound(whole)


def portion(entry: Callable[..., Any], compiled: int, interpreted: int) -> int:
    """How much work to give the next call of a kernel, bound or not.

    Compiled code gets much at once; interpreted code little, as it cannot be left in the middle
    for the compiled code that may be there by then.
    """
    waits = isinstance(entry, (Switching, Entry)) and not entry.has_code()
    return interpreted if waits and MODE.name != WAIT else compiled
