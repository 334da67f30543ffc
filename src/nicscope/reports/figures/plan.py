"""What plans of a pool take by page size: entries, and bytes of a region, with their limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.ticker import FuncFormatter, LogLocator

from nicscope.reports.figures.shares import BEHIND, doubling, dressed
from nicscope.reports.figures.style import INK, legend, sheet, styled
from nicscope.reports.plan import all_plans
from nicscope.reports.wording import BLUE, VERMILION, byte_size, whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from nicscope.studies.planning import Plan, PlanReport

ROOM = 3.0  # times the ends of an axis


def draw_plan(report: PlanReport) -> Figure:
    """Two panels over the page size: entries of a NIC, and the largest region."""
    wanted = report.wanted
    title = f"{byte_size(wanted.byte_count)} in blocks of {byte_size(wanted.block)}"
    with styled():
        figure, (entries, regions) = sheet(f"{title}, cut into regions", 1, 2)
        _draw(entries, report, "entries", "entries at each NIC", lambda one: one.entries, whole, 10)
        _draw(
            regions, report, "region_bytes", "largest region", lambda one: one.largest, byte_size, 2
        )
        legend(figure, entries, columns=4)
    return figure


def _draw(
    axes: Axes,
    report: PlanReport,
    name: str,
    what: str,
    value: Callable[[Plan], int],
    spell: Callable[[int], str],
    base: int,
) -> None:
    plans = sorted(all_plans(report), key=lambda one: one.page)
    cut = [one for one in plans if one.regions]
    most = report.wanted.most(name)
    dressed(axes, what if most is None else f"{what}, at most {spell(most)}", "page size")
    doubling(axes, [one.page for one in plans], byte_size)
    axes.set_yscale("log", base=base)
    for fits, colour, marker, told in (
        (True, BLUE, "o", "fits"),
        (False, VERMILION, "X", "does not fit"),
    ):
        some = [one for one in cut if one.fits == fits]
        axes.plot(
            [one.page for one in some],
            [value(one) for one in some],
            ls="",
            color=colour,
            marker=marker,
            ms=13,
            label=told,
        )
    axes.plot([one.page for one in cut], [value(one) for one in cut], color=INK, lw=1, zorder=1)
    for one in cut:
        axes.annotate(
            spell(value(one)),
            (one.page, value(one)),
            (0, 13),
            textcoords="offset points",
            ha="center",
            fontsize=12,
            color=INK,
            bbox=BEHIND,
        )
    if most is not None:
        axes.axhline(most, color=INK, lw=1.5, ls=(0, (4, 3)), label="limit")
    heights = [*(value(one) for one in cut), *([] if most is None else [most])]
    if heights:
        axes.set_ylim(min(heights) / ROOM, max(heights) * ROOM)
    axes.set_xlim(plans[0].page / ROOM, plans[-1].page * ROOM)
    axes.yaxis.set_major_locator(LogLocator(base, numticks=8))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda number, _: spell(round(number))))
    axes.yaxis.minorticks_off()
