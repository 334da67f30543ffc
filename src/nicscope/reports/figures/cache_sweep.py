"""Miss ratio of miNI's 36 caches, by path, cold or not, as in miNI's Figure 5."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.reports.figures.style import FAINT, INK, legend, slide, styled
from nicscope.reports.palette import BLUE, ORANGE, SKY, VERMILION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from nicscope.studies.reproduce.traced.study import Row

# Cold is pale and plain, the rest is dark and hatched; blue is sent, orange received.
PARTS = {
    "send_cold": ("send, cold", SKY, ""),
    "send_noncold": ("send, not cold", BLUE, "///"),
    "receive_cold": ("receive, cold", ORANGE, ""),
    "receive_noncold": ("receive, not cold", VERMILION, "///"),
}
GAP = 0.7  # between lines of different length
HEADROOM = 1.06
UNDER = 24  # points below the axis, of the lengths of lines


def draw_sweep(application: str, rows: Sequence[Row]) -> Figure:
    """A panel for each size of the cache, a bar for each line and associativity."""
    sizes = list(dict.fromkeys(row["cache_entries"] for row in rows))
    top = max(row["misses_percent"] for row in rows)
    with styled():
        figure, panels = slide(
            f"Misses of the handle cache: {application}", 1, len(sizes), share=True
        )
        for axes, size in zip(panels, sizes, strict=True):
            _panel(axes, [row for row in rows if row["cache_entries"] == size])
            axes.set_title(f"C: {size // 1024} K entries", loc="left", fontsize=16, color=INK)
            axes.set_ylim(0, HEADROOM * max(top, 1e-6))
        panels[0].set_ylabel("misses per 100 lookups", color=INK)
        middle = panels[len(panels) // 2]
        middle.set_xlabel("A: lines per set; L: entries per line", color=INK, labelpad=UNDER)
        legend(figure, panels[0], columns=4)
    return figure


def _panel(axes: Axes, rows: Sequence[Row]) -> None:
    lines = list(dict.fromkeys(row["line_entries"] for row in rows))
    places = [at + GAP * lines.index(row["line_entries"]) for at, row in enumerate(rows)]
    bottom = [0.0] * len(rows)
    for part, (label, colour, hatch) in PARTS.items():
        heights = [row[f"{part}_percent"] for row in rows]
        axes.bar(
            places,
            heights,
            0.86,
            bottom,
            color=colour,
            hatch=hatch,
            edgecolor="white",
            linewidth=0,
            label=label,
        )
        bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
    axes.set_xticks(places, [str(row["ways"]) for row in rows])
    axes.tick_params(axis="x", labelsize=11)
    for line in lines:
        own = [at for at, row in zip(places, rows, strict=True) if row["line_entries"] == line]
        axes.annotate(
            f"L {line}",
            (sum(own) / len(own), 0),
            (0, -UNDER),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            ha="center",
            va="top",
            fontsize=13,
            color=INK,
        )
    axes.grid(axis="y", color=FAINT, linewidth=0.8)
