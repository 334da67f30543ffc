"""Rows with ranges, one for each way to do something, and what they say beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from nicscope.reports.figures.style import beside

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

MOST_ROWS = 24
NAME_SIZE = 12  # points of a row's name
BEHIND = {"boxstyle": "square,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.75}
LINE = 7  # points that a range is wide
Thing = TypeVar("Thing")


def first_rows(title: str, every: Sequence[Thing]) -> tuple[str, Sequence[Thing]]:
    """``title``, which says how many of ``every`` are drawn if not all fit, and these."""
    if len(every) <= MOST_ROWS:
        return title, every
    return f"{title} (the first {MOST_ROWS} of {len(every)})", every[:MOST_ROWS]


def draw_range(
    axes: Axes, row: float, ends: Sequence[float], colour: str, marker: str, label: str = ""
) -> None:
    """A range as a line, with a marker at its lower end."""
    low, high = ends
    axes.plot(
        (low, high),
        (row, row),
        color=colour,
        marker=marker,
        markevery=[0],
        ms=8,
        lw=LINE,
        solid_capstyle="butt",
        label=label or "_",
    )


def say(axes: Axes, row: float, ends: Sequence[float], text: str) -> None:
    """Write what a range is to its right."""
    beside(axes, (max(ends), row), text, bbox=BEHIND)
