"""Our own traces as CSV, read and written, and as Parquet, read for conversion to other formats.

CSV has a header line with the schema's column names, then a line per request.
"""

from __future__ import annotations

import bisect
import csv
import io
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.csv

from nicscope.errors import TraceError
from nicscope.outputs import whole_file
from nicscope.outputs.file import CsvTable, named_compression
from nicscope.traces.columns import FURTHER, TYPES, holds, is_text, may_register
from nicscope.traces.files import ByteSource, Watch, first_line
from nicscope.traces.imported import Choices, Imported, numbered
from nicscope.traces.reader import Trace, trace_of
from nicscope.traces.schema import OPTIONAL_COLUMNS, REQUIRED_COLUMNS, Requests, TraceMetadata
from nicscope.traces.writer import AtomicWriter

if TYPE_CHECKING:
    import contextlib
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from nicscope.inputs import Input

OTHER_DELIMITERS = (b";", b"\t", b"|")  # of tables that others write
MOST_COLUMNS = 1000  # the library keeps some 20 KB for each


class Layout(NamedTuple):
    """Names, types and separator of a text table's columns."""

    names: Sequence[str]
    types: Mapping[str, Any]
    delimiter: str = ","


def check_width(name: str, columns: int) -> None:
    """Return if the file ``name`` may have that many columns; errors: ``TraceError``."""
    if columns > MOST_COLUMNS:
        raise TraceError(
            f"{name}: line 1: {columns:,} columns; at most {MOST_COLUMNS:,} are read, so is this "
            "a table, and this its delimiter?"
        )


def parse_block(name: str, first: int, block: bytes, layout: Layout) -> Any:
    """Arrow table of a block of whole lines, of which the first is number ``first``.

    An empty field is a null, and a quoted one an empty text.  Errors: ``TraceError``, beginning
    with ``name``, for the first line that does not fit ``layout``.
    """
    try:
        return _parse(block, layout)
    except pa.ArrowInvalid as error:
        lines = block.splitlines(keepends=True)
        # Whatever begins with the line that does not fit does not fit.
        good = bisect.bisect_left(
            range(len(lines)), True, key=lambda last: not _fits(b"".join(lines[: last + 1]), layout)
        )
        try:
            _parse(b"".join(lines[good : good + 1]), layout)
        except pa.ArrowInvalid as reason:
            why = first_line(reason).removeprefix("CSV parse error: ")
            raise TraceError(f"{name}: line {first + good}: {_named(why, layout)}") from error
        raise TraceError(
            f"{name}: after line {first}: {first_line(error)}; every line must be whole"
        ) from error


def parsed_blocks(
    source: Input, watch: Watch | None, layout_of: Callable[[str, bytes], tuple[Layout, bool]]
) -> Iterator[tuple[int, bytes, Any]]:
    """Blocks of whole lines of a text table, each with the number of its first line, and parsed.

    ``layout_of`` is given the file's name and its first line, and says whether that is a header.
    Errors: as of ``ByteSource`` and ``parse_block``.
    """
    layout: Layout | None = None
    for first, block in ByteSource(source, watch).blocks():
        lines, start = block, first
        if layout is None:
            head, _, rest = block.partition(b"\n")
            layout, is_header = layout_of(source.name, head)
            if is_header:
                lines, start = rest, first + 1
        if lines.strip():
            yield start, lines, parse_block(source.name, start, lines, layout)


def line_of(first: int, block: bytes, row: int) -> int:
    """Number of the line that holds row ``row`` of a block; blank lines hold none."""
    filled = (number for number, line in enumerate(block.split(b"\n"), first) if line.strip(b"\r"))
    return next(number for index, number in enumerate(filled) if index == row)


def line_place(
    first: int, block: bytes, kept: Sequence[int] | NDArray[np.int64] | None = None
) -> Callable[[int], str]:
    """Places of a block's rows, or of those of them that are ``kept``; told when asked for."""

    def place(row: int) -> str:
        return f"line {line_of(first, block, row if kept is None else int(kept[row]))}"

    return place


def _fits(lines: bytes, layout: Layout) -> bool:
    try:
        _parse(lines, layout)
    except pa.ArrowInvalid:
        return False
    return True


