"""Reading a program trace: a Parquet file in, checked columns out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nicscope.errors import TraceError
from nicscope.memory_limit import check_memory
from nicscope.traces.columns import DAMAGE, Checker, cast_column, first_null, is_text, op_codes
from nicscope.traces.files import MAGIC, Watch, first_line, open_bytes
from nicscope.traces.programs import schema
from nicscope.traces.reader import ParquetRows, read_ahead

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from nicscope.inputs import Input

ROWS_AT_ONCE = 1 << 20  # so that what a check makes for itself stays small
_OF_NODES = (schema.Operation.FETCH, schema.Operation.DEPOSIT)
_OF_PROCESSES = (schema.Operation.SEND, schema.Operation.RECEIVE)
_LAST = np.uint64(2**64 - 1)


def check_program(trace: schema.ProgramTrace, source: str) -> None:
    """Return if every row is valid; errors: ``TraceError`` naming ``source`` and the first bad row.

    Whether every message that is waited for is sent shows only when the program runs.
    """
    trace.metadata.check(source)
    if not trace.rows:
        raise TraceError(f"{source}: holds no operations; record or convert it again")
    check = _Check(trace, source)
    for begin in range(0, trace.rows, ROWS_AT_ONCE):
        check.rows(begin, min(begin + ROWS_AT_ONCE, trace.rows))
    check.durations()
    check.locks()
    check.barriers()


class _Check:
    """Looks at one trace; every method raises ``TraceError`` for the first row that is wrong."""

    def __init__(self, trace: schema.ProgramTrace, source: str) -> None:
        self._trace = trace
        self._source = source

    def _refuse(self, rows: NDArray[np.bool_], begin: int, why: str) -> None:
        """Errors: ``TraceError`` if any of ``rows``, which begin with row ``begin``, is set."""
        if rows.any():
            raise self._error(begin + int(np.argmax(rows)), why)

    def _error(self, row: int, why: str) -> TraceError:
        trace = self._trace
        process = int(np.searchsorted(trace.first, row, "right")) - 1
        place = row - int(trace.first[process])
        values = {
            "operation": schema.OPERATION_NAMES[trace.operation[row]]
            if trace.operation[row] < len(schema.OPERATION_NAMES)
            else f"operation {trace.operation[row]}",
            "peer": int(trace.peer[row]),
            "address": hex(trace.address[row]),
            "length": int(trace.length[row]),
            "name": int(trace.name[row]),
        }
        return TraceError(
            f"{self._source}: process {process}, row {place} (the first is 0): "
            f"{why.format(**values)}"
        )

    def rows(self, begin: int, end: int) -> None:
        """Check what can be checked of each row by itself."""
        trace, part = self._trace, slice(begin, end)
        operation, peer, length = trace.operation[part], trace.peer[part], trace.length[part]
        self._refuse(operation >= len(schema.OPERATION_NAMES), begin, "{operation} is none")
        of_node, of_process = np.isin(operation, _OF_NODES), np.isin(operation, _OF_PROCESSES)
        nodes, processes = trace.metadata.nodes, trace.metadata.processes
        outside = of_node & ((peer < 0) | (peer >= nodes))
        self._refuse(outside, begin, f"{{operation}}: peer {{peer}} is none of {nodes} nodes")
        lowest = np.where(operation == schema.Operation.RECEIVE, schema.NOBODY, 0)
        outside = of_process & ((peer < lowest) | (peer >= processes))
        self._refuse(
            outside, begin, f"{{operation}}: peer {{peer}} is none of {processes} processes"
        )
        moves = of_node | of_process
        self._refuse(
            ~moves & (peer != schema.NOBODY),
            begin,
            "{operation}: has peer {peer}; it has none, which -1 says",
        )
        self._refuse(
            ~moves & ((length != 0) | (trace.address[part] != 0)),
            begin,
            "{operation}: has a buffer ({length} bytes at {address}); it moves nothing",
        )
        self._refuse(of_node & (length == 0), begin, "{operation}: of 0 bytes; it moves at least 1")
        self._memory(moves & (length != 0), part, begin)
        for name, waits in (("after", trace.after), ("after_start", trace.after_start)):
            if waits is not None:
                self._waits(name, waits, part)
        for name, others in (
            ("after_others", trace.after_others),
            ("after_start_others", trace.after_start_others),
        ):
            if others is not None:
                self._others(name, others, part)

    def _memory(self, moves: NDArray[np.bool_], part: slice, begin: int) -> None:
        metadata = self._trace.metadata
        address, length = self._trace.address[part], self._trace.length[part].astype(np.uint64)
        self._refuse(
            moves & (address > _LAST - (length - np.minimum(length, 1).astype(np.uint64))),
            begin,
            "{operation}: {length} bytes at {address} wrap past 2^64",
        )
        base, most = np.uint64(metadata.base), np.uint64(min(metadata.memory_bytes, 2**64 - 1))
        within = (address >= base) & (length <= most)
        within &= address - base <= most - np.minimum(length, most)
        self._refuse(
            moves & ~within,
            begin,
            f"{{operation}}: {{length}} bytes at {{address}} are not all in the trace's memory, "
            f"{metadata.memory_bytes:,} bytes from {metadata.base:#x} on",
        )

    def _waits(self, name: str, waits: schema.Waits, part: slice) -> None:
        first = waits.first[part.start : part.stop + 1]
        counts = np.diff(first)
        places = np.repeat(schema.places_of_rows(self._trace.first, part.start, part.stop), counts)
        wrong = waits.places[first[0] : first[-1]] >= places
        if wrong.any():
            at = int(np.argmax(wrong))
            row = part.start + int(np.searchsorted(np.cumsum(counts), at, "right"))
            raise self._error(
                row,
                f"{name} names row {waits.places[first[0] + at]}; a row waits for earlier ones of "
                "its process only",
            )

    def _others(self, name: str, others: schema.Others, part: slice) -> None:
        first, of = others.first[part.start : part.stop + 1], self._trace.first
        counts = np.diff(first)
        named = others.rows[first[0] : first[-1]]
        process = np.searchsorted(of, np.arange(part.start, part.stop), "right") - 1
        wrong = (np.searchsorted(of, named, "right") - 1) == np.repeat(process, counts)
        if wrong.any():
            row = part.start + int(
                np.searchsorted(np.cumsum(counts), int(np.argmax(wrong)), "right")
            )
            raise self._error(row, f"{name} names a row of its own process; that is for after")

    def durations(self) -> None:
        """Check that each process's compute time fits; summed as reals, so nothing wraps."""
        trace = self._trace
        for process, (begin, end) in enumerate(
            zip(trace.first[:-1].tolist(), trace.first[1:].tolist(), strict=True)
        ):
            took = float(trace.duration_ns[begin:end].sum(dtype=np.float64))
            if took > schema.MOST_NS:
                raise TraceError(
                    f"{self._source}: process {process} computes {took:.3g} ns in all; at most "
                    "2^53 ns (104 days) can be timed"
                )

    def locks(self) -> None:
        """Check that each lock is released once by its holder before it is acquired again."""
        trace = self._trace
        rows = np.flatnonzero(
            np.isin(trace.operation, (schema.Operation.LOCK, schema.Operation.UNLOCK))
        )
        if not len(rows):
            return
        process = np.searchsorted(trace.first, rows, "right") - 1
        order = np.lexsort((rows, trace.name[rows], process))
        rows, process = rows[order], process[order]
        name, is_lock = trace.name[rows], trace.operation[rows] == schema.Operation.LOCK
        is_new = np.ones(len(rows), np.bool_)
        is_new[1:] = (process[1:] != process[:-1]) | (name[1:] != name[:-1])
        was_held = np.zeros(len(rows), np.bool_)
        was_held[1:] = is_lock[:-1] & ~is_new[1:]
        wrong = [
            (rows[is_lock & was_held], "lock: {name} is its own already"),
            (rows[~is_lock & ~was_held], "unlock: {name} is not held"),
            (rows[is_lock & np.append(is_new[1:], True)], "lock: {name} is never let go of"),
        ]
        found = [(int(each.min()), why) for each, why in wrong if len(each)]
        if found:
            raise self._error(*min(found))

    def barriers(self) -> None:
        """Check that all processes of a barrier arrive equally often."""
        trace = self._trace
        rows = np.flatnonzero(trace.operation == schema.Operation.BARRIER)
        if not len(rows):
            return
        process = np.searchsorted(trace.first, rows, "right") - 1
        pairs, comes = np.unique(np.stack([trace.name[rows], process]), axis=1, return_counts=True)
        same = pairs[0, 1:] == pairs[0, :-1]
        wrong = same & (comes[1:] != comes[:-1])
        if wrong.any():
            at = int(np.argmax(wrong))
            raise TraceError(
                f"{self._source}: barrier {pairs[0, at]}: process {pairs[1, at]} comes to it "
                f"{comes[at]} times and process {pairs[1, at + 1]} {comes[at + 1]}; one would wait "
                "for ever"
            )


