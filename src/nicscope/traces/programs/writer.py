"""A program trace: built row by row, written, and converted from and to GOAL and request traces."""

from __future__ import annotations

import contextlib
import re
from array import array
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nicscope.errors import TraceError
from nicscope.outputs.file import named_format
from nicscope.traces.files import MAGIC, Watch, check_footer, first_bytes, open_bytes
from nicscope.traces.goal import read_goal, write_goal
from nicscope.traces.programs import schema
from nicscope.traces.programs.reader import check_program, program_of
from nicscope.traces.reader import ROW_GROUP_ROWS, SignedParquet
from nicscope.traces.schema import Op, TraceMetadata

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nicscope.inputs import Input
    from nicscope.traces.imported import Choices

_KINDS = {
    "operation": ("B", np.uint8),
    "peer": ("i", np.int32),
    "address": ("Q", np.uint64),
    "length": ("I", np.uint32),
    "name": ("q", np.int64),
    "duration_ns": ("Q", np.uint64),
}


class ProgramBuilder:
    """Builds a program trace; each process's rows are added in order."""

    def __init__(self, metadata: schema.ProgramMetadata) -> None:
        self.metadata = metadata
        many = range(metadata.processes)
        self._columns = [{name: array(kind) for name, (kind, _) in _KINDS.items()} for _ in many]
        # Of each row's lists: the length plus one; 0: null.
        self._counts = [{name: array("I") for name in schema.LIST_COLUMNS} for _ in many]
        self._others: dict[str, list[tuple[int, int, Sequence[tuple[int, int]]]]] = {
            name: [] for name in schema.OTHERS_COLUMNS
        }
        self._places = [{name: array("I") for name in schema.LIST_COLUMNS} for _ in many]

    def add(
        self,
        process: int,
        operation: schema.Operation,
        *,
        peer: int = schema.NOBODY,
        address: int = 0,
        length: int = 0,
        name: int = 0,
        duration_ns: int = 0,
        after: Sequence[int] | None = None,
        after_start: Sequence[int] | None = None,
        after_others: Sequence[tuple[int, int]] = (),
        after_start_others: Sequence[tuple[int, int]] = (),
    ) -> int:
        """Append a row to a process; its index there.

        ``after``: None for the row before.  Rows of others: processes, and places there.
        Errors: ``OverflowError`` for a number that its column cannot hold.
        """
        columns = self._columns[process]
        place = len(columns["operation"])
        columns["operation"].append(operation)
        columns["peer"].append(peer)
        columns["address"].append(address)
        columns["length"].append(length)
        columns["name"].append(name)
        columns["duration_ns"].append(duration_ns)
        for called, places in (("after", after), ("after_start", after_start)):
            self._counts[process][called].append(0 if places is None else len(places) + 1)
            if places:
                self._places[process][called].extend(places)
        for called, others in (
            ("after_others", after_others),
            ("after_start_others", after_start_others),
        ):
            if others:
                self._others[called].append((process, place, others))
        return place

    def count(self, process: int) -> int:
        """How many rows a process has so far."""
        return len(self._columns[process]["operation"])

    def trace(self) -> schema.ProgramTrace:
        """All rows so far, unchecked."""
        rows = [len(columns["operation"]) for columns in self._columns]
        first = np.concatenate([[0], np.cumsum(rows)]).astype(np.int64)
        held = {
            name: np.concatenate([np.array(columns[name], kind) for columns in self._columns])
            for name, (_, kind) in _KINDS.items()
        }
        waits = {name: self._waits(name, first) for name in schema.LIST_COLUMNS}
        others = {name: self._of_others(name, first) for name in schema.OTHERS_COLUMNS}
        return schema.ProgramTrace(self.metadata, first, **held, **waits, **others)  # type: ignore[arg-type]

    def _of_others(self, name: str, first: NDArray[np.int64]) -> schema.Others | None:
        counts = np.zeros(int(first[-1]), np.int64)
        named: list[tuple[int, int]] = []
        for process, place, others in sorted(self._others[name], key=lambda each: each[:2]):
            counts[first[process] + place] = len(others)
            named += others
        columns = np.array(named, np.uint32).reshape(-1, 2)
        of_rows = schema.OthersOfRows()
        of_rows.add(len(counts), schema.OtherLists(counts, columns[:, 0], columns[:, 1]))
        return of_rows.others(first)

    def _waits(self, name: str, first: NDArray[np.int64]) -> schema.Waits | None:
        told = np.concatenate([np.array(each[name], np.int64) for each in self._counts])
        named = np.concatenate([np.array(each[name], np.uint32) for each in self._places])
        waits = schema.WaitsOfRows(name)
        places = schema.places_of_rows(first, 0, len(told))
        waits.add(places, schema.Lists(told == 0, np.maximum(told - 1, 0), named))
        return waits.waits(first)


_OPS = {
    schema.Operation.FETCH: Op.READ,
    schema.Operation.DEPOSIT: Op.WRITE,
    schema.Operation.SEND: Op.SEND,
    schema.Operation.RECEIVE: Op.RECV,
}


