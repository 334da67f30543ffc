"""What designs make of a trace: misses by kind and path, what they cost, and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.reports.comparison import kind_names, miss_rates
from nicscope.reports.figures.style import INK, beside, legend, new_figure, stacked, styled
from nicscope.reports.wording import (
    GROUP_COLOURS,
    KIND_COLOURS,
    MEMORY_COLOURS,
    PATH_COLOURS,
    STEP_GROUPS,
    byte_size,
    per_hundred,
    us_per,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from nicscope.studies.pricing import Denominator
    from nicscope.studies.replaying import Comparison, Priced


def draw_misses(comparison: Comparison) -> Figure:
    """Two panels of stacked bars, one bar per design: by kind and by path."""
    rates = miss_rates(comparison)
    totals = [rate.misses for rate in rates]
    with styled():
        figure, (by_kind, by_path) = new_figure(comparison, "What misses on the NIC", panels=2)
        kinds = {kind: [rate.by_kind[kind] for rate in rates] for kind in kind_names(comparison)}
        paths = {path: [rate.by_path[path] for rate in rates] for path in PATH_COLOURS}
        _stack(by_kind, kinds, KIND_COLOURS)
        _stack(by_path, paths, PATH_COLOURS)
        for panel, what in ((by_kind, "by kind"), (by_path, "by path")):
            panel.set_title(what, loc="left", fontsize=16, color=INK)
            panel.set_xlabel(f"NI misses per 100 {comparison.denominator.plural}")
            panel.set_xlim(0, 1.22 * max(*totals, 0.01))
            for row, total in enumerate(totals):
                beside(panel, (total, row), per_hundred(total))
        legend(figure, by_kind, columns=2)
        legend(figure, by_path, columns=2, right=True)
    return figure


def _stack(axes: Axes, series: dict[str, list[float]], colours: dict[str, str]) -> None:
    rows = range(len(next(iter(series.values()))))
    looks = ((widths, {"color": colours[name], "label": name}) for name, widths in series.items())
    stacked(axes.barh, rows, 0.7, looks)


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
        draw_groups(axes, parts)
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


def draw_groups(axes: Axes, parts: Sequence[Mapping[str, float]]) -> None:
    """A bar for each of ``parts``, of groups of steps as ``group_us`` has them."""
    series = (
        ([one.get(group, 0.0) for one in parts], {"color": colour, "label": group})
        for group, colour in GROUP_COLOURS.items()
    )
    stacked(axes.barh, range(len(parts)), 0.7, (each for each in series if any(each[0])))


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


THICK = 0.36


def draw_memory(comparison: Comparison) -> Figure:
    """Two bars per design on a logarithmic scale of bytes."""
    sizes = {
        "NIC memory": [priced.nic_bytes for priced in comparison.priced],
        "pinned host memory": [priced.pinned_host_bytes for priced in comparison.priced],
    }
    largest = max(max(column) for column in sizes.values())
    smallest = min((size for column in sizes.values() for size in column if size), default=1)
    with styled():
        figure, (axes,) = new_figure(comparison, "Memory on the NIC, and pinned in the host")
        axes.set_xscale("log", base=2)
        floor = 2.0 ** (smallest.bit_length() - 2)
        axes.set_xlim(floor, 4.0 * max(largest, 1))
        for place, (name, column) in enumerate(sizes.items()):
            rows = [row + (place - 0.5) * THICK for row in range(len(column))]
            axes.barh(rows, column, THICK, color=MEMORY_COLOURS[name], label=name)
            for row, size in zip(rows, column, strict=True):
                beside(axes, (max(size, floor), row), byte_size(size))
        exponents = range(0, 60, 4)
        ticks = [2**exponent for exponent in exponents if floor <= 2**exponent <= 4 * largest]
        axes.set_xticks(ticks, [byte_size(tick) for tick in ticks])
        axes.minorticks_off()
        axes.set_xlabel("bytes, logarithmic (NIC: the node that takes most; host: peak, all nodes)")
        legend(figure, axes, columns=2)
    return figure
