"""Which caches explain a NIC's counters: miss ratios beside what was counted, and entries."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator, PercentFormatter

from nicscope.reports.figures.shares import NAME_SIZE, draw_range, first_rows
from nicscope.reports.figures.style import INK, legend, row_sheet, styled
from nicscope.reports.fit import shape_name
from nicscope.reports.wording import BLUE, SKY, VERMILION, byte_size, whole
from nicscope.studies.curves import MOST_ENTRIES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from nicscope.studies.fitting import Explained, FitReport

MOST_COUNTS = 3
LOOKS = ((True, BLUE, "o", "explains"), (False, VERMILION, "X", "does not explain"))
HEADROOM = 1.12


def draw_fit(report: FitReport) -> Figure:
    """A row for each shape of cache: its misses count by count, then entries that explain them."""
    counts = min(len(report.counted), MOST_COUNTS)
    title = f"Caches beside what was counted: {Path(report.trace).stem}"
    if counts < len(report.counted):
        title += f" ({counts} of {len(report.counted)} counts)"
    title, shown = first_rows(title, report.shapes)
    with styled():
        names = [shape_name(one) for one in shown]
        figure, panels = row_sheet(title, names, counts + 1, fontsize=NAME_SIZE)
        for place, axes in enumerate(panels[:counts]):
            _draw_ratios(axes, report, shown, place)
        _draw_entries(panels[-1], shown)
        legend(figure, panels[0], columns=4)
    return figure


def _draw_ratios(axes: Axes, report: FitReport, shown: Sequence[Explained], place: int) -> None:
    counted = report.counted[place]
    left_open = counted.open(report.tolerance)
    low, high = counted.ratio - left_open, counted.ratio + left_open
    axes.axvspan(low, high, color=SKY, alpha=0.4, lw=0, label="counted, and what that leaves open")
    axes.axvline(counted.ratio, color=INK, lw=1)
    for explains, colour, marker, label in LOOKS:
        rows = [row for row, one in enumerate(shown) if one.explains is explains]
        ratios = [shown[row].ratios[place] for row in rows]
        axes.plot(ratios, rows, ls="", color=colour, marker=marker, ms=9, label=label)
    most = max(high, *(one.ratios[place] for one in shown))
    axes.set_xlim(0, HEADROOM * max(most, 1e-9))
    axes.xaxis.set_major_formatter(PercentFormatter(1.0))
    axes.tick_params(axis="x", labelsize=12)
    axes.set_xlabel(f"lookups that miss\npages of {byte_size(report.page_sizes[place])}")


def _draw_entries(axes: Axes, shown: Sequence[Explained]) -> None:
    axes.set_xscale("log", base=2)
    for row, one in enumerate(shown):
        [(_, colour, marker, _)] = [look for look in LOOKS if look[0] is one.explains]
        ends = (one.low, one.best if one.high == MOST_ENTRIES else one.high)
        draw_range(axes, row, ends, colour, "|")
        axes.plot([one.best], [row], color=colour, marker=marker, ms=9)
        if one.high == MOST_ENTRIES and one.low < one.high:
            axes.annotate(
                "or more",
                (max(ends), row),
                (9, 0),
                textcoords="offset points",
                va="center",
                fontsize=11,
                color=INK,
            )
    sizes = [size for one in shown for size in (one.low, one.best)]
    axes.set_xlim(min(sizes) / 2, 4 * max(sizes))
    axes.xaxis.set_major_locator(LogLocator(2, numticks=6))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: whole(round(size))))
    axes.tick_params(axis="x", labelsize=11)
    axes.set_xlabel("entries; the mark is the best")
