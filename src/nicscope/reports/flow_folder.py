"""Packets in virtual time as files: JSON, tables, figures, a page, a timeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.errors import OutputError
from nicscope.reports.flow_page import MISSING, has_plotly, page_of
from nicscope.reports.folder import write_figure, write_json, write_parquet, write_text
from nicscope.reports.timeline_file import timeline_text
from nicscope.studies.flow.parts import Part
from nicscope.studies.flow.timeline import timeline
from nicscope.studies.flow.transfers import BANDS

if TYPE_CHECKING:
    from pathlib import Path

    from nicscope.outputs import OutputFolder
    from nicscope.studies.flow.report import FlowReport


def existing_parent(out: Path | None) -> None:
    """Refuse to make more than one folder: ``OutputError`` if that for ``out`` is not there."""
    if out is not None and not out.absolute().parent.is_dir():
        raise OutputError(f"{out}: there is no folder {out.parent}; make it first")


def write_flow(report: FlowReport, folder: OutputFolder) -> tuple[list[Path], str | None]:
    """The files of ``folder``, and what to do for one that could not be made, or None.

    Errors: ``OutputError`` for the first that cannot be written.
    """
    from nicscope.reports.figures.bandwidth import draw_bandwidth
    from nicscope.reports.figures.flow import draw_flow

    written = [
        write_json(folder, "results.json", report.to_json()),
        write_parquet(folder, "messages.parquet", _messages(report)),
        write_parquet(folder, "transfers.parquet", _transfers(report)),
        write_text(folder, "timeline.json", timeline_text(timeline(report))),
    ]
    if has_plotly():
        written.append(write_text(folder, "flow.html", page_of(report)))
    for name, draw in (("flow", draw_flow), ("bandwidth", draw_bandwidth)):
        written += write_figure(folder, name, draw(report))
    return written, None if has_plotly() else MISSING


def _messages(report: FlowReport) -> Any:
    """A row per message that was taken apart: its times, then the parts, all in ps."""
    import pyarrow as pa

    names = ("sender", "destination", "packet", "payload", "posted", "read")
    columns = {_unit(name): pa.array(report.detailed[name]) for name in names}
    for part in Part:
        columns[f"{part.name.lower()}_ps"] = pa.array(report.parts[:, part])
    return pa.table(columns)


def _transfers(report: FlowReport) -> Any:
    """A row per transfer of the four bands, by start."""
    import pyarrow as pa

    transfers = report.transfers
    names = ("node", "sender", "packet", "control", "start", "moving", "end", "busy", "bytes")
    bands = pa.array([BANDS[band] for band in transfers["band"]], pa.string())
    columns: dict[str, Any] = {"band": bands}
    columns |= {_unit(name): pa.array(transfers[name]) for name in names}
    return pa.table(columns)


def _unit(name: str) -> str:
    """``name`` with the unit of what it measures."""
    if name in ("posted", "read", "start", "moving", "end", "busy"):
        return f"{name}_ps"
    return "payload_bytes" if name == "payload" else name
