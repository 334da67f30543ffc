"""What is given as a trace: a path, ``bundled:NAME``, or a table of Arrow, pandas or Polars."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from nicscope.errors import StudyError, TraceError, did_you_mean, in_one_line, printable
from nicscope.inputs import STDIN
from nicscope.library.command import several

if TYPE_CHECKING:
    from typing import Protocol

    from nicscope.traces.reader import Trace

    class Table(Protocol):
        """A table of any library: it hands itself over by Arrow's protocol for C."""

        def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
            """Its columns."""

    TraceLike: TypeAlias = "str | Path | Table | Trace"

BUNDLED = "bundled:"


def trace_path(given: str) -> Path:
    """The file that ``given`` names: a path, or ``bundled:NAME``.

    Errors: ``TraceError`` for a bundled trace that does not exist, or that is named like a file.
    """
    from nicscope.traces.bundled import bundled_traces

    name = given.removeprefix(BUNDLED)
    bundled = bundled_traces()
    if name == given:
        if given in bundled and not os.path.lexists(given):
            raise TraceError(f"{given}: no such file; did you mean {BUNDLED}{given}?")
        return Path(given)
    if name not in bundled:
        raise TraceError(f"no bundled trace {name!r}{did_you_mean(name, bundled)}")
    return bundled[name]


def trace_name(given: str) -> str:
    """What the trace that ``given`` names is called in tables: its file's name, or ``stdin``."""
    return "stdin" if given == STDIN else printable(Path(given.removeprefix(BUNDLED)).stem)


@in_one_line
def open_trace(source: TraceLike) -> Trace:
    """The trace that ``source`` names or is: a path, ``bundled:NAME``, a table, or a trace.

    A table is one of Arrow, pandas or Polars; ``-`` is standard input; a path may be a folder of
    files that are one trace.  Errors: ``TraceError`` if the file is missing, not Parquet, damaged
    or empty, or a column is not what the schema says.
    """
    from nicscope.traces import reader
    from nicscope.traces.folders.members import is_folder
    from nicscope.traces.folders.reading import open_folder

    if isinstance(source, reader.Trace):
        return source
    if isinstance(source, str):
        source = trace_path(source)
    if isinstance(source, Path):
        return open_folder(source) if is_folder(source) else reader.open_trace(source)
    collect = getattr(source, "collect", None)  # of a lazy frame, as Polars has them
    if collect is not None and not hasattr(source, "__arrow_c_stream__"):
        return reader.open_trace(collect())
    return reader.open_trace(source)


@in_one_line
def open_file(source: TraceLike) -> Trace:
    """As ``open_trace``; errors: ``TraceError`` for a folder too."""
    from nicscope.traces.folders.reading import FolderTrace

    trace = open_trace(source)
    if isinstance(trace, FolderTrace):
        raise TraceError(
            f"{trace.name}: is a folder of traces; this takes one file, which 'nicscope trace "
            "convert FOLDER OUT.parquet' makes of it"
        )
    return trace


def words_of(given: Any) -> list[Any]:
    """The traces of a list, or the one that is none, as a command names them.

    One that was opened is the file that it is of; one that is no file stays as it is.
    """
    return [path if (path := _file_of(one)) else one for one in several(given)]


def _file_of(given: Any) -> str | Path | None:
    """The file that ``given`` is or names, if other processes find it."""
    from nicscope.traces.reader import Trace

    if isinstance(given, Trace):
        return given.path if given.is_named_file else None
    return given if isinstance(given, str | Path) else None


def all_opened(
    given: Any, *, as_given: bool = False, folders: bool = False
) -> list[tuple[str, Trace]]:
    """The traces of a list, or the one that is none, each with what tables call it.

    Folders of files are taken with ``folders``.

    That is its file's name, or ``as_given`` or where two files have the same, what was given; of a
    table its type, with a number behind it if it is not the first.  Errors: ``TraceError``,
    ``StudyError`` if there is none.
    """
    found: list[tuple[str, Trace]] = []
    tables = 0
    short = Counter(trace_name(str(file)) for one in several(given) if (file := _file_of(one)))
    for one in several(given):
        trace = open_trace(one) if folders else open_file(one)
        if file := _file_of(one):
            name = trace_name(str(file))
            if as_given or short[name] > 1:
                name = printable(str(file))
        else:
            tables += 1
            name = type(one).__name__ + (f" {tables}" if tables > 1 else "")
        found.append((name, trace))
    if not found:
        raise StudyError("no trace; give a path, bundled:NAME, or a table of Arrow, pandas, Polars")
    return found
