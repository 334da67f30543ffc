"""A table as CSV, compressed or not, batch by batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nicscope.outputs.target import Sink


class CsvTable:
    """Writes tables of one schema as CSV with a header, one batch in memory at a time."""

    def __init__(self, sink: Sink, compression: str | None) -> None:
        import pyarrow as pa

        self._sink = sink
        self._stream: Any = pa.output_stream(sink, compression=compression)
        self._file: Any = None

    def write(self, table: Any) -> None:
        """Append an Arrow table or record batch, without dictionary columns.

        Errors: Arrow's, if a column has no form in CSV.
        """
        from pyarrow import csv

        if self._file is None:
            options = csv.WriteOptions(quoting_style="needed")
            self._file = csv.CSVWriter(self._stream, table.schema, write_options=options)
        self._file.write(table)

    def finish(self) -> None:
        """Flush the remaining lines."""
        self._file.close()
        self._stream.close()

    def abandon(self) -> None:
        """Discard the stream: no further byte is written."""
        self._sink.raw.give_up()
        self._stream.close()
