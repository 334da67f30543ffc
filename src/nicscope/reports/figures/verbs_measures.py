"""Bandwidth and latency of verbs by size, a line for each design."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.reports.figures.shares import TICKS, doubling, draw_lines, dressed, titled
from nicscope.reports.figures.style import legend, sheet, styled
from nicscope.reports.wording import byte_size

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.figure import Figure

    from nicscope.studies.verbs_measures import AllLatencies, Bandwidths

NS_PER_US = 1000


def draw_bandwidths(found: Bandwidths) -> Figure:
    """The average, by size."""
    title = f"RC {found.operation}, {found.depth:,} outstanding"
    return _drawn(title, "MiB/s", found.rows, lambda one: one.average_mib_s)


def draw_latencies(found: AllLatencies) -> Figure:
    """The typical one, by size."""
    title = f"RC {found.operation}, one at a time"
    return _drawn(title, "us, typical", found.rows, lambda one: one.typical / NS_PER_US)


def _drawn(title: str, unit: str, rows: Sequence[Any], value: Callable[[Any], float]) -> Figure:
    lines: dict[str, list[Any]] = {}
    for one in rows:
        lines.setdefault(one.design, []).append(one)
    with styled():
        figure, [axes] = sheet(titled(title, lines))
        draw_lines(axes, lines, lambda one: one.payload_bytes, lambda one: (value(one),) * 2)
        doubling(axes, [one.payload_bytes for one in rows], byte_size, 2 * TICKS, rotation=45)
        axes.set_ylim(bottom=0)
        dressed(axes, unit, "bytes of a message")
        legend(figure, axes, columns=3)
    return figure
