"""What caches miss: over their size, by kind of miss, and as heat maps over the line length."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.ticker import PercentFormatter

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
from nicscope.reports.wording import (
    BLUE,
    GREEN,
    KIND_COLOURS,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    byte_size,
    per_hundred,
    significant,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage
    from numpy.typing import NDArray

    from nicscope.studies.curves import CurveReport, MissCurve, Point


TICKS = 9  # at most, of a panel that has the slide to itself
HEADROOM = 1.08
HIGH = 0.5  # of the height: words on a knee above go below the curve, others to the top
RIGHT = 8  # times the middle size: words on a knee beyond go to its left
# By ways; shape and colour both tell them apart.
LOOKS = {
    1: (VERMILION, "o"),
    2: (ORANGE, "s"),
    4: (GREEN, "^"),
    8: (BLUE, "D"),
    16: (PURPLE, "v"),
}
FULL, FLOOR = "fully associative", "compulsory"


def draw_curves(report: CurveReport) -> Figure:
    """A panel for each curve, those with most lookups if there are more than fit."""
    chosen = sorted(report.curves, key=lambda curve: -curve.lookups)[:MOST_PANELS]
    curves = [curve for curve in report.curves if any(curve is one for one in chosen)]
    with styled():
        figure, panels, columns = new_panels(len(curves), _title(report, len(curves)))
        for axes, curve in zip(panels, curves, strict=True):
            _draw_curve(axes, curve, columns)
            if len(curves) > 1:
                axes.set_title(_in_panel(curve, report), loc="left", fontsize=14, color=INK)
        for place, axes in enumerate(panels):
            if place % columns == 0:
                axes.set_ylabel("misses per lookup", color=INK)
            if place + columns >= len(curves):
                label = "entries of the NIC's translation cache, and the memory that they reach"
                axes.set_xlabel(label if columns == 1 else "entries, memory reached", color=INK)
        fullest = max(zip(panels, curves, strict=True), key=lambda pair: len(pair[1].points))
        legend(figure, fullest[0], columns=8)
    return figure


def _title(report: CurveReport, shown: int) -> str:
    names = list(dict.fromkeys(curve.trace for curve in report.curves))
    title = f"What a larger cache buys: {', '.join(names)}"
    if shown < len(report.curves):
        title += f" ({shown} of {len(report.curves)} curves)"
    return title


def _in_panel(curve: MissCurve, report: CurveReport) -> str:
    """What tells this panel from the others."""
    alone = len({one.trace for one in report.curves}) == 1
    name = curve.name.removeprefix(curve.trace) if alone else curve.name
    return name.strip(", ") or "lines of 1"


def _draw_curve(axes: Axes, curve: MissCurve, columns: int) -> None:
    sizes = curve.sizes
    ratios = [curve.ratio(float(count)) for count in sizes.misses]
    floor = curve.ratio(curve.compulsory)
    top = max([*ratios, *(curve.ratio(point.misses) for point in curve.points), 1e-4])
    axes.set_xscale("log", base=2)
    axes.axhspan(0, floor, color=SKY, alpha=0.35, lw=0, label=FLOOR)
    axes.axhline(floor, color=SKY, lw=1.5)
    for ways in sorted({point.ways for point in curve.points}):
        colour, marker = LOOKS[ways]
        points = [point for point in curve.points if point.ways == ways]
        axes.plot(
            [point.entries for point in points],
            [curve.ratio(point.misses) for point in points],
            color=colour,
            marker=marker,
            ms=7,
            lw=1.8,
            label=f"{ways} way" + "s" * (ways > 1),
        )
    axes.plot(sizes.entries, ratios, color=INK, lw=2.6, label=FULL)
    if curve.sample is not None:
        low, high = ([curve.ratio(float(x)) for x in bound] for bound in (sizes.low, sizes.high))
        band = axes.fill_between(sizes.entries, low, high, color=INK, alpha=0.2, lw=0)
        band.set_label("95 % interval")
        top = max(top, *high)
    axes.set_ylim(0, top * HEADROOM)
    _mark_knee(axes, curve, top, columns == 1)
    _dress(axes, curve, columns)


def _mark_knee(axes: Axes, curve: MissCurve, top: float, wide: bool) -> None:
    if curve.knee is None:
        return
    ratio = curve.ratio(curve.sizes.at(curve.knee))
    high = ratio > HIGH * top
    axes.vlines(curve.knee, 0, ratio if high else top, color=INK, lw=1, ls=(0, (2, 3)))
    axes.plot(
        [curve.knee], [ratio], ls="", marker="o", ms=15, mfc="none", mec=INK, mew=2, clip_on=False
    )
    right = curve.knee > RIGHT * math.sqrt(curve.span[0] * curve.span[1])
    note(
        axes,
        f"knee: {curve.knee:,} entries\n{significant(100 * ratio)} % "
        + ("of lookups miss" if wide else "miss"),
        (curve.knee, ratio / 2 if high else top),
        (-10 if right else 10, 0),
        ha="right" if right else "left",
        va="center" if high else "top",
        fontsize=13 if wide else 11,
        bbox={"boxstyle": "square,pad=0.2", "fc": "white", "ec": "none", "alpha": 0.75},
    )


def _dress(axes: Axes, curve: MissCurve, columns: int) -> None:
    """Ticks at powers of two, each with the memory that so many entries reach."""
    low, high = curve.span
    powers = curve.powers()
    every = max(1, math.ceil(len(powers) * columns / TICKS))
    ticks = powers[::every]
    axes.set_xticks(ticks, [f"{tick:,}\n{byte_size(tick * curve.page_size)}" for tick in ticks])
    axes.minorticks_off()
    axes.set_xlim(low / 1.15, max(high, 2 * low) * 1.15)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    plain(axes, "y", labelsize=12)


KINDS = ("compulsory", "capacity", "conflict")
HATCHES = {"compulsory": "", "capacity": "//", "conflict": ""}  # told apart without colour too
KINDS_HEADROOM = 1.1
MOST_BARS = 10  # at most, over the width of the slide
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
            _draw_kinds(axes, panel, columns)
            if place % columns == 0:
                axes.set_ylabel("misses per 100 lookups", color=INK, fontsize=13)
            if place + columns >= len(shown):
                axes.set_xlabel("entries, memory reached", color=INK)
        legend(figure, every[0], columns=3)
    return figure


def _draw_kinds(axes: Axes, panel: Panel, columns: int) -> None:
    places = range(len(panel.points))
    looks = ((panel.rates(k), hatched(k, KIND_COLOURS[k], HATCHES[k])) for k in KINDS)
    totals = stacked(axes.bar, places, 0.8, looks)
    if len(panel.points) * columns <= 2 * LABELS:
        for place, total in zip(places, totals, strict=True):
            note(
                axes, per_hundred(total), (place, total), (0, 3), fontsize=10 if columns > 1 else 12
            )
    axes.set_ylim(0, max(axes.get_ylim()[1], KINDS_HEADROOM * max(totals)))
    every = max(1, math.ceil(len(panel.points) * columns / MOST_BARS))
    ticks = list(places)[::every]
    size = panel.curve.page_size
    entries = [panel.points[tick].entries for tick in ticks]
    axes.set_xticks(ticks, [f"{count:,}\n{byte_size(count * size)}" for count in entries])
    axes.set_title(panel.title, loc="left", fontsize=14, color=INK)
    plain(axes, "y", labelsize=12)


COLOURS = "cividis_r"  # made for every kind of colour vision; dark where much misses
DARK = 0.55  # of the scale: from here on words are white
SMALL, LARGE, WIDE = 8.5, 13, 220  # points: numbers in cells, and all cells side by side
MOST_CELLS = 36  # side by side on the slide, to have numbers in them
MOST_LABELS = 20  # likewise, to be named one by one
BLANK = "#EEEEEE"  # a line that does not fit in so few entries


class Map(NamedTuple):
    """Misses per 100 lookups by line length (rows) and entries (columns); NaN where undefined."""

    title: str
    lines: list[int]
    entries: list[int]
    rates: NDArray[np.float64]  # shape (lines, entries)


def has_lines(report: CurveReport) -> bool:
    """Whether several line lengths are to be compared."""
    return len({curve.line for curve in report.curves}) > 1


def maps_of(report: CurveReport) -> list[Map]:
    """Each of the ways of a single trace, node or process; of several, the fully associative."""
    subjects: dict[tuple[str, int | None, int | None], list[MissCurve]] = {}
    for curve in report.curves:
        subjects.setdefault((curve.trace, curve.node, curve.pid), []).append(curve)
    if len(subjects) > 1:
        busiest = sorted(subjects.values(), key=lambda curves: -curves[0].lookups)[:MOST_PANELS]
        least = busiest[-1][0].lookups
        chosen = [curves for curves in subjects.values() if curves[0].lookups >= least]
        return [
            _map(curves[0].name.partition(", lines of")[0], curves, None)
            for curves in chosen[:MOST_PANELS]
        ]
    [curves] = subjects.values()
    ways = sorted({point.ways for curve in curves for point in curve.points})
    found = [_map(f"{way} way{'s' * (way != 1)}", curves, way) for way in ways]
    return [*found[: MOST_PANELS - 1], _map(FULL, curves, None)]


def _map(title: str, curves: list[MissCurve], ways: int | None) -> Map:
    lines = [curve.line for curve in curves]
    entries = sorted({count for curve in curves for count in curve.powers()})
    rates = np.full((len(lines), len(entries)), np.nan)
    for row, curve in enumerate(curves):
        shapes = {(point.entries, point.ways): point.misses for point in curve.points}
        for column, count in enumerate(entries):
            misses: float | None = None
            if ways is not None:
                misses = shapes.get((count, ways))
            elif count in curve.powers():
                misses = curve.sizes.at(count)
            if misses is not None:
                rates[row, column] = 100 * curve.ratio(misses)
    return Map(title, lines, entries, rates)


def draw_heat(report: CurveReport) -> Figure:
    """A panel for each of ``maps_of``, all with the same scale of colours."""
    shown = maps_of(report)
    positive = np.concatenate([one.rates[one.rates > 0] for one in shown])
    low, high = (float(positive.min()), float(positive.max())) if len(positive) else (1.0, 1.0)
    scale = LogNorm(low, high if high > low else 2 * low)
    names = list(dict.fromkeys(curve.trace for curve in report.curves))
    with styled():
        what = "" if shown[-1].title == FULL else f", {FULL}"
        title = f"Misses by size and line{what}: {', '.join(names)}"
        figure, every, columns = new_panels(len(shown), title)
        for place, (axes, one) in enumerate(zip(every, shown, strict=True)):
            image = _draw_map(axes, one, scale, columns)
            if place % columns == 0:
                axes.set_ylabel("pages per line", color=INK)
            if place + columns >= len(shown):
                axes.set_xlabel("entries (pages)", color=INK)
        bar = figure.colorbar(image, ax=every, aspect=40, pad=0.02)
        bar.set_label("misses per 100 lookups", color=INK)
        bar.outline.set_visible(False)
        ticks = np.logspace(np.log10(low), np.log10(max(high, 2 * low)), 5).tolist()
        bar.set_ticks(ticks, labels=[per_hundred(tick) for tick in ticks])
        bar.minorticks_off()
    return figure


def _draw_map(axes: Axes, one: Map, scale: LogNorm, columns: int) -> AxesImage:
    axes.set_facecolor(BLANK)
    image = axes.imshow(one.rates, cmap=COLOURS, norm=scale, aspect="auto", origin="lower")
    axes.set_yticks(range(len(one.lines)), [str(line) for line in one.lines])
    every = 1 if len(one.entries) * columns <= MOST_LABELS else 2
    places = list(range(len(one.entries)))[::every]
    axes.set_xticks(places, [_short(one.entries[place]) for place in places])
    axes.tick_params(length=0, colors=INK, labelsize=11)
    axes.spines[:].set_visible(False)
    axes.set_title(one.title, loc="left", fontsize=14, color=INK)
    if len(one.entries) * columns > MOST_CELLS:
        return image
    size = min(max(WIDE / len(one.entries) / columns, SMALL), LARGE)
    for (row, column), rate in np.ndenumerate(one.rates):
        if not np.isnan(rate):
            dark = rate > 0 and scale(rate) > DARK
            axes.text(
                column,
                row,
                per_hundred(rate),
                ha="center",
                va="center",
                fontsize=size,
                color="white" if dark else INK,
            )
    return image


def _short(count: int) -> str:
    return f"{count >> 10} K" if count >= 1 << 10 else str(count)
