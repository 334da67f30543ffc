"""The style of all figures: size, fonts, colours; no window is ever opened."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from matplotlib.axes import Axes

    from nicscope.studies.replaying import Comparison

INK = "#222222"
FAINT = "#D9D9D9"
# Inches; eleven designs, the catalog, fill a slide of 12.8 by 7.2.
WIDTH, HEIGHT = 12.8, 7.2
FRAME_HEIGHT, ROW_HEIGHT = 2.8, 0.4
FEWEST_ROWS = 2
MOST_PANELS = 6
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


def new_panels(
    count: int, title: str, most_columns: int = 3, **shared: Any
) -> tuple[Figure, list[Axes], int]:
    """A figure with ``count`` panels, and how many stand side by side."""
    columns = min(most_columns, math.ceil(math.sqrt(count)))
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
