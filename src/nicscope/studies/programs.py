"""Runs a user's program file and reports the cost of each cluster that it ran.

What it raises is told from its own frames alone, without anyone else's.
"""

from __future__ import annotations

import contextlib
import inspect
import re
import runpy
import sys
import traceback
import warnings
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from nicscope import tracebacks
from nicscope.errors import (
    NicscopeError,
    ProgramMistakeError,
    SimulationError,
    StandingError,
    StuckError,
    did_you_mean,
    printable,
)
from nicscope.inputs import read_whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nicscope.drivers.simulate.observe import RunLog
    from nicscope.interfaces.run_report import MachineRun, RunReport

LONGEST_LINE = 400  # characters of a source that are shown


class ProgramError(Exception):
    """An exception from a user's program; ``told`` is the traceback to show."""

    def __init__(self, told: str) -> None:
        super().__init__(told)
        self.told = told


def traceback_of(error: BaseException, program: Path) -> str:
    """Python's traceback of ``error``, from the first frame of the user's files to the last.

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
    """``line`` with its middle elided if it is very long."""
    if len(line) <= LONGEST_LINE:
        return line
    half = LONGEST_LINE // 2
    return f"{line[:half].rstrip()} ... {line[-half:].lstrip()}"


def place_of(error: BaseException, program: Path) -> str | None:
    """``FILE:LINE`` of the last of the user's frames in the traceback, if any."""
    stack = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in stack if is_own(frame.filename, program)]
    return f"{shown_file(own[-1].filename, program)}:{own[-1].lineno}" if own else None


def is_own(file: str, program: Path) -> bool:
    """Whether ``file`` is the user's: ``program``, or a file beside it."""
    return Path(file).resolve() == program.resolve() or tracebacks.is_own(file)


def _chain(told: traceback.TracebackException) -> Iterator[traceback.TracebackException]:
    """The exception, its causes and contexts, and the members of groups."""
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
        if not tracebacks.is_ours(frame.filename)
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
    """A file's name as the user wrote it, others relative to the program."""
    path = Path(file).resolve()
    if path == program.resolve():
        return str(program)
    return path.name if path.parent == program.resolve().parent else file


MOST_BYTES = 1 << 22  # of a program's file
ENTRY = "main"
CLUSTER = "cluster"
ORIGIN = 1  # frames that a coroutine remembers of where it was made
_FORGOTTEN = re.compile(r"coroutine '(?:.*\.)?(\w+)' was never awaited")
_MADE = re.compile(r'File "(.+)", line (\d+), in ')


class ProgramRuns(msgspec.Struct, frozen=True, kw_only=True):
    """The costs of a program's runs, in order."""

    program: str
    runs: list[RunReport]
    logs: list[RunLog] = []  # of each run, if they were kept

    def to_json(self) -> dict[str, Any]:
        """One object for ``--json`` and results.json."""
        return {"program": self.program, "runs": [run.to_json() for run in self.runs]}


def run_program(path: Path, records: int = 0) -> ProgramRuns:
    """Run ``main()`` of the file, or else its ``cluster``, and collect all runs.

    ``records``: how many of all logs are kept, those of the first runs first.

    Errors: ``SimulationError`` for a file that cannot be read, has neither or does not run
    anything, and for a mistake that nicscope has found in it; ``ProgramError`` for whatever else
    the program raises; ``SystemExit`` if it leaves with anything but success.
    """
    from nicscope.interfaces.run_report import on_run, report_of

    check_source(path)
    runs: list[RunReport] = []
    logs: list[RunLog] = []

    marks: list[weakref.ref[Any]] = []  # of the runs, each of which may have gone on since

    def note(source: MachineRun) -> None:
        mark = _run_mark(source)
        place = next((i for i, each in enumerate(marks) if each() is mark), len(marks))
        marks[place:] = [weakref.ref(mark), *marks[place + 1 :]]
        runs[place:] = [report_of(source), *runs[place + 1 :]]
        if records:
            logs[place:] = [source.log(), *logs[place + 1 :]]

    def left() -> int:
        return max(records - sum(len(log.records) for log in logs), 0)

    with (
        on_run(note, left),
        beside(path),
        _missing_awaits_reported(path),
        failures_as_program_errors(path),
    ):
        names = runpy.run_path(str(path), run_name=path.stem)
        _start(path, names, bool(runs))
    if not runs:
        raise SimulationError(f"{path}: ran no cluster; call cluster.run() in {ENTRY}()")
    return ProgramRuns(program=printable(str(path)), runs=runs, logs=logs)