BATCH_ROWS = 1 << 17
ROW_BYTES = 33 + 2 * (8 + 4)  # of memory, if each row waits for one and for one's beginning


def read_program(path: Path | str, watch: Watch | None = None) -> schema.ProgramTrace:
    """The program trace in the Parquet file ``path``; ``-`` is standard input.

    ``watch`` hears how many rows of how many are read.
    Errors: ``TraceError`` if it is missing, damaged, no program trace, or a row cannot be;
    ``RoomError`` if there is no room for its columns.
    """
    with open_bytes(path) as source:
        return program_of(source, watch)


def program_of(source: Input, watch: Watch | None = None) -> schema.ProgramTrace:
    """The program trace in a file that is open; errors: as ``read_program``."""
    if source.head(len(MAGIC)) != MAGIC:
        raise TraceError(
            f"{source.name}: not a Parquet file; 'nicscope trace convert IN.goal "
            "OUT.program.parquet' makes a program trace of GOAL"
        )
    file = ParquetRows(source, _check_columns, ["operation"])
    metadata = schema.ProgramMetadata.from_json(file.metadata, source.name)
    check_memory(file.rows * ROW_BYTES, f"{source.name}: {file.rows:,} rows", "read a shorter one")
    columns = _Columns(source.name, file.rows, metadata)
    checker = columns.checker
    lists = [
        name for name in (*schema.LIST_COLUMNS, *schema.OTHERS_COLUMNS) if name in file.schema.names
    ]
    names = [*schema.PROGRAM_COLUMNS, *lists]
    for batch in read_ahead(file.record_batches(names, BATCH_ROWS), checker.error):
        columns.add(batch)
        if watch is not None:
            watch(checker.rows, file.rows)
    trace = columns.trace()
    check_program(trace, source.name)
    return trace


