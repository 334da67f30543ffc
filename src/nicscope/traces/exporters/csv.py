"""CSV with the schema's column names in a header line; metadata is lost."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv

from nicscope.errors import TraceError
from nicscope.outputs import whole_file
from nicscope.traces.files import SUFFIXES

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
        self._stream: Any = None
        self._file: Any = None

    def __enter__(self) -> CsvWriter:
        part = self._cleanup.enter_context(whole_file(self.path))
        compression = SUFFIXES.get(self.path.suffix.lower())
        try:
            self._stream = pa.output_stream(str(part), compression=compression)
        except BaseException:
            self._cleanup.close()
            raise
        self._cleanup.callback(self._abandon)
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
            self._file.close()
            self._stream.close()
        return None

    def append(self, requests: Requests, batch: Any) -> None:
        """Append a batch of checked requests with all its columns."""
        columns = {
            name: column.cast(column.type.value_type)
            if pa.types.is_dictionary(column.type)
            else column
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        }
        plain = pa.RecordBatch.from_pydict(columns)
        try:
            if self._file is None:
                options = pyarrow.csv.WriteOptions(quoting_style="needed")
                self._file = pyarrow.csv.CSVWriter(
                    self._stream, plain.schema, write_options=options
                )
            self._file.write_batch(plain)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise TraceError(f"{self.path}: a column has no form in CSV: {error}") from error
        self.rows += requests.length.size

    def _abandon(self) -> None:
        with contextlib.suppress(OSError, pa.ArrowException):
            self._stream.close()
