"""NI misses per 100 lookups (or requests), stacked by kind and by path."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.reports.comparison import kind_names, miss_rates
from nicscope.reports.figures.style import INK, beside, legend, new_figure, styled
from nicscope.reports.palette import KIND_COLOURS, PATH_COLOURS
from nicscope.reports.wording import per_hundred

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from nicscope.studies.replaying import Comparison


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
    left = [0.0] * len(next(iter(series.values())))
    for name, widths in series.items():
        axes.barh(range(len(widths)), widths, 0.7, left, color=colours[name], label=name)
        left = [start + width for start, width in zip(left, widths, strict=True)]
