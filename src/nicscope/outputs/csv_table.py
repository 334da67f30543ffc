"""A table as CSV, compressed or not, batch by batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nicscope.outputs.target import Sink


class CsvTable:
    """Writes tables of one schema as lines below a header line; memory holds one of them."""

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
        """Write what is left."""
        self._file.close()
        self._stream.close()

    def abandon(self) -> None:
        """Let go of the stream without a further byte in the result."""
        self._sink.raw.give_up()
        self._stream.close()
