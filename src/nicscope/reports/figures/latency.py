"""Latency by message size, mechanism and miss ratio; latency and bandwidth of verbs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from matplotlib.ticker import PercentFormatter

from nicscope.reports.figures.ranges import TICKS, doubling, draw_lines, dressed, titled
from nicscope.reports.figures.style import (
    FAINT,
    INK,
    hatched,
    legend,
    note,
    plain,
    sheet,
    slide,
    stacked,
    styled,
)
from nicscope.reports.wording import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    YELLOW,
    byte_size,
)
from nicscope.studies.latency.report import Part

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from nicscope.studies.handle_misses import MissPoint
    from nicscope.studies.latency.report import Latency, LatencyReport
    from nicscope.studies.verbs_measures import AllLatencies, Bandwidths


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
    "network": ((Part.NETWORK,), FAINT, ""),
    "user reads": ((Part.USER_READ,), SKY, "//"),
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
    series = []
    for name in used:
        parts, colour, hatch = LOOKS[name]
        look = hatched(name, colour, hatch) | {"edgecolor": INK if hatch else "white"}
        widths = [one.cycles(*parts) / NS_PER_US for one in latencies]
        series.append((widths, look | {"linewidth": 0.4}))
    ends = stacked(axes.barh, range(len(latencies)), 0.72, series)
    for row, one in enumerate(latencies):
        note(axes, f"{one.us:.1f}", (one.us, row), (4, 0), va="center", fontsize=11, ha="left")
    axes.set_yticks(range(len(latencies)), [one.mechanism for one in latencies])
    axes.set_ylim(len(latencies) - 0.4, -0.6)
    axes.set_xlim(0, 1.2 * max(ends))
    plain(axes, "x", labelsize=12)


SIZE_LOOKS = ((SKY, "o"), (BLUE, "s"), (GREEN, "^"), (ORANGE, "D"), (VERMILION, "v"), (PURPLE, "P"))
EDGE = 0.02  # so that no marker is cut
ROOM = 1.16  # of the axis, for the sizes at the ends of the lines


def draw_miss_ratio(curves: Mapping[int, Sequence[MissPoint]], platform: str) -> Figure:
    """Two panels: latency, bandwidth.  ``curves``: by bytes of a message, up to six of them.

    Errors: ``ValueError`` for more.
    """
    if len(curves) > len(SIZE_LOOKS):
        raise ValueError(
            f"there are {len(SIZE_LOOKS)} looks of lines, {len(curves)} sizes were given"
        )
    with styled():
        figure, (latency, bandwidth) = slide(
            f"Ping-pong on {platform}, lookups missing on one side", 1, 2
        )
        for (size, points), (colour, marker) in zip(curves.items(), SIZE_LOOKS, strict=False):
            ratios = [point.asked for point in points]
            for axes, values in (
                (latency, [point.latency_us for point in points]),
                (bandwidth, [point.mbytes_s for point in points]),
            ):
                axes.plot(ratios, values, color=colour, marker=marker, label=byte_size(size))
        _name_ends(latency, -1)
        _name_ends(bandwidth, 0)
        latency.set_title("latency, one way, us", loc="left", fontsize=15, color=INK)
        bandwidth.set_title("bandwidth, MB/s", loc="left", fontsize=15, color=INK)
        for axes in (latency, bandwidth):
            axes.set_ylim(bottom=0)
            axes.xaxis.set_major_formatter(PercentFormatter(1.0))
            axes.set_xlabel("lookups that miss", color=INK)
            axes.grid(axis="y", color=FAINT, linewidth=0.8)
        latency.set_xlim(-EDGE, ROOM)
        bandwidth.set_xlim(1 - ROOM, 1 + EDGE)
        for axes in (latency, bandwidth):
            axes.set_xticks([0, 0.25, 0.5, 0.75, 1.0])
    return figure


def _name_ends(axes: Axes, end: int) -> None:
    """Write each line's size beside its end, with room between one and the next."""
    top = max(float(line.get_ydata()[end]) for line in axes.lines)  # type: ignore[index, arg-type]
    least = 0.04 * top
    last = -least
    ends = [(float(line.get_ydata()[end]), line) for line in axes.lines]  # type: ignore[index, arg-type]
    for height, line in sorted(ends, key=lambda one: one[0]):
        last = max(height, last + least)
        note(
            axes,
            str(line.get_label()),
            (1.0 if end else 0.0, last),
            (9 if end else -9, 0),
            ha="left" if end else "right",
            va="center",
            color=line.get_color(),
        )


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
