"""Packets in virtual time as files: JSON, tables, figures, a page, a timeline."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from nicscope.errors import OutputError
from nicscope.outputs import whole_file
from nicscope.reports.flow_page import MISSING, has_plotly, write_page
from nicscope.studies.flow.parts import Part
from nicscope.studies.flow.timeline import timeline
from nicscope.studies.flow.transfers import BANDS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from nicscope.studies.flow.report import FlowReport


def existing_parent(out: Path | None) -> None:
    """Refuse to make more than one folder: ``OutputError`` if that for ``out`` is not there."""
    if out is not None and not out.absolute().parent.is_dir():
        raise OutputError(f"{out}: there is no folder {out.parent}; make it first")


def write_flow(report: FlowReport, folder: Path) -> tuple[list[Path], str | None]:
    """The files written to ``folder``, and what to do for one that could not be, or None.

    Errors: ``OutputError`` for the first that the disk does not take.
    """
    page = has_plotly()
    writers: dict[str, Callable[[FlowReport, Path], None]] = {
        "results.json": _write_results,
        "messages.parquet": _write_messages,
        "transfers.parquet": _write_transfers,
        "timeline.json": _write_timeline,
    }
    if page:
        writers["flow.html"] = write_page
    written = []
    for name, write in writers.items():
        with whole_file(folder / name) as part:
            write(report, part)
        written.append(folder / name)
    return [*written, *_write_figures(report, folder)], None if page else MISSING


def _write_results(report: FlowReport, path: Path) -> None:
    text = json.dumps(report.to_json(), indent=2, ensure_ascii=False) + "\n"
    path.write_text(text, encoding="utf-8")


def _write_timeline(report: FlowReport, path: Path) -> None:
    path.write_text(json.dumps(timeline(report)) + "\n", encoding="utf-8")


def _write_messages(report: FlowReport, path: Path) -> None:
    """A row per message that was taken apart: its times, then the parts, all in ps."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = ("sender", "destination", "packet", "payload", "posted", "read")
    columns = {_unit(name): pa.array(report.detailed[name]) for name in names}
    for part in Part:
        columns[f"{part.name.lower()}_ps"] = pa.array(report.parts[:, part])
    pq.write_table(pa.table(columns), path)


def _write_transfers(report: FlowReport, path: Path) -> None:
    """A row per transfer of the four bands, by start."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    transfers = report.transfers
    names = ("node", "sender", "packet", "control", "start", "moving", "end", "busy", "bytes")
    bands = pa.array([BANDS[band] for band in transfers["band"]], pa.string())
    columns: dict[str, Any] = {"band": bands}
    columns |= {_unit(name): pa.array(transfers[name]) for name in names}
    pq.write_table(pa.table(columns), path)


def _unit(name: str) -> str:
    """``name`` with the unit of what it measures."""
    if name in ("posted", "read", "start", "moving", "end", "busy"):
        return f"{name}_ps"
    return "payload_bytes" if name == "payload" else name


def _write_figures(report: FlowReport, folder: Path) -> list[Path]:
    from nicscope.reports.figures.bandwidth import draw_bandwidth
    from nicscope.reports.figures.flow import draw_flow
    from nicscope.reports.figures.style import save

    written = []
    for name, draw in (("flow", draw_flow), ("bandwidth", draw_bandwidth)):
        figure = draw(report)
        for ending in ("png", "svg"):
            path = folder / f"{name}.{ending}"
            with whole_file(path) as part:
                save(figure, part, ending)
            written.append(path)
    return written
