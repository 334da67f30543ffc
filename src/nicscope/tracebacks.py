"""Tracebacks, and whose a frame is: a person's own program's, or nicscope's, Python's, libraries'.

What is told of a program names the person's lines alone: everybody who tells asks here.  All that a
script calls outside programs wears ``TrimmedTraceback``: constructors, set-up, runs, reports.
"""

from __future__ import annotations

import functools
import os
import sysconfig
from contextlib import ContextDecorator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.errors import NicscopeError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType, TracebackType


PACKAGE = Path(__file__).parent
_LIBRARIES = [
    Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")
]
_MADE_UP = ("<frozen", "<string>", "<attrs", "<__array")  # a named tuple is a string


@functools.cache
def is_own(file: str) -> bool:
    """Whether ``file`` is a person's: none of nicscope, Python and libraries."""
    if file.startswith("<"):  # typed at a prompt, or made up
        return not file.startswith(_MADE_UP)
    path = Path(file).resolve()
    return not any(path.is_relative_to(folder) for folder in (PACKAGE, *_LIBRARIES))


def is_ours(file: str) -> bool:
    """Whether ``file`` is nicscope's."""
    return not file.startswith("<") and Path(file).is_relative_to(PACKAGE)


def place(file: str, line: int | None) -> str:
    """``FILE:LINE``, the file as it is named from where the person is, if that lies above it."""
    if not file.startswith("<"):
        near = os.path.relpath(file) if _has_folder() else file
        file = file if near.startswith("..") else near
    return f"{file}:{line or 0}"


def _has_folder() -> bool:
    try:
        Path.cwd()
    except OSError:
        return False
    return True


class Link(NamedTuple):
    """One of the coroutines that wait for each other, and where it stands."""

    awaitable: Any
    frame: FrameType


def awaited(coroutine: object) -> Iterator[Link]:
    """``coroutine`` and what it waits for, from the outside in, as far as that has frames."""
    inner: Any = coroutine
    while inner is not None:
        for kind in ("cr", "gi", "ag"):
            if hasattr(inner, f"{kind}_frame"):
                break
        else:
            return
        frame = getattr(inner, f"{kind}_frame")
        if frame is not None:
            yield Link(inner, frame)
        inner = getattr(inner, "gi_yieldfrom" if kind == "gi" else f"{kind}_await")


def entries(error: BaseException) -> Iterator[TracebackType]:
    """Where ``error`` went through, from the outside in."""
    entry = error.__traceback__
    while entry is not None:
        yield entry
        entry = entry.tb_next


def own_entry(error: BaseException) -> TracebackType | None:
    """The innermost of a person's own frames that ``error`` went through."""
    found = None
    for entry in entries(error):
        if is_own(entry.tb_frame.f_code.co_filename):
            found = entry
    return found


def keep_own(error: BaseException) -> None:
    """Leave only a person's own frames in the traceback of ``error``, if there are any."""
    own = [entry for entry in entries(error) if is_own(entry.tb_frame.f_code.co_filename)]
    for entry, behind in zip(own, [*own[1:], None], strict=False):
        entry.tb_next = behind
    if own:
        error.__traceback__ = own[0]


class TrimmedTraceback(ContextDecorator):
    """Removes frames of nicscope from the traceback of what is raised within its block.

    ``@TrimmedTraceback()``: the block is all that a function does, and how it is called.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if error is not None:
            _trim(error)


def _trim(error: BaseException) -> None:
    """Keeps the user's frames; for an error without any, notes where else it was raised."""
    if isinstance(error, NicscopeError):
        keep_own(error)
        if own_entry(error) is None:
            error.__traceback__ = None
        error.__suppress_context__ = True
        if error.__cause__ is not None:
            keep_own(error.__cause__)
            if own_entry(error.__cause__) is None:  # what it says, the error says
                error.__cause__ = None
        return
    entry = own_entry(error)
    if entry is None:
        # Nothing of ours has begun where the call itself was wrong, as with an argument too many.
        is_call = isinstance(error, TypeError) and len([*entries(error)]) == 1
        if is_call or isinstance(error, KeyboardInterrupt):
            error.__traceback__ = None
        return
    last = entry
    while last.tb_next is not None:
        last = last.tb_next
    if last is not entry and not isinstance(error, KeyboardInterrupt):
        code = last.tb_frame.f_code
        error.add_note(f"raised in {code.co_name}, {code.co_filename}:{last.tb_lineno}")
    keep_own(error)
