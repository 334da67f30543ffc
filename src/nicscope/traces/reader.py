"""Reads a trace, a Parquet file or a table, and yields checked batches."""

from __future__ import annotations

import contextlib
import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nicscope.errors import TraceError
from nicscope.outputs import OutputFolder, whole_file
from nicscope.traces.columns import (
    DAMAGE,
    TYPES,
    Checker,
    as_schema,
    check_registrations,
    lengths_of,
    may_hold,
    may_register,
    only_requests,
    op_codes,
    rows_of,
)
from nicscope.traces.files import MAGIC, SignedFile, check_footer, first_line, open_bytes
from nicscope.traces.programs.schema import is_program
from nicscope.traces.schema import (
    FIRST_RECEIVE,
    FIRST_REGISTRATION,
    METADATA_KEY,
    OPTIONAL_COLUMNS,
    PAGE_SIZE_COLUMN,
    REQUIRED_COLUMNS,
    RIGHTS_COLUMN,
    Requests,
    Rows,
    TraceMetadata,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from nicscope.inputs import Input


# A larger column chunk is read through a window, so that even one giant row group is never in
# memory as a whole.  A smaller one is read at once: through a window the library believes a damaged
# page that says that it has 2 GiB, and makes room for it.
CHUNK_BYTES = 1 << 24
WINDOW_BYTES = 1 << 22
ROW_GROUP_ROWS = 1 << 20


class ParquetRows:
    """A Parquet file that stays open while its trace is in use."""

    def __init__(
        self,
        source: Input,
        check_columns: Callable[[str, Any], None],
        dictionaries: Sequence[str],
    ) -> None:
        """``check_columns`` is given the file's name and schema before any row is read.

        Columns in ``dictionaries`` stay dictionary-encoded in memory: a code for each row.
        Errors: ``TraceError`` for a file that is damaged, or as ``check_columns`` says.
        """
        self._source = source
        self.path: Path | None = source.at_rest()
        self.byte_count = source.byte_count or 0
        try:
            check_footer(self.path, source.name)
            footer = pq.read_metadata(self.path)
            self.schema = footer.schema.to_arrow_schema()
            check_columns(source.name, self.schema)
            self._file = pq.ParquetFile(
                self.path,
                metadata=footer,
                read_dictionary=[*dictionaries],
                buffer_size=_window(footer),
                pre_buffer=False,
                page_checksum_verification=True,  # where there are checksums
            )
        except DAMAGE as error:
            raise TraceError(
                f"{source.name}: damaged or truncated Parquet file: {first_line(error)}; "
                "record or copy it again"
            ) from error
        groups = [footer.row_group(group).num_rows for group in range(footer.num_row_groups)]
        if min(groups, default=0) < 0 or sum(groups) != footer.num_rows:
            raise TraceError(
                f"{source.name}: damaged: its row groups have {sum(groups)} rows, not "
                f"{footer.num_rows}; record or copy it again"
            )
        self.rows = footer.num_rows
        self.metadata: bytes | None = (footer.metadata or {}).get(METADATA_KEY)

    def record_batches(self, columns: list[str], max_rows: int) -> Iterator[Any]:
        """Arrow record batches of ``columns``, at most ``max_rows`` rows each."""
        batches: Iterator[Any] = self._file.iter_batches(max_rows, columns=columns)
        return batches


def _window(footer: Any) -> int:
    """Bytes of a column chunk to read at a time; 0: all of it.

    By what row groups say of themselves: asked of a damaged column, the library ends the process.
    """
    groups = [footer.row_group(group) for group in range(footer.num_row_groups)]
    sizes = [group.total_byte_size // max(group.num_columns // 2, 1) for group in groups]
    return 0 if max(sizes, default=0) <= CHUNK_BYTES else WINDOW_BYTES


class SignedParquet:
    """Writes a Parquet file with a checksum of its footer; it appears when it is complete.

    Errors of every method: ``OutputError`` if the file cannot be written.
    """

    def __init__(
        self, path: Path, opening: contextlib.ExitStack, folder: OutputFolder | None = None
    ) -> None:
        """``opening`` closes it: the file is there if nothing has gone wrong by then.

        It is one of the set of ``folder``, if that is given, and there when all of them are.
        """
        whole = whole_file(path) if folder is None else folder.file(path.name)
        self._sink: Any = opening.enter_context(whole)
        self._signed = SignedFile(self._sink)
        self._file: Any = None
        opening.callback(self._give_up)

    def write(self, table: Any) -> None:
        """Append an Arrow table; all have the schema of the first."""
        if self._file is None:
            self._file = pq.ParquetWriter(
                self._signed,
                table.schema,
                compression="zstd",
                use_dictionary=True,
                write_page_checksum=True,
            )
        self._file.write_table(table, row_group_size=ROW_GROUP_ROWS)

    def finish(self, metadata: bytes) -> None:
        """Write the footer with the metadata."""
        self._file.add_key_value_metadata({METADATA_KEY: metadata})
        file, self._file = self._file, None
        self._signed.hold()
        file.close()
        self._signed.finish()

    def _give_up(self) -> None:
        """Discard an unfinished file; a stream gets no valid end."""
        file, self._file = self._file, None
        if file is not None:
            self._sink.raw.give_up()
            with contextlib.suppress(OSError, pa.ArrowException):
                file.close()


BATCH_ROWS = 1 << 17  # about 5 MB of columns: still in the cache when the consumer gets them
DECODERS = 2  # of batches ahead, however many traces are read at once


class Trace:
    """A trace with valid columns; rows are checked as they are read."""

    words: Sequence[str | Path] = ()  # of a command line that name it, if its file alone does not

    def __init__(self, name: str, rows: int, metadata: TraceMetadata, source: _Source) -> None:
        self.name = name  # fit to be printed
        self.all_rows = rows  # requests and registrations
        self.metadata = metadata
        self._source = source

    @property
    def rows(self) -> int:
        """The number of requests."""
        return self.all_rows - self.registrations

    @cached_property
    def registrations(self) -> int:
        """How many of them register memory or give it back.

        Of a trace that may have such rows operations are read for it.  Errors: ``TraceError``.
        """
        if not may_register(self.column_names):
            return 0
        checker, found = Checker(self.name), 0
        for batch in read_ahead(self._source.record_batches(["op"], BATCH_ROWS), checker.error):
            codes = op_codes(batch.column("op"), checker)
            found += int(np.count_nonzero(codes >= FIRST_REGISTRATION))
            checker.rows += len(codes)
        return found

    @property
    def arrow_schema(self) -> Any:
        """Every column with its type, unknown ones among them."""
        return self._source.schema

    @property
    def column_names(self) -> list[str]:
        """Every column, in its order, unknown ones among them."""
        return list(self.arrow_schema.names)

    @property
    def path(self) -> Path | None:
        """The file's path in this process; None if the trace is no file."""
        return self._source.path

    @property
    def is_named_file(self) -> bool:
        """Whether other processes can open the file by its path."""
        return self.path is not None and not str(self.path).startswith("/proc/self/")

    @property
    def byte_count(self) -> int:
        """The size of the file, or of the table's columns in memory."""
        return self._source.byte_count

    def batches(self, max_rows: int = BATCH_ROWS) -> Iterator[Requests]:
        """All requests in their order, at most ``max_rows`` at a time.

        Errors: ``TraceError`` at the first row that the schema does not allow.
        """
        for requests, _ in self._checked(self._needed(), max_rows):
            requests = only_requests(requests) if self.registrations else requests
            if len(requests.op):
                yield requests

    def batches_of_rows(self, max_rows: int = BATCH_ROWS) -> Iterator[Rows]:
        """All requests and registrations in their order; errors: as ``batches``."""
        checker = Checker(self.name)
        for requests, batch in self._checked(self._needed(), max_rows):
            yield rows_of(requests, batch, checker)
            checker.rows += len(requests.op)

    def _needed(self) -> list[str]:
        """The columns to read for requests, and for registrations."""
        # What may be null is not used, and looked at only if it has to be made to fit.
        schema = self._source.schema
        found = [name for name in OPTIONAL_COLUMNS if name in schema.names]
        needed = [name for name in found if schema.field(name).type != TYPES[name]]
        if self.registrations:
            needed += [n for n in (PAGE_SIZE_COLUMN, RIGHTS_COLUMN) if n in schema.names]
        return [*REQUIRED_COLUMNS, *needed]

    def record_batches(self, max_rows: int = BATCH_ROWS) -> Iterator[tuple[Requests, Any]]:
        """As ``batches``, each with the Arrow record batch of every column that it came from.

        Columns of the schema have its types there.
        """
        yield from self._checked(self.column_names, max_rows)

    def read(self) -> Requests:
        """The whole trace at once; 34 bytes of memory per request."""
        parts = list(self.batches())
        return Requests(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))

    def _checked(self, columns: list[str], max_rows: int) -> Iterator[tuple[Requests, Any]]:
        checker = Checker(self.name)
        every = columns == self.column_names
        for column in columns if every else ():
            if columns.count(column) > 1:
                raise TraceError(
                    f"{self.name}: column {column!r} is there {columns.count(column)} times"
                )
        for batch in read_ahead(self._source.record_batches(columns, max_rows), checker.error):
            if every:
                _check_whole(batch, checker)
            known = as_schema(batch, [name for name in TYPES if name in columns], checker)
            requests = requests_of(known, checker)
            if checker.rows + len(requests.length) > self.all_rows:
                break
            checker.check(requests)
            yield requests, known
        if checker.rows != self.all_rows:
            raise TraceError(
                f"{self.name}: damaged: it says that it has {self.all_rows:,} rows and has others; "
                "record or copy it again"
            )


class _Source(Protocol):
    """Where the rows of a trace come from."""

    schema: Any
    byte_count: int
    path: Path | None

    def record_batches(self, columns: list[str], max_rows: int) -> Iterator[Any]:
        """Arrow record batches of ``columns``, at most ``max_rows`` rows each."""


class _Table:
    """A table in memory."""

    path: Path | None = None

    def __init__(self, table: Any) -> None:
        self._table = table
        self.schema = table.schema
        self.byte_count: int = table.nbytes

    def record_batches(self, columns: list[str], max_rows: int) -> Iterator[Any]:
        batches: list[Any] = self._table.select(columns).to_batches(max_rows)
        return iter(batches)


@cache
def _decoder() -> ThreadPoolExecutor:
    """Threads of this process that decode for all readers.

    A reader that had its own would wait for its end wherever the garbage collector finds it, which
    may be where the interpreter holds the locks that this takes.
    """
    return ThreadPoolExecutor(DECODERS, "nicscope-decoder")


os.register_at_fork(after_in_child=_decoder.cache_clear)


class _Alone:
    """Whether decoding runs on the reading thread, as other processes use the other processors."""

    here = False


def decode_alone() -> None:
    """Make this process decode on the reading thread."""
    _Alone.here = True
    pa.set_cpu_count(1)


def read_ahead(batches: Iterator[Any], error_of: Callable[[int, str], TraceError]) -> Iterator[Any]:
    """Decode the next batch while the consumer is busy with this one, unless ``decode_alone``.

    Errors: what ``error_of`` makes of row 0 of the next batch, if that is damaged.
    """
    ahead = None if _Alone.here else _decoder().submit(next, batches, None)
    while True:
        try:
            batch = next(batches, None) if ahead is None else ahead.result()
        except DAMAGE as error:
            raise error_of(0, f"damaged from here on: {first_line(error)}") from error
        if batch is None:
            return
        if ahead is not None:
            ahead = _decoder().submit(next, batches, None)
        yield batch


def open_trace(source: Path | str | Any) -> Trace:
    """The trace in the Parquet file ``source``, or in a table of Arrow, pandas or Polars.

    ``-`` is standard input; what is not a regular file is copied to one without a name.
    Errors: ``TraceError`` if the file is missing, unreadable, not Parquet, truncated, damaged or
    empty, or if a column is missing or cannot be what the schema says.
    """
    is_file = isinstance(source, Path | str)
    trace = trace_of(open_bytes(source)) if is_file else _trace_of_table(source)
    check_requests(trace)
    return trace


def check_requests(trace: Trace) -> None:
    """Return if ``trace`` has requests; errors: ``TraceError``."""
    if trace.rows == 0:
        raise TraceError(f"{trace.name}: only registers memory; record or convert its requests too")


def trace_of(source: Input) -> Trace:
    """The trace in a Parquet file that is open; errors: as ``open_trace``."""
    if source.head(len(MAGIC)) != MAGIC:
        raise TraceError(
            f"{source.name}: not a Parquet file; 'nicscope trace convert IN OUT.parquet' makes one "
            "of strace, lackey, CSV, oracleGeneral, Mooncake's and GOAL files"
        )
    file = ParquetRows(source, _check_columns, ["op"])
    return _trace(source.name, file.rows, file.metadata, file)


def _trace_of_table(table: Any) -> Trace:
    try:
        made = pa.table(table)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise TraceError(
            f"a {type(table).__name__} is no trace: {first_line(error)}; give a path, or a table "
            "of Arrow, pandas or Polars"
        ) from error
    name = f"the {type(table).__name__}"
    _check_columns(name, made.schema)
    text = (made.schema.metadata or {}).get(METADATA_KEY)
    return _trace(name, made.num_rows, text, _Table(made))


def _trace(name: str, rows: int, text: bytes | None, source: _Source) -> Trace:
    metadata = TraceMetadata() if text is None else TraceMetadata.from_json(text, name)
    if rows == 0:
        raise TraceError(f"{name}: holds no requests; record or convert it again")
    return Trace(name, rows, metadata, source)


def requests_of(batch: Any, checker: Checker) -> Requests:
    """The required columns of an Arrow record batch as NumPy arrays, without copies if possible.

    The batch has the schema's types.  Errors: ``TraceError`` through ``checker`` for an unknown
    operation, or a registration that cannot be believed.
    """
    codes = op_codes(batch.column("op"), checker)
    length = batch.column("length")
    is_wide = length.type != TYPES["length"]
    requests = Requests(
        time_ns=_values(batch.column("time_ns")),
        node=_values(batch.column("node")),
        pid=_values(batch.column("pid")),
        receive=((codes >= FIRST_RECEIVE) & (codes < FIRST_REGISTRATION)).view(np.uint8),
        op=codes,
        address=_values(batch.column("address")),
        length=lengths_of(length, codes, checker) if is_wide else _values(length),
    )
    check_registrations(requests, batch, checker)
    return requests


def _values(column: Any) -> NDArray[Any]:
    """An Arrow column's own memory; writable, as kernels compile anew for read-only arrays."""
    kind = column.type.to_pandas_dtype()
    memory = np.frombuffer(column.buffers()[1], kind)[column.offset : column.offset + len(column)]
    return memory if memory.flags.writeable else memory.copy()


def _check_columns(name: str, schema: Any) -> None:
    if is_program(schema):
        raise TraceError(
            f"{name}: is a program trace; 'nicscope simulate' times it, and 'nicscope trace "
            "convert IN.program.parquet OUT.parquet' has its requests"
        )
    for column in REQUIRED_COLUMNS | OPTIONAL_COLUMNS:
        places = schema.get_all_field_indices(column)
        if len(places) > 1:
            raise TraceError(f"{name}: column {column!r} is there {len(places)} times")
        if not places:
            if column in OPTIONAL_COLUMNS:
                continue
            raise TraceError(
                f"{name}: column {column!r} is missing; a trace has {', '.join(REQUIRED_COLUMNS)}"
            )
        found = schema.field(places[0]).type
        if not may_hold(found, column):
            must = "text" if column == "op" else f"{TYPES[column]}, or another integer"
            raise TraceError(f"{name}: column {column!r} is {found}; must be {must}")


def _check_whole(batch: Any, checker: Checker) -> None:
    """Errors: ``TraceError`` for text that is none, or an entry that a dictionary does not have.

    Whoever writes the columns anew takes them as they are.
    """
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        try:
            column.validate(full=True)
        except DAMAGE as error:
            raise checker.error(0, f"damaged from here on: {name}: {first_line(error)}") from error
