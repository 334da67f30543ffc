"""NI misses by kind over the size of the cache, as in UTLB's Figure 7."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from matplotlib.ticker import FuncFormatter

from nicscope.reports.figures.style import FAINT, INK, legend, slide, styled
from nicscope.reports.palette import KIND_COLOURS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from nicscope.studies.reproduce.traced.running import StudyTable
    from nicscope.studies.reproduce.traced.study import Row

MOST_PANELS = 8  # of a page
MOST_COLUMNS = 4
KINDS = ("compulsory", "capacity", "conflict")
HATCHES = {"compulsory": "", "capacity": "///", "conflict": ".."}  # not by colour alone
WIDTH = 0.74
PLENTY = 0.1  # from here on two decimals say enough


def draw_breakdown(table: StudyTable) -> Iterator[tuple[str, Figure]]:
    """Yield pages of a panel for each application, with what tells their files apart."""
    names = list(dict.fromkeys(row["application"] for row in table.rows))
    pages = math.ceil(len(names) / MOST_PANELS)
    each = math.ceil(len(names) / pages)
    for page in range(pages):
        shown = names[page * each : (page + 1) * each]
        yield f"_{page + 1}" * (pages > 1), _draw(table, shown)


def _draw(table: StudyTable, names: list[str]) -> Figure:
    lines = math.ceil(len(names) / MOST_COLUMNS)
    columns = math.ceil(len(names) / lines)
    with styled():
        figure, panels = slide("Why lookups miss on the NIC", lines, columns)
        for place, (axes, name) in enumerate(zip(panels, names, strict=False)):
            rows = [row for row in table.rows if row["application"] == name]
            _panel(axes, rows)
            axes.set_title(name, loc="left", fontsize=14, color=INK)
            if place % columns == 0:
                axes.set_ylabel("NI misses per lookup", color=INK)
            if place + columns >= len(names):
                axes.set_xlabel("cache entries", color=INK)
        for axes in panels[len(names) :]:
            axes.set_visible(False)
        legend(figure, panels[0], columns=3)
    return figure


def _panel(axes: Axes, rows: list[Row]) -> None:
    bottom = [0.0] * len(rows)
    for kind in KINDS:
        heights = [row[f"{kind}_per_lookup"] for row in rows]
        axes.bar(
            range(len(rows)),
            heights,
            WIDTH,
            bottom,
            color=KIND_COLOURS[kind],
            hatch=HATCHES[kind],
            edgecolor="white",
            linewidth=0,
            label=kind,
        )
        bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
    for place, total in enumerate(bottom):
        axes.annotate(
            f"{total:.2f}" if total >= PLENTY else f"{total:.2g}",
            (place, total),
            (0, 4),
            textcoords="offset points",
            ha="center",
            fontsize=10,
            color=INK,
        )
    axes.set_xticks(range(len(rows)), [f"{row['cache_entries'] // 1024} K" for row in rows])
    axes.set_ylim(0, 1.14 * max(*bottom, 1e-6))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.4g}"))
    axes.grid(axis="y", color=FAINT, linewidth=0.8)