def _parse(block: bytes, layout: Layout) -> Any:
    return pyarrow.csv.read_csv(
        io.BytesIO(block),
        read_options=pyarrow.csv.ReadOptions(
            column_names=list(layout.names), block_size=max(len(block) + 1, 1 << 16)
        ),
        parse_options=pyarrow.csv.ParseOptions(delimiter=layout.delimiter),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict(layout.types),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def _named(why: str, layout: Layout) -> str:
    """The library's error message with the column's name instead of its number."""
    for index, name in enumerate(layout.names):
        why = why.replace(f"In CSV column #{index}: CSV conversion error to", f"{name} is no")
    return why.replace("invalid value", "found")


def read_csv(
    source: Input,
    choices: Choices,  # noqa: ARG001 - this format says everything itself
    metadata: TraceMetadata,
    watch: Watch | None = None,
) -> Iterator[Imported]:
    """Requests of a CSV file; columns that nicscope does not know are kept as text.

    Errors: ``TraceError`` for a missing column or naming the line that does not fit.
    """
    metadata.origin["importer"] = "csv"
    for first, lines, table in parsed_blocks(source, watch, _layout_of):
        yield Imported(
            dict(zip(table.schema.names, table.columns, strict=True)), line_place(first, lines)
        )


def names_in(line: bytes) -> list[str]:
    """Column names in the first line of a CSV file; none if it cannot be one."""
    try:
        text = line.decode("utf-8-sig").strip("\r\n")
        names = next(csv.reader([text], skipinitialspace=True), [])
    except (UnicodeDecodeError, csv.Error):
        return []
    return [name.strip() for name in names]


def _layout_of(called: str, header: bytes) -> tuple[Layout, bool]:
    """Names and types of the columns of a file with that header, which is no request.

    Errors: ``TraceError`` if one that a trace needs is missing or one is there twice.
    """
    check_width(called, header.count(b",") + 1)
    names = names_in(header)
    parted = max(OTHER_DELIMITERS, key=header.count)
    if len(names) == 1 and parted in header:
        raise TraceError(
            f"{called}: the header line has {parted.decode()!r} where a trace has commas; "
            "write it with commas"
        )
    for name in REQUIRED_COLUMNS:
        if name not in names:
            raise TraceError(
                f"{called}: column {name!r} is missing in the header line; "
                f"a trace has {', '.join(REQUIRED_COLUMNS)}"
            )
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise TraceError(f"{called}: column {twice[0]!r} is there {names.count(twice[0])} times")
    known = REQUIRED_COLUMNS | OPTIONAL_COLUMNS
    types = {
        name: pa.type_for_alias(known[name]) if name in known else FURTHER.get(name, pa.string())
        for name in names
    }
    if may_register(names):
        types["length"] = pa.uint64()
    return Layout(names, types), True


def read_parquet(
    source: Input,
    choices: Choices,  # noqa: ARG001 - this format says everything itself
    metadata: TraceMetadata,
    watch: Watch | None = None,
) -> Iterator[Imported]:
    """Every request and every column, with the file's own metadata."""
    return read_trace(trace_of(source), metadata, watch)


def read_trace(
    trace: Trace, metadata: TraceMetadata, watch: Watch | None = None
) -> Iterator[Imported]:
    """As ``read_parquet``, of a trace that is open."""
    for name, value in msgspec.structs.asdict(trace.metadata).items():
        setattr(metadata, name, value)
    done = 0
    for requests, batch in trace.record_batches():
        columns = {name: batch.column(name) for name in batch.schema.names}
        yield Imported(
            columns, numbered("row {} (the first is 0)", range(done, done + requests.length.size))
        )
        done += requests.length.size
        if watch is not None:
            watch(done, trace.all_rows)


_WRITTEN = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_boolean,
    pa.types.is_decimal,
    pa.types.is_temporal,
    pa.types.is_null,
)


class CsvWriter(AtomicWriter):
    """Appends requests to a CSV file, compressed if its name ends in ``.zst`` or ``.gz``."""

    _table: CsvTable

    def _open(self, opening: contextlib.ExitStack) -> None:
        sink = opening.enter_context(whole_file(self.path))
        self._table = CsvTable(sink, named_compression(self.path))
        opening.push(self._abandon)

    def _finish(self) -> None:
        self._table.finish()
        self.lost += self.metadata.without_defaults()

    def _abandon(self, kind: type[BaseException] | None, *_: object) -> None:
        """Discard the file: no further byte is written."""
        if kind is not None:
            self._table.abandon()

    def append(self, requests: Requests, batch: Any) -> None:
        """Append a batch of checked requests with all its columns.

        Errors: ``TraceError`` for a column that has no form in a line of text.
        """
        columns = {
            name: self._plain(name, column)
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        }
        if not self.rows:
            self._check_names(batch.schema.names)
            self.lost += _types_lost(batch.schema)
        try:
            self._table.write(pa.RecordBatch.from_pydict(columns))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise TraceError(f"{self.path}: a column has no form in CSV: {error}") from error
        self.rows += requests.length.size

    def _plain(self, name: str, column: Any) -> Any:
        """``column`` as the CSV library writes it, each text on one line."""
        kind = column.type
        if pa.types.is_dictionary(kind):
            column, kind = column.cast(kind.value_type), kind.value_type
        if pa.types.is_string_view(kind):
            column, kind = column.cast(pa.large_string()), pa.large_string()
        if not (is_text(kind) or any(of_kind(kind) for of_kind in _WRITTEN)):
            raise TraceError(f"{self.path}: column {name!r} is {kind}, which has no form in CSV")
        row = holds(column, "[\r\n]") if is_text(kind) else None
        if row is not None:
            raise TraceError(
                f"{self.path}: row {self.rows + row} (the first is 0): {name} has a line end, "
                "which has no place in a line of CSV"
            )
        return column

    def _check_names(self, names: list[str]) -> None:
        """Errors: ``TraceError`` for a column whose name would be read as another."""
        for name in names:
            quoted = name.replace('"', '""')
            if names_in(f'"{quoted}"'.encode()) != [name] or not {"\r", "\n"}.isdisjoint(name):
                raise TraceError(f"{self.path}: column {name!r} has a name without a form in CSV")


def _types_lost(schema: Any) -> list[str]:
    """The types of further columns that are text when they are read back, in a line if any."""
    lost = [
        f"{field.name} ({field.type})"
        for field in schema
        if field.name not in TYPES and field.type != FURTHER.get(field.name, pa.string())
    ]
    return [f"types, which are text when read back: {', '.join(lost)}"] if lost else []
