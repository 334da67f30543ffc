"""CSV with the schema's column names in a header line; metadata is lost."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from nicscope.errors import TraceError
from nicscope.outputs import whole_file
from nicscope.outputs.csv_table import CsvTable
from nicscope.outputs.endings import named_compression

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from nicscope.traces.schema import Requests, TraceMetadata


class CsvWriter:
    """Appends requests to a CSV file, compressed if its name ends in ``.zst`` or ``.gz``."""

    def __init__(self, path: Path, metadata: TraceMetadata) -> None:  # noqa: ARG002 - no place
        self.path = path
        self.rows = 0
        self._cleanup = contextlib.ExitStack()
        self._table: CsvTable

    def __enter__(self) -> CsvWriter:
        with contextlib.ExitStack() as opening:
            sink = opening.enter_context(whole_file(self.path))
            self._table = CsvTable(sink, named_compression(self.path))
            self._cleanup = opening.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        if error is not None:
            self._table.abandon()
            return self._cleanup.__exit__(kind, error, traceback)
        with self._cleanup:
            if not self.rows:
                raise TraceError(f"{self.path}: not written, as there is no request to write")
            self._table.finish()
        return None

    def append(self, requests: Requests, batch: Any) -> None:
        """Append a batch of checked requests with all its columns."""
        columns = {
            name: column.cast(column.type.value_type)
            if pa.types.is_dictionary(column.type)
            else column
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        }
        try:
            self._table.write(pa.RecordBatch.from_pydict(columns))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise TraceError(f"{self.path}: a column has no form in CSV: {error}") from error
        self.rows += requests.length.size
