"""Sized designs as files: results.json, sizes.parquet and a figure for each trace."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from nicscope.reports.folder import write_figure, write_json, write_parquet

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nicscope.outputs import OutputFolder
    from nicscope.studies.sizing.merit import Point
    from nicscope.studies.sizing.result import Sizing, SizingReport

# Settings of a step; null where its scheme does not have them.
_SETTINGS = (
    "area_bytes",
    "entries",
    "ways",
    "line",
    "victim_entries",
    "prefetch",
    "prepin",
    "pin_limit",
    "high_water",
)


def write_sizes(report: SizingReport, folder: OutputFolder) -> list[Path]:
    """The files of ``folder``; errors: ``OutputError`` for the first that cannot be written."""
    results = write_json(folder, "results.json", report.to_json())
    table = write_parquet(folder, "sizes.parquet", _table(report))
    return [results, table, *_write_figures(report, folder)]


def _table(report: SizingReport) -> Any:
    """One row for each family and each size of NIC memory from which a better design fits."""
    import pyarrow as pa

    schema = pa.schema(
        [
            ("trace", pa.string()),
            ("family", pa.string()),
            ("design", pa.string()),
            ("platform", pa.string()),
            ("nic_memory_bytes", pa.int64()),
            ("pinned_bytes_of_fullest_host", pa.int64()),
            ("lookups", pa.int64()),
            ("ni_misses", pa.int64()),
            ("rejected", pa.int64()),
            ("us_per_lookup_low", pa.float64()),  # null: unknown
            ("us_per_lookup_high", pa.float64()),
            ("lower_bound", pa.bool_()),
            ("is_best", pa.bool_()),
            ("is_knee", pa.bool_()),
            *((name, pa.int64()) for name in _SETTINGS),
            ("replacement", pa.string()),
        ]
    )
    rows = [row for sizing in report.sizings for row in _rows(sizing)]
    return pa.Table.from_pylist(rows, schema)


def _rows(sizing: Sizing) -> Iterator[dict[str, Any]]:
    for answer in sizing.answers:
        for step in answer.steps:
            yield {
                "trace": sizing.trace,
                "family": answer.scheme.value,
                "design": answer.design,
                "platform": answer.platform,
                "is_best": step is answer.best,
                "is_knee": step is answer.knee,
                **_step(step),
            }


def _step(step: Point) -> dict[str, Any]:
    design = step.priced.result.design.to_json()
    us = step.us
    return {
        "nic_memory_bytes": step.nic_bytes,
        "pinned_bytes_of_fullest_host": step.pinned_bytes,
        "lookups": step.priced.cost.lookups,
        "ni_misses": step.misses,
        "rejected": step.rejected,
        "us_per_lookup_low": None if us is None else us[0],
        "us_per_lookup_high": None if us is None else us[1],
        "lower_bound": step.priced.cost.is_lower_bound,
        **{name: design.get(name) for name in (*_SETTINGS, "replacement")},
    }


def _write_figures(report: SizingReport, folder: OutputFolder) -> list[Path]:
    from nicscope.reports.figures.sizes import draw_sizing

    written = []
    for number, sizing in enumerate(report.sizings, 1):
        name = "size" if len(report.sizings) == 1 else f"size_{number}_{short_name(sizing.trace)}"
        written += write_figure(folder, name, draw_sizing(sizing, report))
    return written


def short_name(trace: str) -> str:
    """A trace's name without folders and ending."""
    return Path(trace.removeprefix("bundled:")).stem
