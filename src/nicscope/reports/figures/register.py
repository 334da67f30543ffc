"""How long registering takes by page size, threads or NICs, and what of it takes longest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.ticker import PercentFormatter

from nicscope.reports.figures.shares import (
    NAME_SIZE,
    doubling,
    draw_lines,
    dressed,
    first_rows,
    line_legend,
    logarithmic,
    parted,
    tick_seconds,
    titled,
)
from nicscope.reports.figures.style import (
    beside,
    hatched,
    legend,
    row_sheet,
    sheet,
    stacked,
    styled,
)
from nicscope.reports.register import spelt_seconds
from nicscope.reports.wording import BLUE, GREY, ORANGE, SKY, VERMILION, byte_size, in_words, whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from nicscope.studies.registering import Pool, RegisterReport, Registration

LEAST = 1e-9  # seconds
ROOM = 1.5  # times the ends
AXES = {"page": "page size", "threads": "threads", "NICs": "NICs"}
PARTS = {  # as tables call them; hatches tell apart what colour does not
    "regions": ("calls", GREY, ""),
    "touching": ("touching", SKY, ""),
    "pinning": ("pinning", ORANGE, "//"),
    "NICs": ("entering", BLUE, ""),
    "backlog": ("backlog", VERMILION, ".."),
}


def draw_times(report: RegisterReport) -> Figure:
    """A line for each way that differs in something else, up to six, between its ends."""
    axis, lines = parted(report.found, _asked, [*AXES], lambda _: "in all")
    with styled():
        figure, [axes] = sheet(titled(f"Time to register {_what(report)}", lines))
        draw_lines(
            axes,
            lines,
            lambda one: _at(one.pool, axis),
            lambda one: [max(end, LEAST) for end in one.total],
        )
        places = [_at(one.pool, axis) for one in report.found]
        doubling(axes, places, byte_size if axis == "page" else whole)
        axes.set_yscale("log")
        ends = [max(end, LEAST) for one in report.found for end in one.total]
        axes.set_ylim(min(ends) / ROOM, max(ends) * ROOM)
        logarithmic(axes.yaxis, ends, tick_seconds)
        dressed(axes, "time, from the lowest to the highest costs", AXES[axis])
        line_legend(figure, axes)
    return figure


def draw_parts(report: RegisterReport) -> Figure:
    """A bar for each way: the shares of its parts, at the upper ends of their ranges."""
    title, shown = first_rows(f"Where the time goes: {_what(report)}", report.found)
    totals = [max(one.total.high, LEAST) for one in shown]
    with styled():
        figure, [axes] = row_sheet(title, _names(shown), fontsize=NAME_SIZE)
        series = (
            (
                [one.parts[part].high / total for one, total in zip(shown, totals, strict=True)],
                hatched(name, colour, hatch),
            )
            for part, (name, colour, hatch) in PARTS.items()
        )
        stacked(axes.barh, range(len(shown)), 0.7, (each for each in series if any(each[0])))
        for row, one in enumerate(shown):
            beside(axes, (1.0, row), spelt_seconds(one.total))
        axes.set_xlim(0, 1.3)
        axes.set_xticks([0, 0.25, 0.5, 0.75, 1.0])
        axes.xaxis.set_major_formatter(PercentFormatter(1.0))
        axes.set_xlabel("share of the time at the highest costs; beside it the time")
        legend(figure, axes, columns=5)
    return figure


def _what(report: RegisterReport) -> str:
    pool = report.found[0].pool
    many = {one.pool.nics for one in report.found}
    at = f" at {in_words(pool.nics, 'NIC')}" if len(many) == 1 else ""
    return f"{byte_size(pool.byte_count)}{at}, costs {report.costs.name}"


def _asked(one: Registration) -> dict[str, str]:
    """What tells one way from others, in words."""
    pool = one.pool
    return {
        "page": byte_size(pool.page),
        "threads": whole(pool.threads),
        "NICs": whole(pool.nics),
        "NICs at once": "yes" if pool.at_once else "no",
        "touched": "yes" if pool.touched else "no",
        "cache": pool.cache,
    }


def _at(pool: Pool, axis: str) -> int:
    return {"page": pool.page, "threads": pool.threads, "NICs": pool.nics}[axis]


def _names(shown: Sequence[Registration]) -> list[str]:
    """Rows by what tells them apart."""
    asked = [_asked(one) for one in shown]
    differing = [name for name in asked[0] if len({one[name] for one in asked}) > 1] or ["page"]
    return [
        ", ".join(one[name] if name == "page" else f"{name} {one[name]}" for name in differing)
        for one in asked
    ]
