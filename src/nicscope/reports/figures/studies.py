"""The papers' figures of programs: UTLB's 7 and 8, and miNI's."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from matplotlib.ticker import FuncFormatter

from nicscope.reports.figures.program_runs import draw_overheads, draw_penalties, draw_speed_ups
from nicscope.reports.figures.style import FAINT, INK, hatched, legend, note, slide, stacked, styled
from nicscope.reports.wording import BLUE, GREEN, KIND_COLOURS, ORANGE, PURPLE, SKY, VERMILION

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from nicscope.studies.reproduce.verdict import Row, StudyTable

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
        yield f"_{page + 1}" * (pages > 1), _draw_page(table, shown)


def _draw_page(table: StudyTable, names: list[str]) -> Figure:
    lines = math.ceil(len(names) / MOST_COLUMNS)
    columns = math.ceil(len(names) / lines)
    with styled():
        figure, panels = slide("Why lookups miss on the NIC", lines, columns)
        for place, (axes, name) in enumerate(zip(panels, names, strict=False)):
            rows = [row for row in table.rows if row["application"] == name]
            _breakdown_panel(axes, rows)
            axes.set_title(name, loc="left", fontsize=14, color=INK)
            if place % columns == 0:
                axes.set_ylabel("NI misses per lookup", color=INK)
            if place + columns >= len(names):
                axes.set_xlabel("cache entries", color=INK)
        for axes in panels[len(names) :]:
            axes.set_visible(False)
        legend(figure, panels[0], columns=3)
    return figure


def _breakdown_panel(axes: Axes, rows: list[Row]) -> None:
    series = (
        (
            [row[f"{kind}_per_lookup"] for row in rows],
            hatched(kind, KIND_COLOURS[kind], HATCHES[kind]),
        )
        for kind in KINDS
    )
    totals = stacked(axes.bar, range(len(rows)), WIDTH, series)
    for place, total in enumerate(totals):
        note(
            axes,
            f"{total:.2f}" if total >= PLENTY else f"{total:.2g}",
            (place, total),
            (0, 4),
            fontsize=10,
        )
    axes.set_xticks(range(len(rows)), [f"{row['cache_entries'] // 1024} K" for row in rows])
    axes.set_ylim(0, 1.14 * max(*totals, 1e-6))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.4g}"))
    axes.grid(axis="y", color=FAINT, linewidth=0.8)


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
            _sweep_panel(axes, [row for row in rows if row["cache_entries"] == size])
            axes.set_title(f"C: {size // 1024} K entries", loc="left", fontsize=16, color=INK)
            axes.set_ylim(0, HEADROOM * max(top, 1e-6))
        panels[0].set_ylabel("misses per 100 lookups", color=INK)
        middle = panels[len(panels) // 2]
        middle.set_xlabel("A: lines per set; L: entries per line", color=INK, labelpad=UNDER)
        legend(figure, panels[0], columns=4)
    return figure


def _sweep_panel(axes: Axes, rows: Sequence[Row]) -> None:
    lines = list(dict.fromkeys(row["line_entries"] for row in rows))
    places = [at + GAP * lines.index(row["line_entries"]) for at, row in enumerate(rows)]
    series = (
        ([row[f"{part}_percent"] for row in rows], hatched(*look)) for part, look in PARTS.items()
    )
    stacked(axes.bar, places, 0.86, series)
    axes.set_xticks(places, [str(row["ways"]) for row in rows])
    axes.tick_params(axis="x", labelsize=11)
    for line in lines:
        own = [at for at, row in zip(places, rows, strict=True) if row["line_entries"] == line]
        note(
            axes,
            f"L {line}",
            (sum(own) / len(own), 0),
            (0, -UNDER),
            xycoords=("data", "axes fraction"),
            va="top",
            fontsize=13,
        )
    axes.grid(axis="y", color=FAINT, linewidth=0.8)


GRAPHS = {
    "ni_misses_per_lookup": "NI misses per lookup",
    "cost_us_per_lookup": "cost per lookup (us)",
}
LOOKS = ((VERMILION, "o"), (ORANGE, "s"), (GREEN, "^"), (BLUE, "D"), (PURPLE, "v"))
LINES_HEADROOM = 1.08


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
            axes.set_ylim(0, LINES_HEADROOM * max(top, 1e-6))
            axes.grid(axis="y", color=FAINT, linewidth=0.8)
        legend(figure, panels[0], columns=len(sizes))
    return figure


EACH = {  # a figure for each application
    ("utlb", "figure8"): draw_prefetch,
    ("mini", "figure5"): draw_sweep,
}
ONE = {  # figure of all applications
    ("mini", "figure6"): draw_speed_ups,
    ("mini", "figure7"): draw_overheads,
    ("mini", "miss_penalty_of_programs"): draw_penalties,
}
TOGETHER = {("utlb", "figure7"): draw_breakdown}  # panels of some applications on each page


def draw_study(table: StudyTable) -> Iterator[tuple[str, Figure]]:
    """Yield (what to add to the file's name, figure) of each drawing; none for a mere table."""
    key = (table.paper, table.id)
    if key in TOGETHER:
        yield from TOGETHER[key](table)
    if key in ONE:
        yield "", ONE[key](table.rows)
    if key in EACH:
        for application in dict.fromkeys(row["application"] for row in table.rows):
            rows = [row for row in table.rows if row["application"] == application]
            yield f"_{application}", EACH[key](application, rows)
