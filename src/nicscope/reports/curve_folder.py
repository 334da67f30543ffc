"""Miss-ratio curves as files: results.json, curves.parquet and the figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.reports.folder import write_figure, write_json

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from nicscope.outputs import OutputFolder
    from nicscope.studies.curve_result import CurveReport, MissCurve


def write_curves(report: CurveReport, folder: OutputFolder) -> list[Path]:
    """The files of ``folder``; errors: ``OutputError`` for the first that cannot be written."""
    results = write_json(folder, "results.json", report.to_json())
    return [results, _write_table(report, folder), *_write_figures(report, folder)]


def _write_table(report: CurveReport, folder: OutputFolder) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema(
        [
            ("trace", pa.string()),
            ("node", pa.int32()),
            ("pid", pa.int32()),
            ("page_size", pa.int64()),
            ("line", pa.int32()),
            ("ways", pa.int32()),  # null: fully associative
            ("entries", pa.int64()),
            ("lookups", pa.int64()),
            ("misses", pa.float64()),
            ("low", pa.float64()),
            ("high", pa.float64()),
            ("compulsory", pa.int64()),
            ("capacity", pa.int64()),  # null: estimated
            ("conflict", pa.int64()),
            ("miss_ratio", pa.float64()),
        ]
    )
    with folder.file("curves.parquet") as file, pq.ParquetWriter(file, schema) as writer:
        for curve in report.curves:
            for columns in (_full_columns(curve), *_set_columns(curve)):
                writer.write_table(_table(curve, columns, schema))
    return folder.path / "curves.parquet"


def _table(curve: MissCurve, columns: dict[str, Any], schema: Any) -> Any:
    """``columns`` with what all rows of ``curve`` have in common."""
    import pyarrow as pa

    rows = len(columns["entries"])
    shared = {
        "trace": curve.trace,
        "node": curve.node,
        "pid": curve.pid,
        "page_size": curve.page_size,
        "line": curve.line,
        "lookups": curve.lookups,
        "compulsory": curve.footprint,
    }
    ratio = {"miss_ratio": columns["misses"] / max(curve.lookups, 1)}
    every = {name: [value] * rows for name, value in shared.items()} | columns | ratio
    arrays = [
        pa.nulls(rows, field.type)
        if every[field.name] is None
        else pa.array(every[field.name], field.type)
        for field in schema
    ]
    return pa.table(arrays, schema=schema)


def _full_columns(curve: MissCurve) -> dict[str, Any]:
    """Fully associative: every size at which misses change, and the powers of two."""
    if curve.every_size is None:
        sizes = curve.sizes._asdict()
        return sizes | {"ways": None, "capacity": None, "conflict": None}
    misses = curve.every_size
    changes = np.flatnonzero(np.diff(misses)) + 1
    lines = np.union1d(changes, np.array(curve.powers(), np.int64) // curve.line)
    found = misses[np.minimum(lines, len(misses) - 1)]
    return {
        "entries": lines * curve.line,
        "ways": None,
        "misses": found,
        "low": found,
        "high": found,
        "capacity": found - curve.footprint,
        "conflict": np.zeros(len(found), np.int64),
    }


def _set_columns(curve: MissCurve) -> Iterator[dict[str, Any]]:
    """Set-associative: a row per shape, if there are any."""
    if curve.points:
        entries, ways, misses, _, capacity, conflict = np.array(curve.points).T
        yield {
            "entries": entries,
            "ways": ways,
            "misses": misses,
            "low": misses,
            "high": misses,
            "capacity": capacity,
            "conflict": conflict,
        }


def _write_figures(report: CurveReport, folder: OutputFolder) -> list[Path]:
    from nicscope.reports.figures.curves import draw_curves
    from nicscope.reports.figures.heat import draw_heat, has_lines
    from nicscope.reports.figures.kinds import draw_kinds, has_kinds

    figures = {"curves": draw_curves(report)}
    if has_kinds(report):
        figures["kinds"] = draw_kinds(report)
    if has_lines(report):
        figures["heat"] = draw_heat(report)
    return [file for name, figure in figures.items() for file in write_figure(folder, name, figure)]