def _check_columns(name: str, arrow: Any) -> None:
    if not schema.is_program(arrow):
        raise TraceError(
            f"{name}: is no program trace, as it has no column 'operation'; 'nicscope apps run' "
            "records them and 'nicscope trace convert IN.goal OUT.program.parquet' makes them"
        )
    for column, kind in schema.PROGRAM_COLUMNS.items():
        places = arrow.get_all_field_indices(column)
        if len(places) != 1:
            raise TraceError(
                f"{name}: column {column!r} is there {len(places)} times; must be once"
            )
        found = arrow.field(places[0]).type
        if column == "operation":
            is_fit = is_text(found.value_type if pa.types.is_dictionary(found) else found)
        else:
            is_fit = pa.types.is_integer(found)
        if not is_fit:
            raise TraceError(f"{name}: column {column!r} is {found}; must be {kind}")
    for column in (*schema.LIST_COLUMNS, *schema.OTHERS_COLUMNS):
        places = arrow.get_all_field_indices(column)
        if len(places) > 1:
            raise TraceError(f"{name}: column {column!r} is there {len(places)} times")
        if places and not _is_list_column(found := arrow.field(places[0]).type, column):
            of = (
                "uint32"
                if column in schema.LIST_COLUMNS
                else "structs of process and row, both uint32"
            )
            raise TraceError(f"{name}: column {column!r} is {found}; must be a list of {of}")


def _is_list_column(kind: Any, column: str) -> bool:
    if not pa.types.is_list(kind):
        return False
    if column in schema.LIST_COLUMNS:
        return bool(pa.types.is_integer(kind.value_type))
    if not pa.types.is_struct(kind.value_type):
        return False
    parts = [*kind.value_type]
    return [part.name for part in parts] == [*schema.PLACE] and all(
        pa.types.is_integer(part.type) for part in parts
    )


