"""The style of all figures, and what several draw: panels, bars, ranges as bands and rows."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, TypeVar

from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from nicscope.reports.wording import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

    from nicscope.studies.replaying import Comparison

    Pair = Sequence[float]

INK = "#222222"
FAINT = "#D9D9D9"
# Inches; eleven designs, the catalog, fill a slide of 12.8 by 7.2.
WIDTH, HEIGHT = 12.8, 7.2
FRAME_HEIGHT, ROW_HEIGHT = 2.8, 0.4
FEWEST_ROWS = 2
MOST_PANELS, MOST_COLUMNS = 6, 3
LONG_TITLE = 70  # characters
PAD = 0.12  # inches around everything
DPI = 150
_STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 15,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "nicscope",  # the same figure is the same file
}


def styled() -> Any:
    """Context in which figures are drawn and saved."""
    return rc_context(_STYLE)


def sheet(
    title: str, rows: int = 1, columns: int = 1, *, height: float = HEIGHT, **shared: Any
) -> tuple[Figure, list[Axes]]:
    """A slide-wide figure with ``rows`` times ``columns`` panels; ``height`` in inches."""
    figure = Figure(figsize=(WIDTH, height), layout=ConstrainedLayoutEngine(h_pad=PAD, w_pad=PAD))
    FigureCanvasAgg(figure)
    size = 14 if len(title) > LONG_TITLE else 20
    figure.suptitle(title, x=0.01, ha="left", fontsize=size, fontweight="bold")
    return figure, list(figure.subplots(rows, columns, squeeze=False, **shared).ravel())


def plain(axes: Axes, grid: Literal["x", "y"] | None = None, **ticks: Any) -> None:
    """Remove a panel's frame and draw faint grid lines across ``grid``."""
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(FAINT)
    axes.tick_params(length=0, colors=INK, **ticks)
    if grid is not None:
        axes.grid(axis=grid, color=FAINT, linewidth=0.8)
    axes.set_axisbelow(True)


def new_figure(comparison: Comparison, title: str, panels: int = 1) -> tuple[Figure, list[Axes]]:
    """A figure with one row per design, the first on top, and ``panels`` side by side."""
    names = [priced.name for priced in comparison.priced]
    return row_sheet(f"{title}: {Path(comparison.trace['file']).stem}", names, panels)


def row_sheet(
    title: str, names: Sequence[str], panels: int = 1, below: float = 0.0, **look: Any
) -> tuple[Figure, list[Axes]]:
    """A figure with a row for each of ``names``, the first on top, and ``panels`` side by side.

    ``below``: inches for what else is written below the panels; ``look``: of the rows' names.
    """
    height = FRAME_HEIGHT + below + ROW_HEIGHT * max(len(names), FEWEST_ROWS)
    figure, axes = sheet(title, 1, panels, height=height, sharey=True)
    axes[0].set_yticks(range(len(names)), names, **look)
    axes[0].set_ylim(len(names) - 0.4, -0.6)
    for panel in axes:
        plain(panel, "x")
        panel.xaxis.label.set_color(INK)
    return figure, axes


def new_panels(count: int, title: str, **shared: Any) -> tuple[Figure, list[Axes], int]:
    """A figure with ``count`` panels, and how many stand side by side."""
    columns = min(MOST_COLUMNS, math.ceil(math.sqrt(count)))
    figure, every = sheet(title, math.ceil(count / columns), columns, **shared)
    for axes in every[count:]:
        axes.set_visible(False)
    return figure, every[:count], columns


def slide(title: str, rows: int, columns: int, *, share: bool = False) -> tuple[Figure, list[Axes]]:
    """A figure the size of a slide, with ``rows`` times ``columns`` panels without frames."""
    figure, panels = sheet(title, rows, columns, sharey=share)
    for axes in panels:
        plain(axes, labelsize=12)
    return figure, panels


def stacked(
    draw: Callable[..., Any],
    places: Sequence[float],
    thick: float,
    series: Iterable[tuple[list[float], dict[str, Any]]],
) -> list[float]:
    """Draw stacked bars by ``draw`` (``axes.bar``, ``axes.barh``); where they end.

    ``series``: for each stretch its lengths, by place, and its look.
    """
    ends = [0.0] * len(places)
    for lengths, look in series:
        draw(places, lengths, thick, ends, **look)
        ends = [end + length for end, length in zip(ends, lengths, strict=True)]
    return ends


def hatched(label: str, colour: str, hatch: str) -> dict[str, Any]:
    """The style of a segment that is told apart by hatching."""
    return {"color": colour, "hatch": hatch, "edgecolor": "white", "linewidth": 0, "label": label}


def note(axes: Axes, text: str, at: Any, aside: tuple[int, int], **look: Any) -> None:
    """Write ``text`` so many points ``aside`` of the place ``at``, centred unless ``ha`` says."""
    usual: dict[str, Any] = {"ha": "center", "fontsize": 12, "color": INK}
    axes.annotate(text, at, aside, textcoords="offset points", **usual | look)


def beside(axes: Axes, end: tuple[float, float], text: str, **look: Any) -> None:
    """Write ``text`` to the right of a bar that ends at ``end``."""
    note(axes, text, end, (7, 0), ha="left", va="center", **look)


def legend(figure: Figure, axes: Axes, columns: int, right: bool = False) -> None:
    """The legend of ``axes`` below all panels, at the left edge unless ``right``."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside lower right" if right else "outside lower left",
        ncols=columns,
        frameon=False,
    )


def save(figure: Figure, target: Path | BinaryIO, ending: str) -> None:
    """Write ``figure`` to ``target`` as PNG or SVG, the same bytes for the same data."""
    with styled():
        metadata = {"Date": None} if ending == "svg" else {"Software": None}
        figure.savefig(target, format=ending, dpi=DPI, facecolor="white", metadata=metadata)


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
