"""Traces as applications: which files, under which names, and which are the papers' programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from nicscope.errors import StudyError, TraceError, printable
from nicscope.inputs import STDIN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from nicscope.studies.reproduce.verdict import Item
    from nicscope.traces.reader import Trace

ENDING = ".parquet"
ENDINGS = (ENDING, ".jsonl")  # the latter of public traces


class Application(NamedTuple):
    """A trace under the name of its row or column."""

    name: str
    trace: Trace
    command: str | None = None  # that makes the same trace, of a program that was run for it
    program: Path | None = None  # what its processes did and waited for, where that is timed


def trace_files(given: Path) -> list[Path]:
    """The traces in the folder ``given``, by name; a file is its own.

    Errors: ``TraceError`` if there is no such folder or no trace in it.
    """
    if str(given) == STDIN:
        return [given]
    if not given.exists():
        raise TraceError(f"{given}: no such folder; name one that holds traces")
    if not given.is_dir():
        return [given]
    try:
        names = sorted(given.iterdir())
    except OSError as error:
        raise TraceError(f"{given}: cannot be read: {error.strerror}") from error
    found = [path for path in names if path.suffix in ENDINGS and not path.name.startswith(".")]
    if not found:
        raise TraceError(
            f"{given}: holds no traces (*{ENDING}); convert or record some, or name another folder"
        )
    return found


def open_applications(files: Sequence[Path]) -> list[Application]:
    """An application for each of ``files``, named as its file, in their order.

    Errors: ``TraceError`` naming the first file that cannot be read, ``StudyError`` if two files
    have the same name.
    """
    from nicscope.traces.reader import open_trace

    found: dict[str, Application] = {}
    for path in files:
        name = "stdin" if str(path) == STDIN else printable(path.stem)
        if name in found:
            raise StudyError(f"{path}: there is another {name!r} already; rename one of them")
        found[name] = Application(name, open_trace(path))
    return list(found.values())


def claimed(application: Application, problems: Item) -> str | None:
    """The paper's application that the trace's metadata says it is; None: another program.

    Its ``origin`` must name ``application`` and ``problem`` as ``problems`` prints them: the same
    program at another size makes other traffic.
    """
    origin = application.trace.metadata.origin
    program, problem = origin.get("application"), origin.get("problem")
    printed: Mapping[str, list[str]] = problems.printed
    for name, size in zip(printed["app"], printed["problem"], strict=True):
        if program == name and problem == size:
            return name
    return None
