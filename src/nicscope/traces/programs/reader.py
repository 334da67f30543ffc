"""Reading a program trace: a Parquet file in, checked columns out.

In memory it takes 33 bytes a row, and with dependencies 8 more and 4 for each of them; what a batch
takes comes to that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nicscope.errors import TraceError
from nicscope.room import check_room
from nicscope.traces.columns import DAMAGE, is_text
from nicscope.traces.files import MAGIC, first_line, open_bytes
from nicscope.traces.parquet import ParquetRows
from nicscope.traces.programs.checks import check_program
from nicscope.traces.programs.schema import (
    LIST_COLUMNS,
    OPERATION_CODES,
    OTHERS_COLUMNS,
    PLACE,
    PROGRAM_COLUMNS,
    ProgramMetadata,
    ProgramTrace,
    is_program,
)
from nicscope.traces.programs.waits import Lists, OtherLists, OthersOfRows, WaitsOfRows

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from nicscope.inputs import Input
    from nicscope.traces.files import Watch

BATCH_ROWS = 1 << 17
ROW_BYTES = 33 + 2 * (8 + 4)  # of memory, if each row waits for one and for one's beginning
_NO_OPERATION = 255


def read_program(path: Path | str, watch: Watch | None = None) -> ProgramTrace:
    """The program trace in the Parquet file ``path``; ``-`` is standard input.

    ``watch`` hears how many rows of how many are read.
    Errors: ``TraceError`` if it is missing, damaged, no program trace, or a row cannot be;
    ``RoomError`` if there is no room for its columns.
    """
    with open_bytes(path) as source:
        return program_of(source, watch)


def program_of(source: Input, watch: Watch | None = None) -> ProgramTrace:
    """The program trace in a file that is open; errors: as ``read_program``."""
    if source.head(len(MAGIC)) != MAGIC:
        raise TraceError(
            f"{source.name}: not a Parquet file; 'nicscope trace convert IN.goal "
            "OUT.program.parquet' makes a program trace of GOAL"
        )
    file = ParquetRows(source, _check_columns, ["operation"])
    metadata = ProgramMetadata.from_json(file.metadata, source.name)
    check_room(file.rows * ROW_BYTES, f"{source.name}: {file.rows:,} rows", "read a shorter one")
    columns = _Columns(source.name, file.rows, metadata)
    lists = [name for name in (*LIST_COLUMNS, *OTHERS_COLUMNS) if name in file.schema.names]
    names = [*PROGRAM_COLUMNS, *lists]
    batches = file.record_batches(names, BATCH_ROWS)
    while True:
        try:
            batch = next(batches, None)
        except DAMAGE as error:
            raise columns.error(0, f"damaged from here on: {first_line(error)}") from error
        if batch is None:
            break
        columns.add(batch)
        if watch is not None:
            watch(columns.rows, file.rows)
    trace = columns.trace()
    check_program(trace, source.name)
    return trace


def _check_columns(name: str, schema: Any) -> None:
    if not is_program(schema):
        raise TraceError(
            f"{name}: is no program trace, as it has no column 'operation'; 'nicscope apps run' "
            "records them and 'nicscope trace convert IN.goal OUT.program.parquet' makes them"
        )
    for column, kind in PROGRAM_COLUMNS.items():
        places = schema.get_all_field_indices(column)
        if len(places) != 1:
            raise TraceError(
                f"{name}: column {column!r} is there {len(places)} times; must be once"
            )
        found = schema.field(places[0]).type
        if column == "operation":
            is_fit = is_text(found.value_type if pa.types.is_dictionary(found) else found)
        else:
            is_fit = pa.types.is_integer(found)
        if not is_fit:
            raise TraceError(f"{name}: column {column!r} is {found}; must be {kind}")
    for column in (*LIST_COLUMNS, *OTHERS_COLUMNS):
        places = schema.get_all_field_indices(column)
        if len(places) > 1:
            raise TraceError(f"{name}: column {column!r} is there {len(places)} times")
        if places and not _is_list_column(found := schema.field(places[0]).type, column):
            of = "uint32" if column in LIST_COLUMNS else "structs of process and row, both uint32"
            raise TraceError(f"{name}: column {column!r} is {found}; must be a list of {of}")


def _is_list_column(kind: Any, column: str) -> bool:
    if not pa.types.is_list(kind):
        return False
    if column in LIST_COLUMNS:
        return bool(pa.types.is_integer(kind.value_type))
    if not pa.types.is_struct(kind.value_type):
        return False
    parts = [*kind.value_type]
    return [part.name for part in parts] == [*PLACE] and all(
        pa.types.is_integer(part.type) for part in parts
    )


class _Columns:
    """Takes batches in and gives the columns of all."""

    def __init__(self, name: str, rows: int, metadata: ProgramMetadata) -> None:
        self._name = name
        self._metadata = metadata
        self._size = rows
        self.rows = 0  # so far
        self._last = 0  # process of the row before
        self._first = np.zeros(metadata.processes + 1, np.int64)
        self._held = {
            name: np.empty(rows, np.uint8 if name == "operation" else np.dtype(kind))
            for name, kind in PROGRAM_COLUMNS.items()
            if name != "process"
        }
        self._waits = {name: WaitsOfRows(name) for name in LIST_COLUMNS}
        self._others = {name: OthersOfRows() for name in OTHERS_COLUMNS}

    def error(self, row: int, what: str) -> TraceError:
        """The error that says ``what`` is wrong with row ``row`` of the batch to come."""
        return TraceError(f"{self._name}: row {self.rows + row} (the first is 0): {what}")

    def add(self, batch: Any) -> None:
        """Errors: ``TraceError`` for the first value that is none of the schema's."""
        count = batch.num_rows
        if self.rows + count > self._size:
            raise TraceError(
                f"{self._name}: damaged: it has more rows than it says; record or copy it again"
            )
        places = self._places(self._numbers(batch, "process", np.dtype(np.uint32)))
        part = slice(self.rows, self.rows + count)
        for name, held in self._held.items():
            if name == "operation":
                held[part] = self._operations(batch.column(name))
            else:
                held[part] = self._numbers(batch, name, held.dtype)
        for name in LIST_COLUMNS:
            column = batch.column(name) if name in batch.schema.names else None
            self._waits[name].add(places, self._lists(column, name, count))
        for name in OTHERS_COLUMNS:
            column = batch.column(name) if name in batch.schema.names else None
            self._others[name].add(count, self._of_others(column, name, count))
        self.rows += count

    def trace(self) -> ProgramTrace:
        """All of it.  Errors: ``TraceError`` if there are fewer rows than there should be."""
        if self.rows != self._size:
            raise TraceError(
                f"{self._name}: damaged: it has {self.rows:,} rows and says {self._size:,}; record "
                "or copy it again"
            )
        self._first[self._last + 1 :] = self.rows
        waits = {name: lists.waits(self._first) for name, lists in self._waits.items()}
        for name, others in self._others.items():
            row = others.outside(self._first)
            if row is not None:
                raise TraceError(
                    f"{self._name}: row {row} (the first is 0): {name} names a row that is none"
                )
        others_of_rows = {name: each.others(self._first) for name, each in self._others.items()}
        return ProgramTrace(
            self._metadata,
            self._first,
            **self._held,  # type: ignore[arg-type]
            **waits,  # type: ignore[arg-type]
            **others_of_rows,  # type: ignore[arg-type]
        )

    def _places(self, process: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Of each row within its process; remembers where processes begin."""
        if not len(process):
            return np.empty(0, np.int64)
        beyond = np.flatnonzero(process >= self._metadata.processes)
        if len(beyond):
            row = int(beyond[0])
            raise self.error(
                row,
                f"process {process[row]} is none of the {self._metadata.processes} whose nodes "
                "the metadata names",
            )
        known = np.append(np.uint32(self._last), process).astype(np.int64)
        steps = np.diff(known)
        if (steps < 0).any():
            row = int(np.argmax(steps < 0))
            raise self.error(
                row, f"process {known[row + 1]} follows process {known[row]}; sort rows by process"
            )
        rows = self.rows + np.arange(len(process))
        for row in np.flatnonzero(steps).tolist():
            self._first[known[row] + 1 : known[row + 1] + 1] = rows[row]
        self._last = int(process[-1])
        return np.asarray(rows - self._first[process])

    def _numbers(self, batch: Any, name: str, kind: np.dtype[Any]) -> NDArray[Any]:
        column = batch.column(name)
        if column.null_count:
            row = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
            raise self.error(row, f"{name} is null; only after and after_start may be")
        values: NDArray[Any] = column.to_numpy(zero_copy_only=False)
        if values.dtype != kind:
            info = np.iinfo(kind)
            low, high = int(info.min), int(info.max)
            wrong = np.flatnonzero([not low <= value <= high for value in values.tolist()])
            if len(wrong):
                row = int(wrong[0])
                raise self.error(row, f"{name} is {values[row]}; must be from {low} to {high}")
        return values

    def _operations(self, column: Any) -> NDArray[np.uint8]:
        if not pa.types.is_dictionary(column.type):
            column = column.cast(pa.large_string()).dictionary_encode()
        names = column.dictionary.cast(pa.large_binary()).to_pylist()
        codes = np.array(
            [
                OPERATION_CODES.get((name or b"").decode(errors="replace"), _NO_OPERATION)
                for name in names
            ]
            + [_NO_OPERATION],  # where indices are null or outside
            np.uint8,
        )
        places = column.indices.fill_null(len(names)).to_numpy(zero_copy_only=False)
        outside = (places < 0) | (places > len(names))
        found: NDArray[np.uint8] = codes[np.where(outside, len(names), places)]
        wrong = np.flatnonzero(found == _NO_OPERATION)
        if len(wrong):
            row = int(wrong[0])
            place = int(places[row])
            said = names[place] if 0 <= place < len(names) else None
            shown = "null" if said is None else repr(said.decode(errors="backslashreplace"))
            raise self.error(row, f"operation is {shown}; there are {', '.join(OPERATION_CODES)}")
        return found

    def _lists(self, column: Any, name: str, count: int) -> Lists | None:
        """Of a column's rows; None if all are null."""
        if column is None or column.null_count == count:
            return None
        counts, values = self._parted(column, name)
        is_null = column.is_null().to_numpy(zero_copy_only=False)
        return Lists(is_null, counts, self._places_named(values, counts, name))

    def _of_others(self, column: Any, name: str, count: int) -> OtherLists | None:
        """The same, of rows of other processes."""
        if column is None or column.null_count == count:
            return None
        counts, values = self._parted(column, name)
        if values.null_count:
            raise self.error(_row_of_null(values, counts), f"{name} names a row that is null")
        both = [self._places_named(values.field(part), counts, name) for part in PLACE]
        return OtherLists(counts, *both)

    def _parted(self, column: Any, name: str) -> tuple[NDArray[np.int64], Any]:
        """How long each list is, and what is in all."""
        try:
            column.validate(full=True)
        except DAMAGE as error:
            raise self.error(0, f"damaged from here on: {name}: {first_line(error)}") from error
        counts = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        return counts.astype(np.int64), column.flatten()

    def _places_named(
        self, values: Any, counts: NDArray[np.int64], name: str
    ) -> NDArray[np.uint32]:
        if values.null_count:
            raise self.error(_row_of_null(values, counts), f"{name} names a row that is null")
        try:
            places: NDArray[np.uint32] = values.cast(pa.uint32()).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid as error:
            raise self.error(0, f"{name} from here on: {first_line(error)}") from error
        return places


def _row_of_null(values: Any, counts: NDArray[np.int64]) -> int:
    at = int(np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0])
    return int(np.searchsorted(np.cumsum(counts), at, "right"))