def requests_of_program(trace: schema.ProgramTrace, source: str) -> dict[str, NDArray[Any]]:
    """A program's requests, timed as if the network took no time.

    Errors: ``TraceError`` if rows wait for each other, or nothing is moved.
    """
    times = schema.times_without_network(trace)
    if not times.is_reached.all():
        raise TraceError(f"{source}: some rows wait for each other, or for messages never sent")
    rows = np.flatnonzero(np.isin(trace.operation, [*_OPS]) & (trace.length > 0))
    if not len(rows):
        raise TraceError(f"{source}: moves nothing; it has no requests")
    rows = rows[np.argsort(times.begin[rows], kind="stable")]
    process = trace.process_of_rows()[rows]
    node = np.array(trace.metadata.nodes_of_processes)
    local = np.arange(len(node)) - np.searchsorted(node, node)
    codes = np.zeros(len(schema.Operation), np.uint8)
    codes[[*_OPS]] = [*_OPS.values()]
    peer = trace.peer[rows]
    is_message = np.isin(trace.operation[rows], (schema.Operation.SEND, schema.Operation.RECEIVE))
    return {
        "time_ns": times.begin[rows],
        "node": node[process].astype(np.int32),
        "pid": local[process].astype(np.int32),
        "op": codes[trace.operation[rows]],
        "address": trace.address[rows],
        "length": trace.length[rows],
        "peer": np.where(is_message & (peer >= 0), node[peer], peer).astype(np.int32),
    }


def request_metadata(trace: schema.ProgramTrace) -> TraceMetadata:
    """The metadata of those requests."""
    of = trace.metadata
    origin = {"program": of.program, "problem_size": of.size, "seed": of.seed} | of.origin
    times = "as if the network took no time; the program trace has what they depend on"
    return TraceMetadata(page_size=of.page_size, origin=origin | {"times": times})


@dataclass
class ProgramSummary:
    """Counts over a whole trace; nanoseconds."""

    metadata: schema.ProgramMetadata
    operations: int
    nodes: int
    processes: int
    operations_by_kind: dict[str, int]
    bytes_by_kind: dict[str, int]
    compute_ns: list[int]  # of each process
    waits: int  # for rows that are not simply the one before
    waits_for_others: int  # for rows of other processes
    longest_path_ns: int  # from the beginning to the end, if the network took no time
    never_ended: int  # rows that wait for each other, or for messages that nobody sends

    def as_json(self) -> dict[str, Any]:
        """The counts under their own names, ready for JSON."""
        return vars(self) | {"metadata": msgspec.to_builtins(self.metadata)}


def summarize_program(trace: schema.ProgramTrace) -> ProgramSummary:
    """Counts over ``trace``."""
    counts = np.bincount(trace.operation, minlength=len(schema.OPERATION_NAMES))
    lengths = np.bincount(trace.operation, trace.length, len(schema.OPERATION_NAMES))
    sums = np.concatenate([[0], np.cumsum(trace.duration_ns.astype(np.int64))])
    times = schema.times_without_network(trace)
    own = [len(each.places) for each in (trace.after, trace.after_start) if each is not None]
    others = (trace.after_others, trace.after_start_others)
    return ProgramSummary(
        trace.metadata,
        trace.rows,
        trace.metadata.nodes,
        trace.metadata.processes,
        dict(zip(schema.OPERATION_NAMES, counts.tolist(), strict=True)),
        dict(zip(schema.OPERATION_NAMES, lengths.astype(np.int64).tolist(), strict=True)),
        np.diff(sums[trace.first]).tolist(),
        sum(own),
        sum(len(each.rows) for each in others if each is not None),
        times.longest_ns,
        int(np.count_nonzero(~times.is_reached)),
    )


_LISTS = pa.list_(pa.uint32())
_PLACE = pa.struct([(name, pa.uint32()) for name in schema.PLACE])


def write_program(path: Path | str, trace: schema.ProgramTrace) -> None:
    """Write ``trace`` to ``path``.

    Errors: ``TraceError`` for a row that cannot be, ``OutputError`` if the file cannot be written.
    """
    check_program(trace, str(path))
    with contextlib.ExitStack() as opening:
        file = SignedParquet(Path(path), opening)
        for begin in range(0, trace.rows, ROW_GROUP_ROWS):
            file.write(_table(trace, slice(begin, min(begin + ROW_GROUP_ROWS, trace.rows))))
        file.finish(trace.metadata.to_json())


def _table(trace: schema.ProgramTrace, part: slice) -> Any:
    rows = np.arange(part.start, part.stop)
    process = np.searchsorted(trace.first, rows, "right") - 1
    columns: dict[str, Any] = {"process": pa.array(process.astype(np.uint32))}
    for name in schema.PROGRAM_COLUMNS:
        if name == "operation":
            codes = pa.array(trace.operation[part].astype(np.int32))
            columns[name] = pa.DictionaryArray.from_arrays(codes, pa.array(schema.OPERATION_NAMES))
        elif name != "process":
            columns[name] = pa.array(getattr(trace, name)[part])
    for name in schema.LIST_COLUMNS:
        columns[name] = _lists(getattr(trace, name), part)
    for name in schema.OTHERS_COLUMNS:
        columns[name] = _others(getattr(trace, name), trace.first, part)
    return pa.table(columns)


def _lists(waits: schema.Waits | None, part: slice) -> Any:
    if waits is None:
        return pa.nulls(part.stop - part.start, _LISTS)
    first = waits.first[part.start : part.stop + 1]
    offsets = pa.array((first - first[0]).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, pa.array(waits.places[first[0] : first[-1]]), _LISTS)


def _others(others: schema.Others | None, of: NDArray[np.int64], part: slice) -> Any:
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
PROGRAM_FORMATS = {PROGRAM: (schema.ENDING,), GOAL: (".goal",)}
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
        return schema.is_program(pq.read_schema(path))
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
) -> schema.ProgramTrace:
    """The program trace in a source of that kind; errors: as its reader's."""
    return read_goal(source, choices, watch) if kind == GOAL else program_of(source, watch)


def write_as(
    path: Path, kind: str, trace: schema.ProgramTrace, watch: Watch | None = None
) -> list[str]:
    """Write ``trace`` in that format; what it has no place for.  Errors: as its writer's."""
    if kind == GOAL:
        return write_goal(path, trace, watch)
    write_program(path, trace)
    return []
