"""The figures of a comparison, by file name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.reports.figures.costs import draw_costs
from nicscope.reports.figures.memory import draw_memory
from nicscope.reports.figures.misses import draw_misses

if TYPE_CHECKING:
    from collections.abc import Callable

    from matplotlib.figure import Figure

    from nicscope.studies.replaying import Comparison

FIGURES: dict[str, Callable[[Comparison], Figure]] = {
    "misses": draw_misses,
    "costs": draw_costs,
    "memory": draw_memory,
}
