"""Delimited text into Arrow columns, block by block, with the line of every row at hand."""

from __future__ import annotations

import bisect
import io
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.csv

from nicscope.errors import TraceError
from nicscope.traces.files import first_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MOST_COLUMNS = 1000  # the library keeps some 20 KB for each


class Layout(NamedTuple):
    """How the columns of a text table are named, typed and parted."""

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


def line_of(first: int, block: bytes, row: int) -> int:
    """Number of the line that holds row ``row`` of a block; blank lines hold none."""
    filled = (number for number, line in enumerate(block.split(b"\n"), first) if line.strip(b"\r"))
    return next(number for index, number in enumerate(filled) if index == row)


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
    """The library's reason with the column's name in place of its number."""
    for index, name in enumerate(layout.names):
        why = why.replace(f"In CSV column #{index}: CSV conversion error to", f"{name} is no")
    return why.replace("invalid value", "found")
