"""Rates of one NIC by queue pairs, or by outstanding operations where these vary more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.reports.connections import AXES
from nicscope.reports.figures.shares import (
    doubling,
    draw_lines,
    dressed,
    line_legend,
    parted,
    titled,
)
from nicscope.reports.figures.style import sheet, styled
from nicscope.reports.wording import whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from nicscope.studies.connections import ConnectionReport, Found


def draw_connections(report: ConnectionReport) -> Figure:
    """A line for each way to post that differs in something else, up to six, between its ends."""
    axis, lines = parted(
        report.found,
        lambda one: one.asked._asdict(),
        [*AXES],
        lambda one: f"{one.asked.operation}s",
    )

    def at(one: Found) -> int:
        return int(getattr(one.asked, axis))

    with styled():
        title = f"Operations of {report.nic.name} by {AXES[axis]}"
        figure, [axes] = sheet(titled(title, lines))
        draw_lines(axes, lines, at, lambda one: (one.low.millions, one.high.millions))
        doubling(axes, [at(one) for one in report.found], whole)
        axes.set_ylim(bottom=0)
        dressed(axes, "million operations a second", AXES[axis])
        line_legend(figure, axes)
    return figure
