"""Opens traces: a path, ``bundled:NAME``, or a table of Arrow, pandas or Polars."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from nicscope.errors import StudyError, TraceError, did_you_mean, in_one_line, printable
from nicscope.inputs import STDIN
from nicscope.library.command import Option, as_given, command_line, several
from nicscope.library.progress import progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Protocol

    from nicscope.traces.imported import KvChoices
    from nicscope.traces.reader import Trace

    class Table(Protocol):
        """A table of any library: it hands itself over by Arrow's protocol for C."""

        def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
            """Its columns."""

    TraceLike: TypeAlias = "str | Path | Table | Trace"

BUNDLED = "bundled:"


def trace_path(given: str) -> Path:
    """The path of a file or of ``bundled:NAME``.

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
    """A trace's name in tables: its file's name, or ``stdin``."""
    return "stdin" if given == STDIN else printable(Path(given.removeprefix(BUNDLED)).stem)


@in_one_line
def open_trace(
    source: TraceLike,
    *,
    model: str | None = None,
    ranks: int = 1,
    layout: str = "block",
    pool_bytes: str | int | None = None,
    slice_bytes: str | int = "64K",
    block_tokens: int = 512,
    prefix_tokens: int = 0,
    generated: bool = False,
) -> Trace:
    """Open a path, ``bundled:NAME``, or a table; a trace is returned as it is.

    A table is one of Arrow, pandas or Polars; ``-`` is standard input; a path may be a folder of
    files that are one trace.  What else there is, is for a trace of a language model's service
    (Mooncake's, Azure's, BurstGPT's), whose requests are made of it as they are read.

    Args:
        source: what is opened.
        model: whose KV cache a pool keeps, by name or a TOML file.
        ranks: that share the model's heads; the trace is one rank's.
        layout: ``block`` or ``layer``: what of the cache lies together.
        pool_bytes: memory of the pool at the rank; None: room for all.
        slice_bytes: a longer run is cut into these; ``whole``: none is cut.
        block_tokens: of a block, where the file names none.
        prefix_tokens: that all requests begin with, assumed where the file names no blocks.
        generated: whether what is generated is kept too, assumed likewise.

    Errors: ``TraceError`` if the file is missing, of another format, damaged or empty, or a column
    is not what the schema says.

    """
    from nicscope.library.kv_cache import kv_choices
    from nicscope.traces import reader
    from nicscope.traces.folders import is_folder, open_folder

    service: dict[str, str | int | bool | None] = {
        "--tp": ranks if ranks != 1 else None,
        "--layout": layout if layout != "block" else None,
        "--pool": pool_bytes,
        "--slice": slice_bytes if slice_bytes != "64K" else None,
        "--block-tokens": block_tokens if block_tokens != 512 else None,
        "--prefix": prefix_tokens or None,
        "--generated": generated,
    }
    if isinstance(source, str):
        source = trace_path(source)
    is_file = isinstance(source, Path) and not is_folder(source)
    said = [name for name, value in service.items() if value is not None and value is not False]
    if said and model is None:
        raise TraceError(f"{said[0]} goes with --model, for a language model's service")
    if model is not None and not is_file:
        what = f"{source}: is a folder" if isinstance(source, Path) else "a table is none"
        raise TraceError(f"{what}; --model is for a file of a language model's service")
    if isinstance(source, reader.Trace):
        return source
    if is_file and model is not None:
        assert isinstance(source, Path)
        kv = kv_choices(
            model,
            ranks,
            layout,
            pool_bytes,
            str(slice_bytes),
            block_tokens=block_tokens,
            prefix_tokens=prefix_tokens,
            generated=generated,
        )
        return _open_service(source, kv, {"--model": model, **service})
    if isinstance(source, Path):
        return _open_plain(source) if is_file else open_folder(source)
    collect = getattr(source, "collect", None)  # of a lazy frame, as Polars has them
    if collect is not None and not hasattr(source, "__arrow_c_stream__"):
        return reader.open_trace(collect())
    return reader.open_trace(source)


def _open_plain(path: Path) -> Trace:
    from nicscope.traces.formats import open_any
    from nicscope.traces.imported import Choices

    return open_any(path, Choices())


def _open_service(path: Path, kv: KvChoices, options: Mapping[str, Any]) -> Trace:
    from nicscope.traces.formats import open_any
    from nicscope.traces.imported import Choices

    with progress("reading", "") as watch:
        trace = open_any(path, Choices(kv=kv), watch)
    trace.words = command_line([path], options)[1:]
    return trace


@in_one_line
def open_file(source: TraceLike) -> Trace:
    """As ``open_trace``; errors: ``TraceError`` for a folder too."""
    from nicscope.traces.folders import FolderTrace

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
    words: list[Any] = []
    for one in several(given):
        words += getattr(one, "words", None) or [_file_of(one) or one]
    return words


OneTrace = Annotated[
    "TraceLike",
    Option(
        "TRACE",
        "A trace (Parquet), or bundled:NAME for one that comes with nicscope.",
        offers="traces",
        read=as_given,
        words=words_of,
        is_argument=True,
        reads_services=True,
    ),
]
Traces = Annotated[
    "TraceLike | Sequence[TraceLike]",
    Option(
        "TRACE...",
        "Traces (Parquet), or bundled:NAME for one that comes with nicscope.",
        offers="traces",
        read=as_given,
        words=words_of,
        is_argument=True,
        is_repeated=True,
        reads_services=True,
    ),
]


def _file_of(given: Any) -> str | Path | None:
    """The path of a trace, if other processes can open it."""
    from nicscope.traces.reader import Trace

    if isinstance(given, Trace):
        if given.words:
            return given.words[0]
        return given.path if given.is_named_file else None
    return given if isinstance(given, str | Path) else None


def opened_with_names(
    given: Any, *, as_given: bool = False, folders: bool = False
) -> list[tuple[str, Trace]]:
    """All traces of a list, or the only one, opened, with their names in tables.

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


@contextlib.contextmanager
def opened_with_progress(
    given: TraceLike, verb: str
) -> Iterator[tuple[Trace, Callable[[int, int], None]]]:
    """The trace, opened, and a watch that shows its reading progress."""
    [(_, opened)] = opened_with_names(given)
    with progress(verb, "rows") as watch:
        yield opened, watch
