"""Writing a program trace, and converting from and to GOAL's text and request traces."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nicscope.errors import TraceError
from nicscope.outputs.file import named_format
from nicscope.traces.files import MAGIC, check_footer, first_bytes, open_bytes
from nicscope.traces.goal import read_goal, write_goal
from nicscope.traces.programs.reader import check_program, program_of
from nicscope.traces.programs.schema import (
    ENDING,
    LIST_COLUMNS,
    OPERATION_NAMES,
    OTHERS_COLUMNS,
    PLACE,
    PROGRAM_COLUMNS,
    is_program,
)
from nicscope.traces.reader import ROW_GROUP_ROWS, SignedParquet

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nicscope.inputs import Input
    from nicscope.traces.files import Watch
    from nicscope.traces.imported import Choices
    from nicscope.traces.programs.schema import Others, ProgramTrace, Waits


_LISTS = pa.list_(pa.uint32())
_PLACE = pa.struct([(name, pa.uint32()) for name in PLACE])


def write_program(path: Path | str, trace: ProgramTrace) -> None:
    """Write ``trace`` to ``path``.

    Errors: ``TraceError`` for a row that cannot be, ``OutputError`` if the file cannot be written.
    """
    check_program(trace, str(path))
    with contextlib.ExitStack() as opening:
        file = SignedParquet(Path(path), opening)
        for begin in range(0, trace.rows, ROW_GROUP_ROWS):
            file.write(_table(trace, slice(begin, min(begin + ROW_GROUP_ROWS, trace.rows))))
        file.finish(trace.metadata.to_json())


def _table(trace: ProgramTrace, part: slice) -> Any:
    rows = np.arange(part.start, part.stop)
    process = np.searchsorted(trace.first, rows, "right") - 1
    columns: dict[str, Any] = {"process": pa.array(process.astype(np.uint32))}
    for name in PROGRAM_COLUMNS:
        if name == "operation":
            codes = pa.array(trace.operation[part].astype(np.int32))
            columns[name] = pa.DictionaryArray.from_arrays(codes, pa.array(OPERATION_NAMES))
        elif name != "process":
            columns[name] = pa.array(getattr(trace, name)[part])
    for name in LIST_COLUMNS:
        columns[name] = _lists(getattr(trace, name), part)
    for name in OTHERS_COLUMNS:
        columns[name] = _others(getattr(trace, name), trace.first, part)
    return pa.table(columns)


def _lists(waits: Waits | None, part: slice) -> Any:
    if waits is None:
        return pa.nulls(part.stop - part.start, _LISTS)
    first = waits.first[part.start : part.stop + 1]
    offsets = pa.array((first - first[0]).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, pa.array(waits.places[first[0] : first[-1]]), _LISTS)


def _others(others: Others | None, of: NDArray[np.int64], part: slice) -> Any:
    kind = pa.list_(_PLACE)
    if others is None:
        return pa.nulls(part.stop - part.start, kind)
    first = others.first[part.start : part.stop + 1]
    offsets = pa.array((first - first[0]).astype(np.int32))
    rows = others.rows[first[0] : first[-1]]
    process = np.searchsorted(of, rows, "right") - 1
    places = [process.astype(np.uint32), (rows - of[process]).astype(np.uint32)]
    values = pa.StructArray.from_arrays([pa.array(each) for each in places], fields=[*_PLACE])
    return pa.ListArray.from_arrays(offsets, values, kind)


GOAL, PROGRAM = "goal", "program"
PROGRAM_FORMATS = {PROGRAM: (ENDING,), GOAL: (".goal",)}
_SNIFFED_BYTES = 1 << 14
_GOAL = re.compile(rb"^\s*num_ranks\s*\d", re.M)


def program_format(source: Input, name: str | None) -> str | None:
    """``goal`` or ``program``, as named or else by content, if ``source`` is one of them."""
    if name is not None:
        return name if name in PROGRAM_FORMATS else None
    if source.head(len(MAGIC)) == MAGIC:
        return PROGRAM if _is_program_file(source) else None
    if _GOAL.search(first_bytes(source, _SNIFFED_BYTES)):
        return GOAL
    return GOAL if named_format(Path(source.name), PROGRAM_FORMATS) == GOAL else None


def program_format_to_write(path: Path, name: str | None) -> str | None:
    """``goal`` or ``program``, as named or else by the ending, if ``path`` is to be one of them."""
    if name is not None:
        return name if name in PROGRAM_FORMATS else None
    return named_format(path, PROGRAM_FORMATS)


def _is_program_file(source: Input) -> bool:
    """Whether a file's columns are those of a program trace; the reader reports what is wrong."""
    try:
        path = source.at_rest()
        check_footer(path, source.name)
        return is_program(pq.read_schema(path))
    except (TraceError, OSError, pa.ArrowException):
        return False


def is_program_file(path: Path) -> bool:
    """Whether ``path`` is a program trace, as far as its columns say."""
    try:
        with open_bytes(path) as source:
            return program_format(source, None) == PROGRAM
    except TraceError:
        return False


def read_as_program(
    source: Input, kind: str, choices: Choices, watch: Watch | None = None
) -> ProgramTrace:
    """The program trace in a source of that kind; errors: as its reader's."""
    return read_goal(source, choices, watch) if kind == GOAL else program_of(source, watch)


def write_as(path: Path, kind: str, trace: ProgramTrace, watch: Watch | None = None) -> list[str]:
    """Write ``trace`` in that format; what it has no place for.  Errors: as its writer's."""
    if kind == GOAL:
        return write_goal(path, trace, watch)
    write_program(path, trace)
    return []
