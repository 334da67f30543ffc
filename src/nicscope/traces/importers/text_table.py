"""Delimited text into Arrow columns, block by block, with the line of every row at hand."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.csv

from nicscope.errors import TraceError
from nicscope.traces.files import first_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


class Layout(NamedTuple):
    """How the columns of a text table are named, typed and parted."""

    names: Sequence[str]
    types: Mapping[str, Any]
    delimiter: str = ","


def parse_block(path: Path, first: int, block: bytes, layout: Layout) -> Any:
    """Arrow table of a block of whole lines, of which the first is number ``first``.

    Errors: ``TraceError`` naming the first line that does not fit ``layout``.
    """
    try:
        return _parse(block, layout)
    except pa.ArrowInvalid as error:
        for number, line in enumerate(block.splitlines(keepends=True), first):
            try:
                _parse(line, layout)
            except pa.ArrowInvalid as reason:
                why = first_line(reason).removeprefix("CSV parse error: ")
                raise TraceError(f"{path}: line {number}: {_named(why, layout)}") from error
        raise TraceError(
            f"{path}: after line {first}: {first_line(error)}; every line must be whole"
        ) from error


def line_of(first: int, block: bytes, row: int) -> int:
    """Number of the line that holds row ``row`` of a block; blank lines hold none."""
    filled = (number for number, line in enumerate(block.split(b"\n"), first) if line.strip(b"\r"))
    return next(number for index, number in enumerate(filled) if index == row)


def _parse(block: bytes, layout: Layout) -> Any:
    return pyarrow.csv.read_csv(
        io.BytesIO(block),
        read_options=pyarrow.csv.ReadOptions(
            column_names=list(layout.names), block_size=max(len(block) + 1, 1 << 16)
        ),
        parse_options=pyarrow.csv.ParseOptions(delimiter=layout.delimiter),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict(layout.types), null_values=[""], strings_can_be_null=False
        ),
    )


def _named(why: str, layout: Layout) -> str:
    """The library's reason with the column's name in place of its number."""
    for index, name in enumerate(layout.names):
        why = why.replace(f"In CSV column #{index}: CSV conversion error to", f"{name} is no")
    return why.replace("invalid value", "found")
