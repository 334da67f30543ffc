"""Bandwidth and latency of verbs by size, a line for each design."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from nicscope.reports.figures.style import INK, legend, plain, sheet, styled
from nicscope.reports.palette import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION
from nicscope.reports.wording import byte_size

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from matplotlib.figure import Figure

    from nicscope.studies.verbs_measures.measuring import AllLatencies, Bandwidths

LOOKS = ((BLUE, "o"), (VERMILION, "s"), (GREEN, "^"), (ORANGE, "D"), (PURPLE, "v"), (SKY, "P"))
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
    with styled():
        figure, [axes] = sheet(title)
        several = groupby(rows, key=lambda one: one.design)
        for (design, line), (colour, marker) in zip(several, LOOKS, strict=False):
            points = sorted((one.payload_bytes, value(one)) for one in line)
            sizes, values = zip(*points, strict=True)
            axes.plot(sizes, values, color=colour, marker=marker, label=design)
        axes.set_xscale("log", base=2)
        ticks = sorted({one.payload_bytes for one in rows})
        axes.set_xticks(ticks, [byte_size(tick) for tick in ticks], rotation=45)
        axes.minorticks_off()
        axes.set_ylim(bottom=0)
        axes.set_xlabel("bytes of a message", color=INK)
        axes.set_title(unit, loc="left", fontsize=15, color=INK)
        plain(axes, "y", labelsize=12)
        legend(figure, axes, columns=3)
    return figure
