"""What requests wait if memory is paged on demand, beside what registering it ahead takes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.ticker import PercentFormatter

from nicscope.reports.figures.shares import (
    NAME_SIZE,
    draw_lines,
    draw_range,
    dressed,
    first_rows,
    line_legend,
    logarithmic,
    say,
    tick_seconds,
    titled,
)
from nicscope.reports.figures.style import INK, legend, row_sheet, sheet, styled
from nicscope.reports.odp import way_name
from nicscope.reports.register import spelt_seconds
from nicscope.reports.wording import BLUE, ORANGE, byte_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from nicscope.studies.paging_on_demand import Demand, DemandReport

LEAST = 1e-7  # seconds; what is less is drawn here
ROOM = 12.0  # times the longest, for words
AHEAD = "registering ahead"


def draw_waits(report: DemandReport) -> Figure:
    """A row for registering ahead, and one for each way of paging on demand."""
    name = Path(report.trace["file"]).stem
    title, shown = first_rows(f"Registered ahead, or paged on demand: {name}", report.demand)
    spans = [report.ahead.seconds, *(one.waits for one in shown)]
    with styled():
        rows = [AHEAD, *(way_name(one) for one in shown)]
        figure, [axes] = row_sheet(title, rows, fontsize=NAME_SIZE)
        axes.set_xscale("log")
        longest = max(LEAST, *(span.high for span in spans))
        shortest = min((end for span in spans for end in span if end), default=LEAST)
        axes.set_xlim(max(LEAST, shortest / 3), longest * ROOM)
        left = axes.get_xlim()[0]
        axes.axvspan(*(max(end, left) for end in spans[0]), color=ORANGE, alpha=0.2, lw=0)
        for row, span in enumerate(spans):
            ends = [max(end, left) for end in span]
            draw_range(axes, row, ends, BLUE if row else ORANGE, "|", _named(row))
            say(axes, row, ends, spelt_seconds(span) if span.high else "nothing")
        logarithmic(axes.xaxis, axes.get_xlim(), tick_seconds)
        axes.set_xlabel("time, from the lowest to the highest costs")
        legend(figure, axes, columns=2)
    return figure


def _named(row: int) -> str:
    """The legend's words, which the first two rows bear for all."""
    return {0: f"{AHEAD}, once", 1: "what requests wait in all"}.get(row, "")


def draw_resident(report: DemandReport) -> Figure:
    """What requests wait over the share of the touched memory that may be resident."""
    touched = report.ahead.pages * report.page
    lines: dict[str, list[Demand]] = {}
    for one in report.demand:
        lines.setdefault(way_name(one, limited=False), []).append(one)
    with styled():
        title = f"Paged on demand within less memory: {Path(report.trace['file']).stem}"
        figure, [axes] = sheet(titled(title, lines))
        draw_lines(
            axes,
            lines,
            lambda one: _share(one, touched),
            lambda one: (max(one.waits.low, LEAST), max(one.waits.high, LEAST)),
        )
        axes.set_yscale("log")
        _mark(axes, report)
        axes.set_xlim(left=0)
        logarithmic(axes.yaxis, axes.get_ylim(), tick_seconds)
        axes.xaxis.set_major_formatter(PercentFormatter(1.0))
        dressed(
            axes,
            "what requests wait in all, from the lowest to the highest costs",
            f"share of {byte_size(touched)} that may be resident",
        )
        line_legend(figure, axes)
    return figure


def has_limits(report: DemandReport) -> bool:
    """Whether there are several limits of what may be resident, to draw over."""
    return len({one.way.resident_bytes for one in report.demand}) > 1


def _share(one: Demand, touched: int) -> float:
    """Of the memory of all nodes that requests touch; all of it where there is no limit."""
    kept = one.way.resident_bytes
    return 1.0 if kept is None else min(1.0, kept / max(touched, 1))


def _mark(axes: Axes, report: DemandReport) -> None:
    low, high = report.ahead.seconds
    axes.axhspan(low, high, color=ORANGE, alpha=0.2, lw=0, label=f"{AHEAD}, once")
    axes.axhline(high, color=INK, lw=0.8, ls=(0, (4, 3)))
