"""Compulsory, capacity and conflict misses over the cache size, stacked."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from nicscope.reports.figures.style import (
    INK,
    MOST_PANELS,
    hatched,
    legend,
    new_panels,
    note,
    plain,
    stacked,
    styled,
)
from nicscope.reports.wording import KIND_COLOURS, byte_size, per_hundred

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from nicscope.studies.curves import CurveReport, MissCurve, Point

KINDS = ("compulsory", "capacity", "conflict")
HATCHES = {"compulsory": "", "capacity": "//", "conflict": ""}  # told apart without colour too
HEADROOM = 1.1
TICKS = 10  # at most, over the width of the slide
LABELS = 9  # bars: more are told apart by the axis alone


class Panel(NamedTuple):
    """The caches of one curve that have the same number of ways, by ascending entries."""

    title: str
    curve: MissCurve
    points: list[Point]

    def rates(self, kind: str) -> list[float]:
        """Misses of ``kind`` per 100 lookups, by size."""
        return [100 * self.curve.ratio(getattr(point, kind)) for point in self.points]


def has_kinds(report: CurveReport) -> bool:
    """Whether kinds of misses were counted for any cache."""
    return any(curve.points for curve in report.curves)


def panels_of(report: CurveReport) -> list[Panel]:
    """One panel per number of ways of a single curve, or the fewest ways of the busiest curves."""
    curves = [curve for curve in report.curves if curve.points]
    if len(curves) == 1:
        [curve] = curves
        return [
            Panel(f"{ways} way{'s' * (ways != 1)}", curve, _with(curve, ways))
            for ways in sorted({point.ways for point in curve.points})
        ]
    busiest = sorted(curves, key=lambda curve: -curve.lookups)[:MOST_PANELS]
    chosen = [curve for curve in curves if any(curve is one for one in busiest)]
    fewest = [min(point.ways for point in curve.points) for curve in chosen]
    alone = _is_alone(chosen)
    return [
        Panel(f"{_name(curve, alone)}, {ways} way{'s' * (ways != 1)}", curve, _with(curve, ways))
        for curve, ways in zip(chosen, fewest, strict=True)
    ]


def _is_alone(curves: list[MissCurve]) -> bool:
    """Whether all are of the same lookups, with lines of different lengths."""
    return len({(curve.trace, curve.node, curve.pid) for curve in curves}) == 1


def _name(curve: MissCurve, alone: bool) -> str:
    return f"lines of {curve.line}" if alone else curve.name


def _with(curve: MissCurve, ways: int) -> list[Point]:
    return [point for point in curve.points if point.ways == ways]


def draw_kinds(report: CurveReport) -> Figure:
    """A panel of stacked bars, one for each size, for each of ``panels_of``."""
    shown = panels_of(report)
    alone = _is_alone([panel.curve for panel in shown])
    names = dict.fromkeys(panel.curve.trace for panel in shown)
    if len({panel.curve.name for panel in shown}) == 1:
        names = {shown[0].curve.name: None}
    title = f"Why caches miss: {', '.join(names)}"
    with styled():
        figure, every, columns = new_panels(len(shown), title, sharey=alone)
        for place, (axes, panel) in enumerate(zip(every, shown, strict=True)):
            _draw(axes, panel, columns)
            if place % columns == 0:
                axes.set_ylabel("misses per 100 lookups", color=INK, fontsize=13)
            if place + columns >= len(shown):
                axes.set_xlabel("entries, memory reached", color=INK)
        legend(figure, every[0], columns=3)
    return figure


def _draw(axes: Axes, panel: Panel, columns: int) -> None:
    places = range(len(panel.points))
    looks = ((panel.rates(k), hatched(k, KIND_COLOURS[k], HATCHES[k])) for k in KINDS)
    totals = stacked(axes.bar, places, 0.8, looks)
    if len(panel.points) * columns <= 2 * LABELS:
        for place, total in zip(places, totals, strict=True):
            note(
                axes, per_hundred(total), (place, total), (0, 3), fontsize=10 if columns > 1 else 12
            )
    axes.set_ylim(0, max(axes.get_ylim()[1], HEADROOM * max(totals)))
    every = max(1, math.ceil(len(panel.points) * columns / TICKS))
    ticks = list(places)[::every]
    size = panel.curve.page_size
    entries = [panel.points[tick].entries for tick in ticks]
    axes.set_xticks(ticks, [f"{count:,}\n{byte_size(count * size)}" for count in entries])
    axes.set_title(panel.title, loc="left", fontsize=14, color=INK)
    plain(axes, "y", labelsize=12)
