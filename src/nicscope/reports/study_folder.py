"""Studies as files: a Parquet table for each, and its figures if it is a figure in its paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.reports.folder import write_figure, write_parquet

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import Any

    from nicscope.outputs import OutputFolder
    from nicscope.studies.reproduce.traced.running import StudyTable


def write_studies(
    tables: Sequence[StudyTable], folder: OutputFolder, tell: Callable[[str], None] = lambda _: None
) -> list[Path]:
    """The files added to ``folder``; ``tell`` hears of each study before it is written.

    Errors: ``OutputError`` for the first file that cannot be written.
    """
    from nicscope.reports.figures.studies import draw_study

    written = []
    for table in tables:
        tell(f"{table.paper}/{table.id}")
        called = f"{table.paper}_{table.id}"
        written.append(write_parquet(folder, f"{called}.parquet", _rows(table)))
        for name, figure in draw_study(table):
            written += write_figure(folder, f"{called}{name}", figure)
    return written


def _rows(table: StudyTable) -> Any:
    """One row per application and place, as in ``rows`` of the JSON."""
    import pyarrow as pa

    axes = [(axis.key, pa.int64()) for axis in table.layout.axes]
    measures = [(name, pa.float64()) for name in table.layout.measures]
    schema = pa.schema([("application", pa.string()), *axes, *measures])
    return pa.Table.from_pylist(table.rows, schema=schema)
