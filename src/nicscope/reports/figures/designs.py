"""Designs in pictures: misses by kind and path, cost and memory, of a trace and by NIC memory."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib.ticker import FuncFormatter, MaxNLocator

from nicscope.reports import size as say
from nicscope.reports.comparison import kind_names, miss_rates
from nicscope.reports.figures.style import (
    INK,
    beside,
    legend,
    new_figure,
    new_panels,
    note,
    plain,
    stacked,
    styled,
)
from nicscope.reports.wording import (
    FAMILY_LOOKS,
    GROUP_COLOURS,
    KIND_COLOURS,
    MEMORY_COLOURS,
    PATH_COLOURS,
    STEP_GROUPS,
    byte_size,
    per_hundred,
    us_per,
    whole,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from nicscope.studies.pricing import Denominator
    from nicscope.studies.replaying import Comparison, Priced
    from nicscope.studies.sizing import Answer, Point, Sizing, SizingReport


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


TICKS = 8  # at most, of memory
HEADROOM = 1.08
SPREAD, MOST_SPREAD = 4, 1000  # times the smallest: between them the scale is logarithmic


def draw_sizing(sizing: Sizing, report: SizingReport) -> Figure:
    """Steps over NIC memory, of cost and of misses; parts of the bests' costs; page sizes."""
    groups = say.ranked_alike(sizing)
    by_page = bool(sizing.page_sizes)
    with styled():
        name = Path(sizing.trace.removeprefix("bundled:")).stem
        title = f"Sized for {say.budget(report)}: {name}"
        figure, panels, _ = new_panels(len(groups) + bool(groups) + by_page, title)
        for axes, answers in zip(panels, groups, strict=False):
            _draw_steps(axes, answers, report)
        parts = panels[len(groups)]  # of page sizes, if there are no families
        if groups:
            _draw_parts(parts, sizing, report)
        if by_page:
            _draw_page_sizes(panels[-1], sizing)
        _legends(figure, panels[: len(groups)], parts)
    return figure


def _legends(figure: Figure, over_memory: Sequence[Axes], parts: Axes) -> None:
    """The families below at the left, whichever panel has them; parts of costs at the right."""
    sides: list[tuple[Sequence[Axes], Any, int]] = [
        (over_memory, "outside lower left", 4),
        ([parts], "outside lower right", 3),
    ]
    for panels, where, columns in sides:
        drawn: dict[str, Any] = {}
        for axes in panels:
            handles, labels = axes.get_legend_handles_labels()
            drawn |= dict(zip(labels, handles, strict=True))
        if drawn:
            figure.legend(
                list(drawn.values()),
                list(drawn),
                loc=where,
                ncols=columns,
                frameon=False,
                fontsize=11,
            )


def shown_steps(answer: Answer) -> list[Point]:
    """Steps that reject no request."""
    return [step for step in answer.steps if not step.rejected]


def height(step: Point) -> float:
    """Of a step: us per lookup, or misses per 100 lookups."""
    return step.value if step.by_cost else 100 * step.value


def _draw_steps(axes: Axes, answers: Sequence[Answer], report: SizingReport) -> None:
    budget = report.question.nic_bytes
    drawn = [shown_steps(answer) for answer in answers]
    every = [step for steps in drawn for step in steps]
    sizes = [step.nic_bytes for step in every if step.nic_bytes]
    low, high = min([budget, *sizes]), max([2 * budget, *sizes])
    edge = low / 1.5  # where what takes no NIC memory at all is drawn
    axes.set_xscale("log", base=2)
    for answer, steps in zip(answers, drawn, strict=True):
        _draw_family(axes, answer, steps, (edge, high))
    axes.axvline(budget, color=INK, lw=1.5, ls=(0, (4, 3)))
    note(
        axes,
        f"budget: {byte_size(budget)}",
        (budget, 1),
        (-6, -6),
        xycoords=("data", "axes fraction"),
        ha="right",
        va="top",
        rotation=90,
        fontsize=10,
    )
    _scale(axes, [height(step) for step in every])
    axes.set_xlim(edge, high * 1.2)
    _dress(axes, (low, high))
    axes.set_ylabel(say.unit(answers), color=INK, fontsize=12)
    none = "" if len(sizes) == len(every) else " (at the left edge: none)"
    axes.set_xlabel(f"NIC memory for translation{none}", color=INK, fontsize=12)
    what = "cheapest" if answers[0].by_cost else "fewest misses"
    axes.set_title(f"{what} by NIC memory (ring: knee)", loc="left", fontsize=14, color=INK)


