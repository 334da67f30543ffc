"""Building blocks of figures: ranges as bands and rows."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeVar

from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from nicscope.reports.figures.style import INK, beside, legend, plain
from nicscope.reports.wording import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

    Pair = Sequence[float]

# Shape and colour both tell them apart.
LOOKS = ((BLUE, "o"), (VERMILION, "s"), (GREEN, "^"), (ORANGE, "D"), (PURPLE, "v"), (SKY, "P"))
TICKS = 12  # at most, of a panel that has the slide to itself
FEW = 1000  # times the lower end: a logarithmic axis up to there has ticks within decades
CHARACTERS, GAP = 110, 9  # of a legend's line, and what a name takes beside its own
Thing = TypeVar("Thing")


def parted(
    every: Sequence[Thing],
    asked: Callable[[Thing], Mapping[str, Any]],
    axes: Sequence[str],
    alone: Callable[[Thing], str],
) -> tuple[str, dict[str, list[Thing]]]:
    """The axis with most values, and the things grouped into lines by their other options.

    ``asked``: what was asked for of one of them, axes too; ``alone``: a line's name if it is the
    only one.
    """
    each = [asked(one) for one in every]
    many = {name: len({one[name] for one in each}) for name in each[0]}
    axis = max(axes, key=lambda name: many[name])
    lines: dict[str, list[Thing]] = {}
    for one, others in zip(every, each, strict=True):
        name = ", ".join(
            f"{key.replace('_', ' ')} {value}"
            for key, value in others.items()
            if key != axis and many[key] > 1
        )
        lines.setdefault(name or alone(one), []).append(one)
    return axis, lines


def titled(title: str, lines: Mapping[str, Any]) -> str:
    """``title`` with how many of the lines are drawn, if some are not."""
    most = len(LOOKS)
    return title if len(lines) <= most else f"{title} ({most} of {len(lines)} lines)"


def draw_lines(
    axes: Axes,
    lines: Mapping[str, Sequence[Thing]],
    at: Callable[[Thing], float],
    ends: Callable[[Thing], Pair],
) -> None:
    """Draw each line as a band between its ends, up to the number of styles."""
    for (name, line), (colour, marker) in zip(lines.items(), LOOKS, strict=False):
        points = sorted(((at(one), *ends(one)) for one in line), key=lambda point: point[0])
        places, first, last = zip(*points, strict=True)
        if first != last and len(points) == 1:
            axes.vlines(places, first, last, color=colour, linewidth=2)
        elif first != last:
            axes.fill_between(places, first, last, color=colour, alpha=0.15, linewidth=0)
            axes.plot(places, last, color=colour, linewidth=1)
        axes.plot(places, first, color=colour, marker=marker, label=name)


def doubling(
    axes: Axes,
    places: Sequence[float],
    spell: Callable[[Any], str],
    most: int = TICKS,
    **look: Any,
) -> None:
    """A logarithmic axis with a tick at each of ``places``, if they fit."""
    axes.set_xscale("log", base=2)
    ticks = sorted(set(places))
    ticks = ticks[:: math.ceil(len(ticks) / most)]
    axes.set_xticks(ticks, [spell(tick) for tick in ticks], **look)
    axes.minorticks_off()


def dressed(axes: Axes, unit: str, label: str) -> None:
    """Label the vertical axis above the panel, and the horizontal one below it."""
    axes.set_xlabel(label, color=INK)
    axes.set_title(unit, loc="left", fontsize=15, color=INK)
    plain(axes, "y", labelsize=12)


def logarithmic(axis: Axis, ends: Sequence[float], spell: Callable[[float], str]) -> None:
    """Ticks of a logarithmic axis: decades, or three per decade where there are few."""
    few = max(ends) < FEW * min(ends)
    axis.set_major_locator(LogLocator(10, subs=(1.0, 2.0, 5.0) if few else (1.0,)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda number, _: spell(number)))


def tick_seconds(seconds: float) -> str:
    """A round number of seconds, or of milliseconds where it is less than one."""
    return f"{seconds:,.9g} s" if seconds >= 1 else f"{1000 * seconds:,.9g} ms"


def line_legend(figure: Figure, axes: Axes) -> None:
    """A legend in as many columns as its words leave room for."""
    longest = max((len(name) for name in axes.get_legend_handles_labels()[1]), default=1)
    legend(figure, axes, columns=max(1, min(4, CHARACTERS // (longest + GAP))))


MOST_ROWS = 24
NAME_SIZE = 12  # points of a row's name
BEHIND = {"boxstyle": "square,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.75}
LINE = 7  # points that a range is wide


def first_rows(title: str, every: Sequence[Thing]) -> tuple[str, Sequence[Thing]]:
    """The rows that fit, with a ``title`` that says how many of ``every`` these are."""
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
    """Write a range's values to its right."""
    beside(axes, (max(ends), row), text, bbox=BEHIND)
