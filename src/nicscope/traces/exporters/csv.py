"""CSV with the schema's column names in a header line, then a line per request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from nicscope.errors import TraceError
from nicscope.outputs import whole_file
from nicscope.outputs.csv_table import CsvTable
from nicscope.outputs.file import named_compression
from nicscope.traces.atomic_writer import AtomicWriter
from nicscope.traces.columns import FURTHER, TYPES, holds, is_text
from nicscope.traces.importers.tables import names_in

if TYPE_CHECKING:
    import contextlib

    from nicscope.traces.schema import Requests


_WRITTEN = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_boolean,
    pa.types.is_decimal,
    pa.types.is_temporal,
    pa.types.is_null,
)


class CsvWriter(AtomicWriter):
    """Appends requests to a CSV file, compressed if its name ends in ``.zst`` or ``.gz``."""

    _table: CsvTable

    def _open(self, opening: contextlib.ExitStack) -> None:
        sink = opening.enter_context(whole_file(self.path))
        self._table = CsvTable(sink, named_compression(self.path))
        opening.push(self._abandon)

    def _finish(self) -> None:
        self._table.finish()
        self.lost += self.metadata.without_defaults()

    def _abandon(self, kind: type[BaseException] | None, *_: object) -> None:
        """Discard the file: no further byte is written."""
        if kind is not None:
            self._table.abandon()

    def append(self, requests: Requests, batch: Any) -> None:
        """Append a batch of checked requests with all its columns.

        Errors: ``TraceError`` for a column that has no form in a line of text.
        """
        columns = {
            name: self._plain(name, column)
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        }
        if not self.rows:
            self._check_names(batch.schema.names)
            self.lost += _types_lost(batch.schema)
        try:
            self._table.write(pa.RecordBatch.from_pydict(columns))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise TraceError(f"{self.path}: a column has no form in CSV: {error}") from error
        self.rows += requests.length.size

    def _plain(self, name: str, column: Any) -> Any:
        """``column`` as the CSV library writes it, each text on one line."""
        kind = column.type
        if pa.types.is_dictionary(kind):
            column, kind = column.cast(kind.value_type), kind.value_type
        if pa.types.is_string_view(kind):
            column, kind = column.cast(pa.large_string()), pa.large_string()
        if not (is_text(kind) or any(of_kind(kind) for of_kind in _WRITTEN)):
            raise TraceError(f"{self.path}: column {name!r} is {kind}, which has no form in CSV")
        row = holds(column, "[\r\n]") if is_text(kind) else None
        if row is not None:
            raise TraceError(
                f"{self.path}: row {self.rows + row} (the first is 0): {name} has a line end, "
                "which has no place in a line of CSV"
            )
        return column

    def _check_names(self, names: list[str]) -> None:
        """Errors: ``TraceError`` for a column whose name would be read as another."""
        for name in names:
            quoted = name.replace('"', '""')
            if names_in(f'"{quoted}"'.encode()) != [name] or not {"\r", "\n"}.isdisjoint(name):
                raise TraceError(f"{self.path}: column {name!r} has a name without a form in CSV")


def _types_lost(schema: Any) -> list[str]:
    """The types of further columns that are text when they are read back, in a line if any."""
    lost = [
        f"{field.name} ({field.type})"
        for field in schema
        if field.name not in TYPES and field.type != FURTHER.get(field.name, pa.string())
    ]
    return [f"types, which are text when read back: {', '.join(lost)}"] if lost else []
