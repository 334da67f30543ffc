"""Microseconds per lookup (or request), stacked by what takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.reports.figures.style import INK, beside, legend, new_figure, styled
from nicscope.reports.palette import GROUP_COLOURS, STEP_GROUPS
from nicscope.reports.wording import us_per

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from nicscope.studies.denominator import Denominator
    from nicscope.studies.replaying import Comparison, Priced

PS_PER_US = 1e6


def draw_costs(comparison: Comparison) -> Figure:
    """One bar per design, stacked by group of steps; a line goes up to the end of a range.

    Each share is its lower bound.
    """
    per = comparison.denominator
    parts = [group_us(priced, per) for priced in comparison.priced]
    totals = [sum(of_design.values()) for of_design in parts]
    upper = [
        max(total, _us(priced.cost.high_ps, priced, per))
        for priced, total in zip(comparison.priced, totals, strict=True)
    ]
    with styled():
        figure, (axes,) = new_figure(comparison, f"What a {per.value} costs")
        left = [0.0] * len(parts)
        for group, colour in GROUP_COLOURS.items():
            widths = [of_design.get(group, 0.0) for of_design in parts]
            if any(widths):
                axes.barh(range(len(parts)), widths, 0.7, left, color=colour, label=group)
            left = [start + width for start, width in zip(left, widths, strict=True)]
        for row, priced in enumerate(comparison.priced):
            if priced.cost.high_ps > priced.cost.low_ps:
                axes.plot((totals[row], upper[row]), (row, row), color=INK, lw=2, marker="|")
            evidence = priced.weakest_evidence
            beside(
                axes,
                (upper[row], row),
                us_per(per, priced.cost) + (f" ({evidence.value})" if evidence else ""),
            )
        axes.set_xlim(0, 1.3 * max(*upper, 1e-3))
        axes.set_xlabel(f"us per {per.value} (line: upper end of a range; ≥: a step has no price)")
        if any(totals):
            legend(figure, axes, columns=4)
    return figure


def group_us(priced: Priced, per: Denominator) -> dict[str, float]:
    """Lower bound of each group of steps, in microseconds per lookup or request."""
    parts = {part.name: part.low_ps for part in priced.cost.components}
    return {
        group: _us(sum(parts.get(step, 0) for step in steps), priced, per)
        for group, steps in STEP_GROUPS.items()
    }


def _us(ps: int, priced: Priced, per: Denominator) -> float:
    parts = priced.cost.count_of(per)
    return ps / PS_PER_US / parts if parts else 0.0
