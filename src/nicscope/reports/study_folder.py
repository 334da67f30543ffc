"""Studies as files: a Parquet table for each, and its figures if it is a figure in its paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.outputs import whole_file

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from nicscope.studies.reproduce.traced.running import StudyTable


def write_studies(
    tables: Sequence[StudyTable], folder: Path, tell: Callable[[str], None] = lambda _: None
) -> list[Path]:
    """The files written to ``folder``; ``tell`` hears of each study before it is written.

    Errors: ``OutputError`` for the first file that cannot be written.
    """
    written = []
    for table in tables:
        tell(f"{table.paper}/{table.id}")
        path = folder / f"{table.paper}_{table.id}.parquet"
        _write_rows(table, path)
        written += [path, *_write_figures(table, folder)]
    return written


def _write_rows(table: StudyTable, path: Path) -> None:
    """One row per application and place, as in ``rows`` of the JSON."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    axes = [(axis.key, pa.int64()) for axis in table.layout.axes]
    measures = [(name, pa.float64()) for name in table.layout.measures]
    schema = pa.schema([("application", pa.string()), *axes, *measures])
    with whole_file(path) as part:
        pq.write_table(pa.Table.from_pylist(table.rows, schema=schema), part)


def _write_figures(table: StudyTable, folder: Path) -> list[Path]:
    from nicscope.reports.figures.studies import draw_study
    from nicscope.reports.figures.style import save

    written = []
    for name, figure in draw_study(table):
        for ending in ("png", "svg"):
            path = folder / f"{table.paper}_{table.id}{name}.{ending}"
            with whole_file(path) as part:
                save(figure, part, ending)
            written.append(path)
    return written
