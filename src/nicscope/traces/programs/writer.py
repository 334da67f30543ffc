"""Writing a program trace: columns in, a whole Parquet file out or none."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nicscope.traces.parquet import ROW_GROUP_ROWS, SignedParquet
from nicscope.traces.programs.checks import check_program
from nicscope.traces.programs.schema import (
    LIST_COLUMNS,
    OPERATION_NAMES,
    OTHERS_COLUMNS,
    PLACE,
    PROGRAM_COLUMNS,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
