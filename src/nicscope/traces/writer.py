"""Writing a trace: columns in, a whole file out or none."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from nicscope.errors import TraceError
from nicscope.traces.columns import TYPES, Checker, array_of, as_schema, op_array, op_column
from nicscope.traces.reader import ROW_GROUP_ROWS, SignedParquet, requests_of
from nicscope.traces.schema import REQUIRED_COLUMNS, Requests, TraceMetadata

if TYPE_CHECKING:
    from types import TracebackType

    from nicscope.outputs import OutputFolder


class AtomicWriter(ABC):
    """Appends requests to a file that appears, complete, when the ``with`` block succeeds."""

    def __init__(self, path: Path, metadata: TraceMetadata) -> None:
        self.path = path
        self.metadata = metadata
        self.rows = 0  # appended so far
        self.lost: list[str] = []  # what was there and has no place here
        self._cleanup = contextlib.ExitStack()

    @abstractmethod
    def append(self, requests: Requests, batch: Any) -> None:
        """Append requests that are checked already, with the Arrow batch that they came from."""

    @abstractmethod
    def _open(self, opening: contextlib.ExitStack) -> None:
        """Open the output; ``opening`` closes it."""

    @abstractmethod
    def _finish(self) -> None:
        """Write the trailer, if the format has one."""

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as opening:
            self._open(opening)
            self._cleanup = opening.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        if error is not None:
            return self._cleanup.__exit__(kind, error, traceback)
        with self._cleanup:
            if not self.rows:
                raise TraceError(f"{self.path}: not written, as there is no request to write")
            self._finish()
        return None


class TraceWriter(AtomicWriter):
    """Appends requests to a Parquet file; ``metadata`` may change until the end of the block."""

    def __init__(
        self,
        path: Path | str,
        metadata: TraceMetadata | None = None,
        *,
        folder: OutputFolder | None = None,
        group_rows: int = ROW_GROUP_ROWS,
    ) -> None:
        """Write the file ``path``, or the one of that name in the set of ``folder``.

        Rows are in memory until there are ``group_rows``.
        """
        super().__init__(Path(path), metadata or TraceMetadata())
        self._folder = folder
        self._group_rows = group_rows
        self._checker = Checker(str(path))
        self._pending: list[Any] = []
        self._pending_rows = 0
        self._schema: Any = None
        self._file: Any = None

    def _open(self, opening: contextlib.ExitStack) -> None:
        self._file = SignedParquet(self.path, opening, self._folder)

    def write(self, columns: Mapping[str, Any] | Any) -> None:
        """Append requests: columns of equal length (NumPy, Arrow, lists), or a table.

        ``op`` holds names or codes of ``Op``; ``peer`` and ``buffer`` may be left out (null);
        further columns are kept, and must be the same in every call.
        Errors: ``TraceError`` for a request that the schema does not allow, ``OutputError`` from
        the ``with`` block if the file cannot be written.
        """
        batch = batch_of(columns, self._checker, self._schema)
        requests = requests_of(batch, self._checker)
        self._checker.check(requests)
        self.append(requests, batch)

    def append(self, requests: Requests, batch: Any) -> None:
        """Append requests that are checked already, with the Arrow batch that they came from."""
        # One dictionary for the whole file, whatever names each batch happened to hold.
        op = op_column(requests.op, batch.schema.names)
        batch = batch.set_column(batch.schema.get_field_index("op"), "op", op)
        if self._schema is None:
            self._schema = batch.schema.remove_metadata()
        if not batch.num_rows:
            return
        self._pending.append(batch.replace_schema_metadata(None))
        self._pending_rows += batch.num_rows
        self.rows += batch.num_rows
        if self._pending_rows >= self._group_rows:
            self._flush()

    def _flush(self) -> None:
        table = pa.Table.from_batches(self._pending, self._schema)
        self._pending, self._pending_rows = [], 0
        self._file.write(table)

    def _finish(self) -> None:
        if self._pending:
            self._flush()
        self._file.finish(self.metadata.to_json())


def write_trace(
    path: Path | str, columns: Mapping[str, Any] | Any, metadata: TraceMetadata | None = None
) -> None:
    """Write all ``columns`` as one trace file; see ``TraceWriter`` for them and for errors."""
    with TraceWriter(path, metadata) as writer:
        writer.write(columns)


def batch_of(columns: Any, checker: Checker, schema: Any = None) -> Any:
    """``columns`` as an Arrow record batch: the trace's own first, then further ones.

    The trace's own have the schema's types.  ``schema`` is that of the batch before, which this
    one has to follow.  Errors: ``TraceError`` through ``checker`` for a value that does not fit.
    """
    if not isinstance(columns, Mapping):  # a table of Arrow, pandas or Polars
        table = pa.table(columns)
        columns = dict(zip(table.schema.names, table.columns, strict=True))
    missing = [name for name in REQUIRED_COLUMNS if name not in columns]
    if missing:
        raise ValueError(f"column {missing[0]!r} is missing")
    arrays = {"op": op_array(columns["op"])}
    for name, kind in TYPES.items():
        if name in columns and name != "op":
            arrays[name] = array_of(columns[name], name, checker, columns)
        elif name not in columns:
            arrays[name] = pa.nulls(len(arrays["op"]), kind)
    for name, column in columns.items():
        if name not in arrays:
            known = schema is not None and name in schema.names
            arrays[name] = _array(column, schema.field(name).type if known else None)
    names = [*TYPES, *(name for name in arrays if name not in TYPES)]
    batch = pa.RecordBatch.from_pydict({name: arrays[name] for name in names})
    if schema is not None and set(names) != set(schema.names):
        raise ValueError(f"columns {sorted(names)} follow columns {sorted(schema.names)}")
    return as_schema(batch.select(names if schema is None else schema.names), TYPES, checker)


def _array(column: Any, kind: Any) -> Any:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if isinstance(column, pa.Array):
        return column if kind is None else column.cast(kind)
    return pa.array(column, kind)