def _draw_family(axes: Axes, answer: Answer, steps: list[Point], ends: tuple[float, float]) -> None:
    edge, high = ends
    name = answer.scheme.value
    colour, marker = FAMILY_LOOKS[name]
    if not steps:
        return
    axes.plot(
        [*(max(step.nic_bytes, edge) for step in steps), high],
        [*(height(step) for step in steps), height(steps[-1])],
        drawstyle="steps-post",
        color=colour,
        lw=2.2,
        marker=marker,
        ms=6,
        markevery=list(range(len(steps))),
        label=name,
    )
    knee = answer.knee
    if knee is not None and any(knee is step for step in steps):
        axes.plot(
            [knee.nic_bytes],
            [height(knee)],
            ls="",
            marker="o",
            ms=15,
            mfc="none",
            mec=colour,
            mew=2,
            label=f"_knee of {name}",
            clip_on=False,
        )


def _scale(axes: Axes, heights: list[float]) -> None:
    """A logarithmic scale where values differ much, else a linear one."""
    low, high = min(heights, default=0.0), max(heights, default=1e-3)
    if not 0 < low * SPREAD < high or high > MOST_SPREAD * low:
        axes.set_ylim(0, HEADROOM * max(high, 1e-3))
        return
    axes.set_yscale("log", base=2)
    axes.set_ylim(low / 1.3, high * 1.3)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:g}"))


def _dress(axes: Axes, ends: tuple[int, int]) -> None:
    low, high = (math.log2(end) for end in ends)
    powers = list(range(math.ceil(low), math.floor(high) + 1))
    every = max(1, math.ceil(len(powers) / TICKS))
    ticks = [1 << power for power in powers if (power - powers[0]) % every == 0]
    axes.set_xticks(ticks, [byte_size(tick) for tick in ticks])
    axes.minorticks_off()
    plain(axes, "y", labelsize=12)


def _draw_parts(axes: Axes, sizing: Sizing, report: SizingReport) -> None:
    answers = sizing.answers
    parts = [
        {} if one.best is None else group_us(one.best.priced, sizing.denominator) for one in answers
    ]
    totals = [sum(of_family.values()) for of_family in parts]
    draw_groups(axes, parts)
    ends = [_upper(answer, total) for answer, total in zip(answers, totals, strict=True)]
    for row, (answer, total, end) in enumerate(zip(answers, totals, ends, strict=True)):
        if end > total:
            axes.plot((total, end), (row, row), color=INK, lw=2, marker="|")
        beside(axes, (end, row), _note(answer, report))
    axes.set_xlim(0, 1.65 * max(*ends, 1e-3))
    axes.set_ylim(len(parts) - 0.4, -0.6)
    axes.set_yticks(range(len(parts)), [answer.scheme.value for answer in answers])
    plain(axes, "x", labelsize=12)
    per = sizing.denominator.value
    axes.set_xlabel(f"us per {per}, lower ends of ranges; ≥: not all is priced", fontsize=12)
    axes.set_title("what the best within the budget costs", loc="left", fontsize=14, color=INK)


def _draw_page_sizes(axes: Axes, sizing: Sizing) -> None:
    """A bar of the cache's misses in all for each page size."""
    sizes = sizing.page_sizes
    misses = [one.misses or 0 for one in sizes]
    axes.barh(range(len(sizes)), misses, 0.7, color=KIND_COLOURS["capacity"])
    for row, one in enumerate(sizes):
        beside(axes, (misses[row], row), "none fits" if one.misses is None else whole(one.misses))
    axes.set_xlim(0, 1.4 * max(*misses, 1))
    axes.set_ylim(len(sizes) - 0.4, -0.6)
    axes.set_yticks(range(len(sizes)), [byte_size(one.page_size) for one in sizes])
    plain(axes, "x", labelsize=12)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda number, _: f"{number:,.0f}"))
    axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.set_xlabel("misses in all of a cache within the budget", color=INK, fontsize=12)
    axes.set_title("by page size", loc="left", fontsize=14, color=INK)


def _upper(answer: Answer, total: float) -> float:
    us = None if answer.best is None else answer.best.us
    return total if us is None or us[0] == us[1] else max(total, us[1])


def _note(answer: Answer, report: SizingReport) -> str:
    if answer.best is None:
        return "nothing fits"
    words = say.cost(answer.best)
    evidence = answer.best.priced.weakest_evidence
    if evidence is not None:
        words += f" ({evidence.value})"
    if answer.best.rejected:
        words += ", rejects some"
    if report.question.platform is None and answer.platform:
        words += f"\n{answer.platform}"
    return words
