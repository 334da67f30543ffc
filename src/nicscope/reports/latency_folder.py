"""Latencies as a set of files: results.json, latency.parquet and a figure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.reports.folder import write_figure, write_json, write_parquet

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from nicscope.outputs import OutputFolder
    from nicscope.studies.latency.report import LatencyReport


def write_latencies(report: LatencyReport, folder: OutputFolder) -> list[Path]:
    """The files of ``folder``; errors: ``OutputError`` for the first that cannot be written."""
    from nicscope.reports.figures.latency import draw_latency

    results = write_json(folder, "results.json", report.to_json())
    table = write_parquet(folder, "latency.parquet", _table(report))
    return [results, table, *write_figure(folder, "latency", draw_latency(report))]


def _table(report: LatencyReport) -> Any:
    """One row per mechanism, size and part; of all messages together."""
    import pyarrow as pa

    rows = [
        (one.mechanism, one.byte_count, one.messages, one.total_ps, name, ps)
        for one in report.latencies
        for name, ps in one.parts_ps.items()
    ]
    names = ("mechanism", "bytes", "messages", "total_ps", "part", "part_ps")
    kinds = (pa.string(), pa.int64(), pa.int32(), pa.int64(), pa.string(), pa.int64())
    columns = zip(*rows, strict=True)
    return pa.table(
        {
            name: pa.array(column, kind)
            for name, kind, column in zip(names, kinds, columns, strict=True)
        }
    )
