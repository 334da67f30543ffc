"""The file formats that ``convert`` knows, and how a file's format is recognized.

A conversion reads one and writes another.  An LLM serving trace is read directly as well: nothing
is written, and every pass generates the same requests again.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from nicscope.errors import TraceError, did_you_mean, printable
from nicscope.outputs.file import format_to_write, named_format
from nicscope.traces.columns import TYPES, Checker, op_column
from nicscope.traces.files import MAGIC, Watch, first_bytes, open_bytes
from nicscope.traces.folders import is_folder, open_folder
from nicscope.traces.imported import Choices, Imported
from nicscope.traces.importers import services
from nicscope.traces.importers.lackey import read_lackey
from nicscope.traces.importers.strace import read_strace
from nicscope.traces.objects import (
    OracleGeneralWriter,
    read_libcachesim_csv,
    read_oracle_general,
)
from nicscope.traces.programs.writer import (
    PROGRAM_FORMATS,
    program_format,
    program_format_to_write,
    read_as_program,
    request_metadata,
    requests_of_program,
    write_as,
)
from nicscope.traces.reader import Trace, requests_of, trace_of
from nicscope.traces.schema import (
    FIRST_REGISTRATION,
    REQUIRED_COLUMNS,
    WRITTEN,
    TraceMetadata,
    check_page_size,
)
from nicscope.traces.tables import CsvWriter, read_csv, read_parquet, read_trace
from nicscope.traces.writer import TraceWriter, batch_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from nicscope.inputs import Input

SNIFFED_BYTES = 1 << 14

_STRACE_LINE = re.compile(
    rb"^(\d{1,9} +|\[pid +\d{1,9}\] )?([\d:]{1,12}(\.\d{1,9})? +)?\w{1,40}\(.*(= |<unfinished)",
    re.M,
)
_MOONCAKE_LINE = re.compile(rb'^\s*\{[^\n]*"hash_ids"\s*:', re.M)
_LACKEY_LINE = re.compile(rb"^(I | [LSM]) [0-9a-f]+,\d+$", re.M)


class Format(NamedTuple):
    """A file format: its file name endings, reader and writer."""

    name: str
    endings: tuple[str, ...]  # of file names, before .zst or .gz
    read: Callable[..., Any]
    writer: Callable[..., Any] | None = None
    service: services.Reader | None = (
        None  # of a language model's service: reads what was asked of it
    )


def _of_service(name: str, endings: tuple[str, ...], read: services.Reader) -> Format:
    return Format(name, endings, partial(services.read_service, name, read), service=read)


FORMATS = {
    format_.name: format_
    for format_ in (
        Format("parquet", WRITTEN["parquet"], read_parquet, TraceWriter),
        Format("csv", WRITTEN["csv"], read_csv, CsvWriter),
        Format("strace", (".strace",), read_strace),
        Format("lackey", (".lackey",), read_lackey),
        Format("libcachesim-csv", (), read_libcachesim_csv),
        Format(
            "oracle-general",
            WRITTEN["oracle-general"],
            read_oracle_general,
            OracleGeneralWriter,
        ),
        _of_service("mooncake", (".jsonl",), services.read_mooncake),
        _of_service("azure-llm", (), services.read_azure),
        _of_service("burstgpt", (), services.read_burstgpt),
    )
}


def format_named(name: str) -> Format:
    """Return the format called ``name``.

    Errors: ``TraceError`` if there is none; the nearest name is suggested.
    """
    if name not in FORMATS:
        known = [*FORMATS, *PROGRAM_FORMATS]
        raise TraceError(f"unknown trace format {name!r}{did_you_mean(name, known)}")
    return FORMATS[name]


def input_format(source: Input, name: str | None = None) -> Format:
    """The format of ``source``: as named, else by its content and its ending.

    Errors: ``TraceError`` if it cannot be read or told.
    """
    if name is not None:
        return format_named(name)
    found = _by_content(source)
    if found is None:
        by_ending = _by_ending(Path(source.name))
        found = None if by_ending is None else by_ending.name
    if found is None:
        raise TraceError(
            f"{source.name}: cannot tell its format; say --from {' or --from '.join(FORMATS)}"
        )
    return FORMATS[found]


def output_format(path: Path, name: str | None = None) -> Format:
    """The format to write ``path`` in: as named, else by its ending.

    Errors: ``TraceError`` if nothing writes it, ``OutputError`` if it cannot be told.
    """
    chosen = format_named(name) if name is not None else _by_ending(path)
    if chosen is not None and chosen.writer is None:
        raise TraceError(f"{path}: {chosen.name} can only be read; write {', '.join(WRITTEN)}")
    named = None if chosen is None else chosen.name
    otherwise = f", or say --to {' or --to '.join(WRITTEN)}"
    found = format_to_write(path, WRITTEN, named, otherwise=otherwise)
    return FORMATS[found]


def _by_ending(path: Path) -> Format | None:
    name = named_format(path, {each.name: each.endings for each in FORMATS.values()})
    return None if name is None else FORMATS[name]


def _by_content(source: Input) -> str | None:
    if source.head(len(MAGIC)) == MAGIC:
        return "parquet"
    text = first_bytes(source, SNIFFED_BYTES)
    if b"\0" in text:
        return None
    if _MOONCAKE_LINE.search(text):
        return "mooncake"
    if _LACKEY_LINE.search(text):
        return "lackey"
    if _STRACE_LINE.search(text):
        return "strace"
    header = text.partition(b"\n")[0]
    counted = services.columns_in(header)
    if counted is not None:
        return "azure-llm" if counted is services.AZURE else "burstgpt"
    # Half of a trace's columns, in any spelling and with any separator: what is wrong with such a
    # header its reader tells; by column numbers it would be misread.
    names = {name.decode().lower() for name in re.findall(rb"[A-Za-z_]+", header)}
    if 2 * len(names & set(REQUIRED_COLUMNS)) >= len(REQUIRED_COLUMNS):
        return "csv"
    by_ending = _by_ending(Path(source.name))
    if by_ending is not None and by_ending.name == "csv":
        return "libcachesim-csv"
    return None


class Conversion(NamedTuple):
    """The result of a conversion."""

    rows: int
    from_format: str
    to_format: str
    metadata: TraceMetadata
    lost: list[str]  # what the input had and the output's format has no place for
    are_operations: bool = False  # what is counted, rather than requests
    registrations: int = 0  # rows beside the requests


def convert(
    source: Path | str,
    target: Path,
    from_format: str | None = None,
    to_format: str | None = None,
    choices: Choices | None = None,
    watch: Watch | None = None,
) -> Conversion:
    """Write the requests of ``source`` to ``target``; recognizes formats that are not given.

    ``-`` is standard input.  ``watch`` hears how many bytes, or rows of a Parquet file, of how
    many are read.
    Errors: ``TraceError`` naming the place in ``source`` that cannot be believed, ``OutputError``
    if ``target`` cannot be written.
    """
    choices = choices or Choices()
    check_page_size(choices.page_size, "--page-size")
    if is_folder(source):
        return _convert_folder(Path(source), target, from_format, to_format, watch)
    metadata = TraceMetadata()
    with open_bytes(source) as opened:
        if opened.is_same_file(target):
            raise TraceError(f"{opened.name}: is input and output at once; name another output")
        kind = program_format(opened, from_format)
        made = program_format_to_write(target, to_format)
        if kind is not None or made is not None:
            return _convert_program(opened, kind, target, made or to_format, choices, watch)
        reading, writing = input_format(opened, from_format), output_format(target, to_format)
        metadata.origin["file"] = printable(Path(source).name)
        batches = reading.read(opened, choices, metadata, watch)
        return write_batches(opened.name, reading.name, batches, writing, target, metadata)


def write_batches(
    name: str,
    read_as: str,
    batches: Iterable[Imported],
    writing: Format,
    target: Path,
    metadata: TraceMetadata,
) -> Conversion:
    """Write the requests of ``batches``, which come from ``name``, to ``target``."""
    checker = Checker(name)
    schema: Any = None
    registrations = 0
    with writing.writer(target, metadata) as writer:  # type: ignore[misc]
        for columns, place in batches:
            checker.place = place
            batch = batch_of(columns, checker, schema)
            schema = schema or batch.schema
            requests = requests_of(batch, checker)
            checker.check(requests)
            registrations += int(np.count_nonzero(requests.op >= FIRST_REGISTRATION))
            if requests.length.size:
                writer.append(requests, batch)
        if not checker.rows:
            raise TraceError(f"{name}: holds no requests ({read_as})")
    return Conversion(
        checker.rows - registrations,
        read_as,
        writing.name,
        metadata,
        writer.lost,
        registrations=registrations,
    )


def _convert_folder(
    folder: Path,
    target: Path,
    from_format: str | None,
    to_format: str | None,
    watch: Watch | None,
) -> Conversion:
    """Convert a folder of files that are one trace to one file."""
    shown = printable(str(folder))
    if from_format not in (None, "parquet"):
        raise TraceError(f"{shown}: is a folder, which is read as Parquet files; leave --from out")
    trace = open_folder(folder)
    if target.parent.resolve() == folder.resolve():
        raise TraceError(f"{target}: would lie among the files that it is made of; name another")
    writing, metadata = output_format(target, to_format), TraceMetadata()
    batches = read_trace(trace, metadata, watch)
    return write_batches(shown, "parquet", batches, writing, target, metadata)


def _convert_program(
    source: Input,
    kind: str | None,
    target: Path,
    to_format: str | None,
    choices: Choices,
    watch: Watch | None,
) -> Conversion:
    """Convert a program trace, native or GOAL, to either format or to its requests."""
    if kind is None:
        raise TraceError(
            f"{source.name}: is no program, so {target} cannot be one: requests do not say what "
            "they wait for"
        )
    made = program_format_to_write(target, to_format)
    writing = None if made is not None else output_format(target, to_format)
    program = read_as_program(source, kind, choices, watch)
    if writing is None:
        assert made is not None
        lost = write_as(target, made, program, watch)
        return Conversion(program.rows, kind, made, TraceMetadata(), lost, are_operations=True)
    columns = requests_of_program(program, source.name)
    batch = batch_of(columns, Checker(source.name))
    with writing.writer(target, request_metadata(program)) as writer:  # type: ignore[misc]
        writer.append(requests_of(batch, Checker(source.name)), batch)
    lost = ["computing, locks and barriers, and what waits for what", *writer.lost]
    return Conversion(batch.num_rows, kind, writing.name, TraceMetadata(), lost)


class _Made:
    """Rows of a serving trace, generated anew for each pass."""

    path: Path | None = None  # no other process finds these rows in a file
    schema = pa.schema([(name, TYPES[name]) for name in REQUIRED_COLUMNS])

    def __init__(self, service: services.Service, byte_count: int) -> None:
        self._service = service
        self.byte_count = byte_count

    def record_batches(self, columns: list[str], max_rows: int) -> Iterator[Any]:
        for made, _ in self._service.batches():
            arrays = [
                op_column(made[name]) if name == "op" else pa.array(made[name]) for name in columns
            ]
            batch = pa.RecordBatch.from_arrays(arrays, columns)
            for first in range(0, batch.num_rows, max_rows):
                yield batch.slice(first, max_rows)


def open_any(path: Path | str, choices: Choices, watch: Watch | None = None) -> Trace:
    """The trace in a Parquet file, or in an LLM serving trace.

    Errors: ``TraceError`` for a file of another format, which has to be converted, and for
    ``choices`` that are not for this one.
    """
    return any_of(open_bytes(path), choices, watch)


def any_of(source: Input, choices: Choices, watch: Watch | None = None) -> Trace:
    """As ``open_any``, of a file that is open."""
    found = None if source.head(len(MAGIC)) == MAGIC else _told(source)
    if found is None or found.service is None:
        if choices.kv is not None:
            raise TraceError(
                f"{source.name}: --model is for traces of a language model's service, as "
                "Mooncake's are; leave it out"
            )
        if found is not None:
            raise TraceError(
                f"{source.name}: is not Parquet but {found.name}; 'nicscope trace convert "
                f"{source.name} OUT.parquet' makes that"
            )
        return trace_of(source)
    if choices.kv is None:
        raise TraceError(
            f"{source.name}: is a trace of a language model's service ({found.name}), whose blocks "
            "have a size once a model is named: --model llama-3-70b, here or for 'nicscope trace "
            "convert'"
        )
    service = services.Service(source.name, found.service(source, choices.kv, watch), choices)
    if not service.rows:
        raise TraceError(f"{source.name}: holds no requests ({found.name})")
    metadata = TraceMetadata()
    metadata.origin["file"] = source.name
    service.tell(metadata, found.name)
    made = _Made(service, source.byte_count or source.position)
    return Trace(source.name, service.rows, metadata, made)


def _told(source: Input) -> Format | None:
    """The format of a file that is not Parquet; None if it is no request trace."""
    if program_format(source, None) is not None:
        return None
    try:
        found = input_format(source)
    except TraceError:
        return None
    return None if found.name == "parquet" else found  # by its ending alone