def _run_mark(source: MachineRun) -> Any:
    """A mark that identifies all reports of a run, valid for as long as the run."""
    run = getattr(source, "run", source)
    return getattr(run, "tally", run)  # a tuple of arrays cannot be referred to weakly


def check_source(path: Path) -> None:
    """Errors: ``SimulationError`` if the file cannot be read or is no Python program.

    What is wrong with its syntax is told when it runs, as what it raises is.
    """
    if not path.is_file():
        what = "is no regular file" if path.exists() else "no such program"
        raise SimulationError(f"{path}: {what}; name a .py file or a trace")
    source = read_whole(path, MOST_BYTES, SimulationError)
    try:
        with warnings.catch_warnings(), contextlib.suppress(SyntaxError):
            warnings.simplefilter("ignore")  # they come when it runs
            compile(source, str(path), "exec", dont_inherit=True)
    except (ValueError, RecursionError, MemoryError) as error:
        why = str(error) or "it is nested too deeply"
        raise SimulationError(f"{path}: is no Python: {why}") from error


def _start(path: Path, names: dict[str, Any], has_run: bool) -> None:
    entry = names.get(ENTRY)
    if callable(entry):
        _check_entry(path, entry)
        entry()
    elif hasattr(names.get(CLUSTER), "run"):
        if not has_run:
            names[CLUSTER].run()
    elif not has_run:
        callables = [name for name, value in names.items() if callable(value)]
        raise SimulationError(
            f"{path}: has no {ENTRY}() and no {CLUSTER}{did_you_mean(ENTRY, callables)}; "
            f"define {ENTRY}(), which makes a cluster and runs it"
        )


def _check_entry(path: Path, entry: Any) -> None:
    """Refuse a ``main`` that cannot be called without arguments."""
    code = getattr(entry, "__code__", None)
    where = f"{path}:{code.co_firstlineno}" if code is not None else str(path)
    if inspect.iscoroutinefunction(entry):
        raise SimulationError(
            f"{where}: {ENTRY}() is 'async def'; make it a plain 'def' that makes a cluster, "
            "starts programs on it and calls cluster.run(): these are what is async"
        )
    try:
        inspect.signature(entry).bind()
    except (TypeError, ValueError) as error:
        raise SimulationError(f"{where}: {ENTRY}() is called without arguments: {error}") from error


@contextlib.contextmanager
def failures_as_program_errors(path: Path) -> Iterator[None]:
    """Convert exceptions of the program into a ``ProgramError``."""
    try:
        yield
    except NicscopeError as error:
        where = place_of(error, path)
        if where is None:
            raise
        if isinstance(error, StuckError):
            raise StuckError(f"{where}: {error.said}", error.stands) from error
        if isinstance(error, ProgramMistakeError):
            raise
        raised_in = getattr(error, "raised_in", None)
        raised = "" if raised_in is None else f" ({raised_in})"
        if isinstance(error, StandingError):
            raise StandingError(f"{where}: {error.said}{raised}", error.stands) from error
        raise SimulationError(f"{where}: {error}{raised}") from error
    except SystemExit as leaving:
        if leaving.code not in (None, 0):
            raise
    except Exception as error:
        raise ProgramError(traceback_of(error, path)) from error


@contextlib.contextmanager
def _missing_awaits_reported(path: Path) -> Iterator[None]:
    """Report in one line a coroutine of the program that was never awaited."""
    show = warnings.showwarning
    depth = sys.get_coroutine_origin_tracking_depth()

    def tell(message: Any, category: Any, file: str, line: int, *others: Any) -> None:
        found = _FORGOTTEN.match(str(message))
        if found is None:
            show(message, category, file, line, *others)
            return
        for source, number in _MADE.findall(str(message)):
            if is_own(source, path):  # else it is a program that another one's failure has ended
                where = f"{shown_file(source, path)}:{number}"
                print(
                    f"nicscope: {where}: {found[1]}() without 'await' does nothing",
                    file=sys.stderr,
                )

    with warnings.catch_warnings():
        warnings.filterwarnings("always", _FORGOTTEN.pattern, RuntimeWarning)
        warnings.showwarning = tell  # type: ignore[assignment]
        sys.set_coroutine_origin_tracking_depth(ORIGIN)
        try:
            yield
        finally:
            sys.set_coroutine_origin_tracking_depth(depth)


@contextlib.contextmanager
def beside(path: Path) -> Iterator[None]:
    """Let the program import modules from its folder."""
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # the program has taken it out already
            sys.path.remove(folder)
