"""A slide of panels: the same frame for every figure that has several."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from nicscope.reports.figures.style import FAINT, INK, PAD, WIDTH

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HEIGHT = 7.2  # inches, of a slide
MOST_PANELS = 6
LONG_TITLE = 70  # characters


def new_panels(count: int, title: str, **shared: Any) -> tuple[Figure, list[Axes], int]:
    """A figure with ``count`` panels, and how many stand side by side."""
    columns = min(3, math.ceil(math.sqrt(count)))
    rows = math.ceil(count / columns)
    figure = Figure(figsize=(WIDTH, HEIGHT), layout=ConstrainedLayoutEngine(h_pad=PAD, w_pad=PAD))
    FigureCanvasAgg(figure)
    every = list(figure.subplots(rows, columns, squeeze=False, **shared).ravel())
    for axes in every[count:]:
        axes.set_visible(False)
    figure.suptitle(
        title,
        x=0.01,
        ha="left",
        fontsize=14 if len(title) > LONG_TITLE else 20,
        fontweight="bold",
    )
    return figure, every[:count], columns


def plain(axes: Axes) -> None:
    """No more lines around a panel than need be."""
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.spines["bottom"].set_color(FAINT)
    axes.tick_params(length=0, colors=INK, labelsize=12)
    axes.set_axisbelow(True)
