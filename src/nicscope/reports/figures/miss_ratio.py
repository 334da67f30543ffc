"""Latency and bandwidth of a ping-pong over its miss ratio, a line per size (miNI, Figure 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.ticker import PercentFormatter

from nicscope.reports.figures.style import FAINT, INK, slide, styled
from nicscope.reports.palette import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION
from nicscope.reports.wording import byte_size

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from nicscope.studies.handle_misses import MissPoint

LOOKS = ((SKY, "o"), (BLUE, "s"), (GREEN, "^"), (ORANGE, "D"), (VERMILION, "v"), (PURPLE, "P"))
EDGE = 0.02  # so that no marker is cut
ROOM = 1.16  # of the axis, for the sizes at the ends of the lines


def draw_miss_ratio(curves: Mapping[int, Sequence[MissPoint]], platform: str) -> Figure:
    """Two panels: latency, bandwidth.  ``curves``: by bytes of a message, up to six of them.

    Errors: ``ValueError`` for more.
    """
    if len(curves) > len(LOOKS):
        raise ValueError(f"there are {len(LOOKS)} looks of lines, {len(curves)} sizes were given")
    with styled():
        figure, (latency, bandwidth) = slide(
            f"Ping-pong on {platform}, requests missing on one side", 1, 2
        )
        for (size, points), (colour, marker) in zip(curves.items(), LOOKS, strict=False):
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
            axes.set_xlabel("requests that miss", color=INK)
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
        axes.annotate(
            str(line.get_label()),
            (1.0 if end else 0.0, last),
            (9 if end else -9, 0),
            textcoords="offset points",
            ha="left" if end else "right",
            va="center",
            fontsize=12,
            color=line.get_color(),
        )
