"""Latency by message size and mechanism, stacked by what it went into."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from nicscope.reports.figures.style import INK, legend, plain, sheet, styled
from nicscope.reports.palette import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILION, YELLOW
from nicscope.studies.latency.report import Part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from nicscope.studies.latency.report import Latency, LatencyReport

MOST_PANELS = 8
NS_PER_US = 1000
# From the bottom; hatches tell apart what colour does not.
LOOKS: dict[str, tuple[tuple[Part, ...], str, str]] = {
    "user data": ((Part.USER_DATA,), SKY, ""),
    "library": ((Part.LIBRARY,), GREY, ""),
    "transport, send": ((Part.SEND,), BLUE, ""),
    "transport, receive": ((Part.RECEIVE,), GREEN, ""),
    "blocks, coherent": ((Part.COHERENCE, Part.BLOCK_WAIT), YELLOW, ""),
    "DMA set-up, interrupt": ((Part.DMA_INIT, Part.DMA_INTERRUPT), PURPLE, ""),
    "DMA execution": ((Part.DMA_EXEC,), VERMILION, ""),
    "copied by the processor": ((Part.COPY,), ORANGE, ""),
    "translation": ((Part.PIN, Part.TRANSLATION, Part.MISS), INK, ""),
    "waiting": ((Part.WAIT,), "white", "//"),
}


def draw_latency(report: LatencyReport) -> Figure:
    """A panel for each size, at most eight spread over those asked for; a bar per mechanism."""
    sizes = _chosen(list(dict.fromkeys(one.byte_count for one in report.latencies)))
    columns = min(len(sizes), 4)
    rows = math.ceil(len(sizes) / columns)
    title = f"User-to-user latency on {report.platform}, DMA at {report.dma_mbytes_s:,} MB/s"
    with styled():
        figure, panels = sheet(title, rows, columns, sharey=True)
        used = [
            name
            for name, (parts, _, _) in LOOKS.items()
            if any(one.cycles(*parts) for one in report.latencies)
        ]
        for axes, size in zip(panels, sizes, strict=False):
            _draw(axes, [one for one in report.latencies if one.byte_count == size], used)
            axes.set_title(f"{size:,} bytes", loc="left", fontsize=14, color=INK)
        for axes in panels[len(sizes) :]:
            axes.set_visible(False)
        for place, axes in enumerate(panels[: len(sizes)]):
            if place + columns >= len(sizes):
                axes.set_xlabel("us", color=INK)
        legend(figure, panels[0], columns=4)
    return figure


def _chosen(sizes: list[int]) -> list[int]:
    """All sizes if they fit, else as many from the smallest to the largest."""
    if len(sizes) <= MOST_PANELS:
        return sizes
    step = (len(sizes) - 1) / (MOST_PANELS - 1)
    return [sizes[round(place * step)] for place in range(MOST_PANELS)]


def _draw(axes: Axes, latencies: Sequence[Latency], used: Sequence[str]) -> None:
    left = [0.0] * len(latencies)
    for name in used:
        parts, colour, hatch = LOOKS[name]
        widths = [one.cycles(*parts) / NS_PER_US for one in latencies]
        axes.barh(
            range(len(latencies)),
            widths,
            0.72,
            left,
            color=colour,
            hatch=hatch,
            edgecolor=INK if hatch else "white",
            linewidth=0.4,
            label=name,
        )
        left = [start + width for start, width in zip(left, widths, strict=True)]
    for row, one in enumerate(latencies):
        axes.annotate(
            f"{one.us:.1f}",
            (one.us, row),
            (4, 0),
            textcoords="offset points",
            va="center",
            fontsize=11,
            color=INK,
        )
    axes.set_yticks(range(len(latencies)), [one.mechanism for one in latencies])
    axes.set_ylim(len(latencies) - 0.4, -0.6)
    axes.set_xlim(0, 1.2 * max(left))
    plain(axes, "x", labelsize=12)
