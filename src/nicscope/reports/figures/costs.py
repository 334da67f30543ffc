"""Microseconds per lookup, stacked by component."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.reports.figures.style import FAINT, INK, legend, new_figure, styled
from nicscope.reports.palette import SERIES
from nicscope.reports.wording import us_per_lookup

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from nicscope.studies.replaying import Comparison, Priced

PS_PER_US = 1e6


def draw_costs(comparison: Comparison) -> Figure:
    """One bar per design, stacked by component; where prices are ranges, a line to the upper end.

    A component's share is its lower bound.
    """
    parts = [component_us(priced) for priced in comparison.priced]
    names = list(dict.fromkeys(name for of_design in parts for name in of_design))
    upper = [_upper_us(priced) for priced in comparison.priced]
    with styled():
        figure, (axes,) = new_figure(comparison, "What a lookup costs")
        left = [0.0] * len(parts)
        for place, name in enumerate(names):
            widths = [of_design.get(name, 0.0) for of_design in parts]
            axes.barh(
                range(len(parts)),
                widths,
                0.7,
                left,
                color=SERIES[place % len(SERIES)],
                hatch="" if place < len(SERIES) else "//",
                edgecolor="white",
                linewidth=0.5,
                label=name.replace("_", " "),
            )
            left = [start + width for start, width in zip(left, widths, strict=True)]
        for row, priced in enumerate(comparison.priced):
            if upper[row] > left[row]:
                axes.plot((left[row], upper[row]), (row, row), color=INK, linewidth=2, marker="|")
            evidence = priced.weakest_evidence
            axes.annotate(
                us_per_lookup(priced.cost) + (f" ({evidence.value})" if evidence else ""),
                (max(upper[row], left[row]), row),
                (8, 0),
                textcoords="offset points",
                va="center",
                fontsize=13,
                color=INK,
            )
        axes.set_xlim(0, 1.3 * max(*upper, *left, 1e-3))
        axes.set_xlabel(
            "us per lookup (line: up to the upper end of a range; ≥: a step has no price)",
            color=INK,
        )
        axes.axvline(0, color=FAINT)
        if names:
            legend(figure, axes, columns=5)
    return figure


def component_us(priced: Priced) -> dict[str, float]:
    """Lower bound of each component that took time, in microseconds per lookup."""
    return {
        part.name: part.low_ps / PS_PER_US / priced.cost.lookups
        for part in priced.cost.components
        if part.high_ps and priced.cost.lookups
    }


def _upper_us(priced: Priced) -> float:
    lookups = priced.cost.lookups
    return priced.cost.high_ps / PS_PER_US / lookups if lookups else 0.0
