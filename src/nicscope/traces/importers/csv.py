"""Our own trace as CSV: a header line with the schema's column names, then a line per request."""

from __future__ import annotations

import csv
import functools
from typing import TYPE_CHECKING

import pyarrow as pa

from nicscope.errors import TraceError
from nicscope.traces.columns import FURTHER
from nicscope.traces.files import ByteSource
from nicscope.traces.imported import Imported
from nicscope.traces.importers.text_table import Layout, check_width, line_of, parse_block
from nicscope.traces.schema import OPTIONAL_COLUMNS, REQUIRED_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nicscope.inputs import Input
    from nicscope.traces.files import Watch
    from nicscope.traces.imported import Choices
    from nicscope.traces.schema import TraceMetadata


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
    layout: Layout | None = None
    for first, block in ByteSource(source, watch).blocks():
        rows, start = block, first
        if layout is None:
            header, _, rows = block.partition(b"\n")
            layout, start = layout_of(source.name, header), first + 1
        if not rows.strip():
            continue
        table = parse_block(source.name, start, rows, layout)
        columns = {name: table.column(name) for name in layout.names}
        yield Imported(columns, functools.partial(_place, start, rows))


def names_in(line: bytes) -> list[str]:
    """Column names in the first line of a CSV file; none if it cannot be one."""
    try:
        text = line.decode("utf-8-sig").strip("\r\n")
        names = next(csv.reader([text], skipinitialspace=True), [])
    except (UnicodeDecodeError, csv.Error):
        return []
    return [name.strip() for name in names]


def layout_of(called: str, header: bytes) -> Layout:
    """Names and types of the columns of the file that is ``called`` so.

    Errors: ``TraceError`` if one that a trace needs is missing or one is there twice.
    """
    check_width(called, header.count(b",") + 1)
    names = names_in(header)
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
    return Layout(names, types)


def _place(first: int, block: bytes, row: int) -> str:
    return f"line {line_of(first, block, row)}"
