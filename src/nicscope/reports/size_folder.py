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
_COSTS = ("us", "us_per_lookup", "us_per_request")  # null: unknown


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
            ("page_size_bytes", pa.int64()),
            ("requests", pa.int64()),
            ("requested_bytes", pa.int64()),
            ("lookups", pa.int64()),
            ("ni_misses", pa.int64()),
            ("rejected", pa.int64()),
            *((f"{cost}_{end}", pa.float64()) for cost in _COSTS for end in ("low", "high")),
            ("lower_bound", pa.bool_()),
            ("unpriced", pa.string()),  # null: nothing is
            ("ranked_by", pa.string()),
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
                "ranked_by": "cost" if answer.by_cost else "misses",
                "requested_bytes": sizing.extent.requested_bytes,
                **_step(step),
            }


def _step(step: Point) -> dict[str, Any]:
    settings = step.priced.result.design.to_json()
    cost = step.priced.cost
    row = {
        "nic_memory_bytes": step.nic_bytes,
        "pinned_bytes_of_fullest_host": step.pinned_bytes,
        "page_size_bytes": settings["page_size"],
        "requests": cost.requests,
        "lookups": cost.lookups,
        "ni_misses": step.misses,
        "rejected": step.rejected,
        "lower_bound": cost.is_lower_bound,
        "unpriced": cost.reason or None,
        **{name: settings.get(name) for name in (*_SETTINGS, "replacement")},
    }
    for name, parts in zip(_COSTS, (1, cost.lookups, cost.requests), strict=True):
        bounds = cost.per_us(parts)
        row[f"{name}_low"] = None if bounds is None else float(bounds[0])
        high = None if bounds is None or cost.is_lower_bound else float(bounds[1])
        row[f"{name}_high"] = high
    return row


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
