"""Latencies as files: results.json, latency.parquet and a figure, each whole or not there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from nicscope.outputs import whole_file

if TYPE_CHECKING:
    from pathlib import Path

    from nicscope.studies.latency.report import LatencyReport


def write_latencies(report: LatencyReport, folder: Path) -> list[Path]:
    """The files written to ``folder``; errors: ``OutputError`` for the first that cannot be."""
    results = folder / "results.json"
    with whole_file(results) as part:
        text = json.dumps(report.to_json(), indent=2, ensure_ascii=False) + "\n"
        part.write_text(text, encoding="utf-8")
    table = folder / "latency.parquet"
    _write_table(report, table)
    return [results, table, *_write_figure(report, folder)]


def _write_table(report: LatencyReport, path: Path) -> None:
    """One row per mechanism, size and part; of all messages together."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [
        (one.mechanism, one.byte_count, one.messages, one.total_ps, name, ps)
        for one in report.latencies
        for name, ps in one.parts_ps.items()
    ]
    names = ("mechanism", "bytes", "messages", "total_ps", "part", "part_ps")
    kinds = (pa.string(), pa.int64(), pa.int32(), pa.int64(), pa.string(), pa.int64())
    columns = zip(*rows, strict=True)
    table = pa.table(
        {
            name: pa.array(column, kind)
            for name, kind, column in zip(names, kinds, columns, strict=True)
        }
    )
    with whole_file(path) as part:
        pq.write_table(table, part)


def _write_figure(report: LatencyReport, folder: Path) -> list[Path]:
    from nicscope.reports.figures.latency import draw_latency
    from nicscope.reports.figures.style import save

    figure = draw_latency(report)
    written = []
    for ending in ("png", "svg"):
        path = folder / f"latency.{ending}"
        with whole_file(path) as part:
            save(figure, part, ending)
        written.append(path)
    return written
