"""Where in a person's own program something happened: tracebacks without anyone else's frames."""

from __future__ import annotations

import sysconfig
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import nicscope

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST_LINE = 400  # characters of a source that are shown
_PACKAGE = Path(nicscope.__file__).parent
_LIBRARIES = [
    Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")
]


class ProgramError(Exception):
    """A person's own program has raised something; ``told`` is what its author should see of it."""

    def __init__(self, told: str) -> None:
        super().__init__(told)
        self.told = told


def traceback_of(error: BaseException, program: Path) -> str:
    """What Python prints of ``error``, but from the first frame of the person's files to the last.

    Frames of nicscope between these are left out.  Where the error was raised further down, a line
    behind it says where.
    """
    told = traceback.TracebackException.from_exception(error)
    inside = _inside(told, program)
    for each in _chain(told):
        _keep_own(each, program)
    text = "".join(map(_bounded, "".join(told.format()).splitlines(keepends=True)))
    return text if inside is None else f"{text}  raised {inside}\n"


def _bounded(line: str) -> str:
    """``line`` without most of its middle, if it is one that nobody reads."""
    if len(line) <= LONGEST_LINE:
        return line
    half = LONGEST_LINE // 2
    return f"{line[:half].rstrip()} ... {line[-half:].lstrip()}"


def place_of(error: BaseException, program: Path) -> str | None:
    """``FILE:LINE`` of the last of the person's own frames that ``error`` went through, if any."""
    stack = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in stack if is_own(frame.filename, program)]
    return f"{shown_file(own[-1].filename, program)}:{own[-1].lineno}" if own else None


def is_own(file: str, program: Path) -> bool:
    """Whether ``file`` is the person's: ``program``, or none of nicscope, Python and libraries."""
    path = Path(file).resolve()
    if path == program.resolve():
        return True
    if file.startswith("<"):  # frozen, or made up
        return False
    return not any(path.is_relative_to(folder) for folder in (_PACKAGE, *_LIBRARIES))


def _chain(told: traceback.TracebackException) -> Iterator[traceback.TracebackException]:
    """The exception, those that it came from, and those that it is a group of."""
    yield told
    for other in (told.__cause__, told.__context__, *(told.exceptions or ())):
        if other is not None:
            yield from _chain(other)


def _keep_own(told: traceback.TracebackException, program: Path) -> None:
    places = [place for place, frame in enumerate(told.stack) if is_own(frame.filename, program)]
    if not places:
        told.stack = None  # type: ignore[assignment]  # then no heading is printed either
        return
    told.stack[:] = [
        frame
        for frame in told.stack[places[0] : places[-1] + 1]
        if not Path(frame.filename).is_relative_to(_PACKAGE)
    ]


def _inside(told: traceback.TracebackException, program: Path) -> str | None:
    """Where the error was raised, if that was not in the person's own files."""
    if not told.stack or is_own(told.stack[-1].filename, program):
        return None
    if not any(is_own(frame.filename, program) for frame in told.stack):
        return None
    frame = told.stack[-1]
    return f"in {frame.name}, {frame.filename}:{frame.lineno}"


def shown_file(file: str, program: Path) -> str:
    """A file as its owner would name it: the program as it was given, others beside it by name."""
    path = Path(file).resolve()
    if path == program.resolve():
        return str(program)
    return path.name if path.parent == program.resolve().parent else file