class _Columns:
    """Collects the columns of all batches."""

    def __init__(self, name: str, rows: int, metadata: schema.ProgramMetadata) -> None:
        self._name = name
        self._metadata = metadata
        self._size = rows
        self.checker = Checker(name)  # it counts the rows so far
        self._last = 0  # process of the row before
        self._first = np.zeros(metadata.processes + 1, np.int64)
        self._held = {
            name: np.empty(rows, np.uint8 if name == "operation" else np.dtype(kind))
            for name, kind in schema.PROGRAM_COLUMNS.items()
            if name != "process"
        }
        self._waits = {name: schema.WaitsOfRows(name) for name in schema.LIST_COLUMNS}
        self._others = {name: schema.OthersOfRows() for name in schema.OTHERS_COLUMNS}

    def add(self, batch: Any) -> None:
        """Errors: ``TraceError`` for the first value that is none of the schema's."""
        count, begin = batch.num_rows, self.checker.rows
        if begin + count > self._size:
            raise TraceError(
                f"{self._name}: damaged: it has more rows than it says; record or copy it again"
            )
        places = self._places(self._values(batch, "process"))
        for name, held in self._held.items():
            held[begin : begin + count] = self._values(batch, name)
        for name in schema.LIST_COLUMNS:
            column = batch.column(name) if name in batch.schema.names else None
            self._waits[name].add(places, self._lists(column, name, count))
        for name in schema.OTHERS_COLUMNS:
            column = batch.column(name) if name in batch.schema.names else None
            self._others[name].add(count, self._of_others(column, name, count))
        self.checker.rows += count

    def trace(self) -> schema.ProgramTrace:
        """The whole trace.  Errors: ``TraceError`` if there are fewer rows than there should be."""
        if self.checker.rows != self._size:
            raise TraceError(
                f"{self._name}: damaged: it has {self.checker.rows:,} rows and says "
                f"{self._size:,}; record or copy it again"
            )
        self._first[self._last + 1 :] = self.checker.rows
        waits = {name: lists.waits(self._first) for name, lists in self._waits.items()}
        for name, others in self._others.items():
            row = others.outside(self._first)
            if row is not None:
                raise TraceError(
                    f"{self._name}: row {row} (the first is 0): {name} names a row that is none"
                )
        others_of_rows = {name: each.others(self._first) for name, each in self._others.items()}
        return schema.ProgramTrace(
            self._metadata,
            self._first,
            **self._held,  # type: ignore[arg-type]
            **waits,  # type: ignore[arg-type]
            **others_of_rows,  # type: ignore[arg-type]
        )

    def _places(self, process: NDArray[np.uint32]) -> NDArray[np.int64]:
        """The index of each row within its process; remembers where processes begin."""
        if not len(process):
            return np.empty(0, np.int64)
        beyond = np.flatnonzero(process >= self._metadata.processes)
        if len(beyond):
            row = int(beyond[0])
            raise self.checker.error(
                row,
                f"process {process[row]} is none of the {self._metadata.processes} whose nodes "
                "the metadata names",
            )
        known = np.append(np.uint32(self._last), process).astype(np.int64)
        steps = np.diff(known)
        if (steps < 0).any():
            row = int(np.argmax(steps < 0))
            raise self.checker.error(
                row, f"process {known[row + 1]} follows process {known[row]}; sort rows by process"
            )
        rows = self.checker.rows + np.arange(len(process))
        for row in np.flatnonzero(steps).tolist():
            self._first[known[row] + 1 : known[row + 1] + 1] = rows[row]
        self._last = int(process[-1])
        return np.asarray(rows - self._first[process])

    def _values(self, batch: Any, name: str) -> NDArray[Any]:
        """A column as numbers, its operations as codes."""
        column = batch.column(name)
        if column.null_count:
            why = f"{name} is null; only after and after_start may be"
            raise self.checker.error(first_null(column), why)
        if name == "operation":
            return op_codes(column, self.checker, schema.OPERATION_CODES, name)
        kind = pa.type_for_alias(schema.PROGRAM_COLUMNS[name])
        values: NDArray[Any] = cast_column(column, name, self.checker, kind).to_numpy()
        return values

    def _lists(self, column: Any, name: str, count: int) -> schema.Lists | None:
        """Of a column's rows; None if all are null."""
        if column is None or column.null_count == count:
            return None
        counts, values = self._parted(column, name)
        is_null = column.is_null().to_numpy(zero_copy_only=False)
        return schema.Lists(is_null, counts, self._places_named(values, counts, name))

    def _of_others(self, column: Any, name: str, count: int) -> schema.OtherLists | None:
        """The same, of rows of other processes."""
        if column is None or column.null_count == count:
            return None
        counts, values = self._parted(column, name)
        if values.null_count:
            raise self.checker.error(
                _row_of_null(values, counts), f"{name} names a row that is null"
            )
        both = [self._places_named(values.field(part), counts, name) for part in schema.PLACE]
        return schema.OtherLists(counts, *both)

    def _parted(self, column: Any, name: str) -> tuple[NDArray[np.int64], Any]:
        """The length of each list, and the concatenated values."""
        try:
            column.validate(full=True)
        except DAMAGE as error:
            raise self.checker.error(
                0, f"damaged from here on: {name}: {first_line(error)}"
            ) from error
        counts = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        return counts.astype(np.int64), column.flatten()

    def _places_named(
        self, values: Any, counts: NDArray[np.int64], name: str
    ) -> NDArray[np.uint32]:
        if values.null_count:
            raise self.checker.error(
                _row_of_null(values, counts), f"{name} names a row that is null"
            )
        try:
            places: NDArray[np.uint32] = values.cast(pa.uint32()).to_numpy(zero_copy_only=False)
        except pa.ArrowInvalid as error:
            raise self.checker.error(0, f"{name} from here on: {first_line(error)}") from error
        return places


def _row_of_null(values: Any, counts: NDArray[np.int64]) -> int:
    return int(np.searchsorted(np.cumsum(counts), first_null(values), "right"))
