"""Whose a frame is: a person's own program's, or nicscope's, Python's and libraries'.

What is told of a program names the person's lines alone, so everybody who tells asks here.
"""

from __future__ import annotations

import functools
import os
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

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
