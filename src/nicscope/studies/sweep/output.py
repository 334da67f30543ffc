"""Where a sweep's table goes: a Parquet file as it is, anything else by way of one.

Parquet alone says which sweep wrote it and can be read back row by row, so a table in another
format, and one that a stream gets, is made in a file without a name first.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from nicscope.outputs import check_output, scratch_file, whole_file
from nicscope.outputs.csv_table import CsvTable
from nicscope.outputs.file import CSV, PARQUET, TABLES, format_to_write, named_compression

if TYPE_CHECKING:
    import io
    from collections.abc import Callable, Iterator
    from pathlib import Path


class TableOutput:
    """The table's place, and the Parquet file that it can be read from once it is written."""

    def __init__(self, path: Path, is_stream: bool, scratch: io.BufferedRandom | None) -> None:
        self.path = path
        self.is_stream = is_stream
        self.says_whose = scratch is None  # which sweep wrote it
        self.readable: Path | io.BufferedRandom = scratch or path
        self._scratch = scratch

    def is_there(self) -> bool:
        """Whether a file would be replaced."""
        return not self.is_stream and self.path.exists()

    def write(self, fill: Callable[[Any], None]) -> None:
        """Write what ``fill`` gives a binary file as Parquet; errors: ``OutputError``."""
        if self._scratch is None:
            with whole_file(self.path) as file:
                fill(file)
            return
        self._scratch.seek(0)
        self._scratch.truncate()
        fill(self._scratch)
        self._scratch.flush()
        with whole_file(self.path) as file:
            if format_of(self.path) == CSV:
                _as_csv(self._scratch, file, named_compression(self.path))
            else:
                self._scratch.seek(0)
                while piece := self._scratch.read(1 << 20):
                    file.write(piece)


def format_of(path: Path) -> str:
    """The format of a table at ``path``; a stream whose name does not say gets CSV.

    Errors: ``OutputError`` if the name of a file does not say.
    """
    return format_to_write(path, TABLES, of_stream=CSV)


@contextlib.contextmanager
def table_output(path: Path) -> Iterator[TableOutput]:
    """Yield the place of a table at ``path``; errors: ``OutputError`` if none could be written."""
    target = check_output(path)
    if format_of(path) == PARQUET and not target.is_stream:
        yield TableOutput(path, target.is_stream, None)
        return
    with scratch_file(path) as scratch:
        yield TableOutput(path, target.is_stream, scratch)


def _as_csv(parquet: Any, file: Any, compression: str | None) -> None:
    import pyarrow.parquet as pq

    groups = pq.ParquetFile(parquet)
    table = CsvTable(file, compression)
    try:
        for number in range(groups.num_row_groups):
            table.write(groups.read_row_group(number))
        table.finish()
    except BaseException:
        table.abandon()
        raise
