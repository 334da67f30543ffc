"""Misses per lookup over the size of the cache, which doubles from tick to tick."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from matplotlib.ticker import PercentFormatter

from nicscope.reports.figures.style import INK, MOST_PANELS, legend, new_panels, note, plain, styled
from nicscope.reports.wording import (
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    byte_size,
    significant,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from nicscope.studies.curves import CurveReport, MissCurve

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
            _draw(axes, curve, columns)
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


def _draw(axes: Axes, curve: MissCurve, columns: int) -> None:
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
