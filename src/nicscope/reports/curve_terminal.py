"""Miss-ratio curves on a terminal: tables and bars within 100 columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nicscope.reports.palette import KIND_COLOURS, KIND_TEXTURES
from nicscope.reports.wording import byte_size, per_hundred, whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.table import Table
    from rich.text import Text

    from nicscope.studies.curve_result import CurveReport, MissCurve, Point

WIDEST = 100
BAR = 28  # characters of the longest bar
SUMMARY_BAR = 15
SPELT_OUT = 4  # curves with a table each; more share one
LISTED = 25  # rows of the table that they share
SUMMARY_SIZES = 6
BLOCKS = " ▁▂▃▄▅▆▇█"
PARTS = ("compulsory", "capacity", "conflict")


def print_curves(report: CurveReport) -> None:
    """Print everything that people want of ``report`` on stdout."""
    from rich.console import Console

    console = Console(highlight=False)
    console.width = min(console.width, WIDEST) if console.is_terminal else WIDEST
    for part in curve_parts(report):
        console.print(part)


def curve_parts(report: CurveReport) -> Iterator[Any]:
    """What ``print_curves`` prints, piece by piece."""
    from rich.text import Text

    if len(report.curves) > SPELT_OUT:
        yield from _summary(report.curves)
    else:
        for number, curve in enumerate(report.curves):
            if number:
                yield Text()
            yield _headline(curve)
            yield Text()
            yield _size_table(curve)
            yield _legend(curve)
            yield Text(_knee_line(curve))
    for note in dict.fromkeys(curve.note for curve in report.curves if curve.note):
        yield Text(note, style="dim")


def _headline(curve: MissCurve) -> Text:
    from rich.text import Text

    what = "pages" if curve.line == 1 else "lines"
    nics = f"{whole(curve.nics)} NIC{'s' if curve.nics != 1 else ''}"
    headline = Text(curve.name, style="bold")
    return headline.append(
        f": {whole(curve.lookups)} lookups, {whole(curve.footprint)} {what} of "
        f"{byte_size(curve.page_size * curve.line)}, {nics}",
        style="not bold",
    )


def _size_table(curve: MissCurve) -> Table:
    from rich.text import Text

    shapes = {(point.entries, point.ways): point for point in curve.points}
    ways = sorted({point.ways for point in curve.points})
    table = _new_table("Misses per 100 lookups, by entries of the NIC's translation cache")
    for heading in ("entries", "reach", *(f"{way}-way" for way in ways), "full"):
        table.add_column(heading, justify="right", no_wrap=True)
    if curve.sample is not None:
        table.add_column("95 % interval", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    most = _most(curve)
    width = max(BAR - 8 * max(len(ways) - 4, 0), 8)
    for entries in curve.powers():
        points = [shapes.get((entries, way)) for way in ways]
        full = curve.sizes.at(entries)
        cells = [whole(entries), byte_size(entries * curve.page_size)]
        cells += [_rate(curve, point.misses) if point else "" for point in points]
        cells.append(_rate(curve, full))
        if curve.sample is not None:
            cells.append(_interval(curve, entries))
        # The bar is that of the fewest ways, where the mapping to sets matters most.
        bar = _bar(curve, points[0] if points else None, full, (most, width))
        table.add_row(
            *(Text(cell) for cell in cells), bar, style="bold" if entries == curve.knee else ""
        )
    return table


def _rate(curve: MissCurve, misses: float) -> str:
    return per_hundred(100 * curve.ratio(misses))


def _interval(curve: MissCurve, entries: int) -> str:
    place = int(curve.sizes.entries.searchsorted(entries))
    bounds = (curve.sizes.low[place], curve.sizes.high[place])
    return " to ".join(_rate(curve, float(bound)) for bound in bounds)


def _most(curve: MissCurve) -> float:
    firsts = [point.misses for point in curve.points if point.ways == curve.points[0].ways]
    return max([float(curve.sizes.misses.max(initial=0)), *map(float, firsts)])


def _bar(curve: MissCurve, point: Point | None, full: float, scale: tuple[float, int]) -> Text:
    """One character per equal share of the largest count; parts round so that they add up."""
    from rich.text import Text

    most, width = scale
    if point is None:
        parts: tuple[float, ...] = (min(curve.footprint, full), full - curve.footprint, 0.0)
    else:
        parts = (point.compulsory, point.capacity, point.conflict)
    bar = Text()
    along, drawn = 0.0, 0
    for kind, count in zip(PARTS, parts, strict=True):
        along += max(count, 0)
        end = round(width * along / most) if most else 0
        bar.append(KIND_TEXTURES[kind] * (end - drawn), style=KIND_COLOURS[kind])
        drawn = end
    if not drawn and along:
        bar.append("▏", style="dim")  # too few to be drawn, but there
    return bar


def _legend(curve: MissCurve) -> Text:
    from rich.text import Text

    legend = Text()
    ways = curve.points[0].ways if curve.points else None
    for kind in PARTS if ways else PARTS[:2]:
        legend.append(KIND_TEXTURES[kind] * 2, style=KIND_COLOURS[kind]).append(f" {kind}   ")
    return legend.append(
        f"(of {ways} way{'s' if ways != 1 else ''})" if ways else "(fully associative)",
        style="dim",
    )


def _knee_line(curve: MissCurve) -> str:
    floor = f"no cache gets below {_rate(curve, curve.footprint)} per 100 lookups"
    if curve.knee is None:
        return f"no knee between {whole(curve.span[0])} and {whole(curve.span[1])} entries; {floor}"
    misses = curve.sizes.at(curve.knee)
    return (
        f"knee (fully associative): {whole(curve.knee)} entries, "
        f"{_rate(curve, misses)} misses; {floor}"
    )


def _new_table(title: str) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    return Table(
        title=Text(title, style="bold"),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )


def _summary(curves: list[MissCurve]) -> Iterator[Any]:
    """One row per curve, those with most lookups first."""
    from rich.text import Text

    by_lookups = sorted(curves, key=lambda curve: -curve.lookups)
    low = min(curve.span[0] for curve in curves)
    high = max(curve.span[1] for curve in curves)
    shown = by_lookups[:LISTED]
    table = _new_table("Misses per 100 lookups of fully associative caches")
    table.add_column("", max_width=38, overflow="fold")
    for heading in ("lookups", "footprint", "floor", "at least", "at most", "knee"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column(f"{low} to {high}", no_wrap=True)
    for curve in shown:
        table.add_row(
            Text(curve.name),
            whole(curve.lookups),
            whole(curve.footprint),
            _rate(curve, curve.footprint),
            _rate(curve, float(curve.sizes.misses[-1])),
            _rate(curve, float(curve.sizes.misses[0])),
            "none" if curve.knee is None else whole(curve.knee),
            Text(_spark(curve, low, high), style=KIND_COLOURS["capacity"]),
        )
    yield table
    yield Text("the little curves: misses by entries, over doublings, each by its own scale", "dim")
    if len(curves) > len(shown):
        left = len(curves) - len(shown)
        yield Text(f"{left} more, with fewer lookups, are in --json and --out", style="dim")


def _spark(curve: MissCurve, low: int, high: int) -> str:
    """A character per doubling from ``low`` to ``high`` entries; blank where nothing was asked."""
    most = float(curve.sizes.misses.max(initial=0)) or 1.0
    powers = set(curve.powers())
    text = ""
    entries = low
    while entries <= high:
        if entries in powers:
            text += BLOCKS[1 + round((len(BLOCKS) - 2) * curve.sizes.at(entries) / most)]
        else:
            text += " "
        entries *= 2
    return text
