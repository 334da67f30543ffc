"""NI misses and cost per lookup by the entries that a miss fetches, as in UTLB's Figure 8."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.reports.figures.style import FAINT, INK, legend, slide, styled
from nicscope.reports.palette import BLUE, GREEN, ORANGE, PURPLE, VERMILION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from nicscope.studies.reproduce.traced.study import Row

GRAPHS = {
    "ni_misses_per_lookup": "NI misses per lookup",
    "cost_us_per_lookup": "cost per lookup (us)",
}
LOOKS = ((VERMILION, "o"), (ORANGE, "s"), (GREEN, "^"), (BLUE, "D"), (PURPLE, "v"))
HEADROOM = 1.08


def draw_prefetch(application: str, rows: Sequence[Row]) -> Figure:
    """Two graphs, a line for each size of the cache; both begin at 0."""
    sizes = list(dict.fromkeys(row["cache_entries"] for row in rows))
    with styled():
        figure, panels = slide(f"What fetching ahead buys: {application}", 1, len(GRAPHS))
        for axes, (measure, label) in zip(panels, GRAPHS.items(), strict=True):
            for size, (colour, marker) in zip(sizes, LOOKS, strict=True):
                shown = [
                    row for row in rows if row["cache_entries"] == size and row[measure] is not None
                ]
                axes.plot(
                    [row["entries_fetched"] for row in shown],
                    [row[measure] for row in shown],
                    color=colour,
                    marker=marker,
                    ms=8,
                    lw=2,
                    label=f"{size // 1024} K entries",
                    clip_on=False,
                )
            axes.set_title(label, loc="left", fontsize=16, color=INK)
            axes.set_xscale("log", base=2)
            widths = list(dict.fromkeys(row["entries_fetched"] for row in rows))
            axes.set_xticks(widths, [str(width) for width in widths])
            axes.minorticks_off()
            axes.set_xlabel("entries fetched per miss", color=INK)
            top = max([row[measure] for row in rows if row[measure] is not None], default=0)
            axes.set_ylim(0, HEADROOM * max(top, 1e-6))
            axes.grid(axis="y", color=FAINT, linewidth=0.8)
        legend(figure, panels[0], columns=len(sizes))
    return figure
