"""Heat maps of misses over the cache's entries and its line length."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from matplotlib.colors import LogNorm

from nicscope.reports.figures.style import INK, MOST_PANELS, new_panels, styled
from nicscope.reports.wording import per_hundred

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage
    from numpy.typing import NDArray

    from nicscope.studies.curves import CurveReport, MissCurve

COLOURS = "cividis_r"  # made for every kind of colour vision; dark where much misses
DARK = 0.55  # of the scale: from here on words are white
SMALL, LARGE, WIDE = 8.5, 13, 220  # points: numbers in cells, and all cells side by side
MOST_CELLS = 36  # side by side on the slide, to have numbers in them
MOST_LABELS = 20  # likewise, to be named one by one
FULL = "fully associative"
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
        return [_map(_subject(curves[0]), curves, None) for curves in chosen[:MOST_PANELS]]
    [curves] = subjects.values()
    ways = sorted({point.ways for curve in curves for point in curve.points})
    found = [_map(f"{way} way{'s' * (way != 1)}", curves, way) for way in ways]
    return [*found[: MOST_PANELS - 1], _map(FULL, curves, None)]


def _subject(curve: MissCurve) -> str:
    return curve.name.partition(", lines of")[0]


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
            image = _draw(axes, one, scale, columns)
            if place % columns == 0:
                axes.set_ylabel("pages per line", color=INK)
            if place + columns >= len(shown):
                axes.set_xlabel("entries (pages)", color=INK)
        bar = figure.colorbar(image, ax=every, aspect=40, pad=0.02)
        bar.set_label("misses per 100 lookups", color=INK)
        bar.outline.set_visible(False)
        ticks = _ticks(low, high)
        bar.set_ticks(ticks, labels=[per_hundred(tick) for tick in ticks])
        bar.minorticks_off()
    return figure


def _ticks(low: float, high: float) -> list[float]:
    ends = np.log10(low), np.log10(max(high, 2 * low))
    return [float(tick) for tick in np.logspace(*ends, 5)]


def _draw(axes: Axes, one: Map, scale: LogNorm, columns: int) -> AxesImage:
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
