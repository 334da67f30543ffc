"""Miss-ratio curves: tables and bars, results.json, curves.parquet and the figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nicscope.reports.printing import Bar, Piece, Printed, Rows, heading, remark, rows_of, said
from nicscope.reports.result import Report
from nicscope.reports.wording import (
    KIND_COLOURS,
    KIND_TEXTURES,
    byte_size,
    listed,
    per_hundred,
    whole,
)
from nicscope.studies.curves import CurveReport, MissCurve, Point, by_output_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.text import Text

BAR = 28  # characters of the longest bar
SPELT_OUT = 4  # curves with a table each; more share one
MOST_TOLD = 3  # sentences of one kind
ESTIMATES = "These are estimates, from a sample of the pages."
LISTED = 25  # rows of the table that they share
BLOCKS = " ▁▂▃▄▅▆▇█"
PARTS = ("compulsory", "capacity", "conflict")
COLUMNS = {  # of curves.parquet
    "trace": "string",
    "node": "int32",
    "pid": "int32",
    "page_size_bytes": "int64",
    "line_pages": "int32",
    "ways": "int32",  # null: fully associative
    "entries": "int64",
    "lookups": "int64",
    "ni_misses": "float64",
    "ni_misses_low": "float64",
    "ni_misses_high": "float64",
    "ni_misses_compulsory": "int64",
    "ni_misses_capacity": "int64",  # null: estimated
    "ni_misses_conflict": "int64",
    "miss_ratio": "float64",
}


class ShownCurves(Report):
    """Miss-ratio curves: a table for each, or one of many, curves.parquet and the figures."""

    found: CurveReport
    topic = "curve"

    def summary(self) -> list[str]:
        """Up to which size a cache pays, or of many curves what the largest caches miss."""
        curves = self.found.curves
        told = (
            [_curve_in_words(curve) for curve in curves[:MOST_TOLD]]
            if len(curves) <= SPELT_OUT
            else [_largest_caches(curves)]
        )
        return told + [ESTIMATES] * any(curve.sample is not None for curve in curves)

    def parts(self) -> Iterator[Printed]:
        """Curve after curve, or all in one table; then what is to be said of any."""
        curves = self.found.curves
        if len(curves) > SPELT_OUT:
            names = dict.fromkeys(curve.trace for curve in curves)
            yield heading(f"{listed([*names])}: {whole(len(curves))} curves")
            yield ""
            yield from _summary(curves)
        else:
            for number, curve in enumerate(curves):
                if number:
                    yield ""
                yield _headline(curve)
                yield size_rows(curve)
                yield _legend(curve)
                yield said(_knee_line(curve))
        for note in dict.fromkeys(curve.note for curve in curves if curve.note):
            yield remark(note)

    def tables(self) -> Iterator[tuple[str, Any]]:
        """Yield a row for every cache."""
        import pyarrow as pa

        yield "curves", pa.concat_tables(list(self._tables()))

    def files(self) -> Iterator[tuple[str, Any]]:
        """Yield the table, which is written curve by curve, and up to three figures."""
        from nicscope.reports.figures.misses import (
            draw_curves,
            draw_heat,
            draw_kinds,
            has_kinds,
            has_lines,
        )

        yield "curves.parquet", self._write_table
        yield "curves", draw_curves(self.found)
        if has_kinds(self.found):
            yield "kinds", draw_kinds(self.found)
        if has_lines(self.found):
            yield "heat", draw_heat(self.found)

    def _write_table(self, file: Any) -> None:
        import pyarrow.parquet as pq

        with pq.ParquetWriter(file, _schema()) as writer:
            for table in self._tables():
                writer.write_table(table)

    def _tables(self) -> Iterator[Any]:
        schema = _schema()
        for curve in self.found.curves:
            for columns in (_full_columns(curve), *_set_columns(curve)):
                yield _arrow(curve, columns, schema)


def _schema() -> Any:
    import pyarrow as pa

    return pa.schema([(name, pa.type_for_alias(kind)) for name, kind in COLUMNS.items()])


def _headline(curve: MissCurve) -> Text:
    what = "pages" if curve.line == 1 else "lines"
    nics = f"{whole(curve.nics)} NIC{'s' if curve.nics != 1 else ''}"
    headline = heading(curve.name)
    begin = f" after {whole(curve.skipped)} requests that fill the caches" if curve.skipped else ""
    return headline.append(
        f": {whole(curve.lookups)} lookups{begin}, {whole(curve.footprint)} {what} of "
        f"{byte_size(curve.page_size * curve.line)}, {nics}",
        style="not bold",
    )


def size_rows(curve: MissCurve) -> Rows:
    """Misses by entries, a column for each number of ways."""
    shapes = {(point.entries, point.ways): point for point in curve.points}
    ways = sorted({point.ways for point in curve.points})
    headings = ["entries", "reach", *(f"{way}-way" for way in ways), "full"]
    # In all, as larger pages are looked up less often: rates of two page sizes do not compare.
    totals = [*(f"{way}-way, in all" for way in ways[:1]), "full, in all"]
    headings += totals
    if curve.sample is not None:
        headings.append("95 % interval")
    most = _most(curve)
    cells, bars = [], []
    powers = list(curve.powers())
    for entries in powers:
        points = [shapes.get((entries, way)) for way in ways]
        full = curve.sizes.at(entries)
        row = [whole(entries), byte_size(entries * curve.page_size)]
        row += [_rate(curve, point.misses) if point else "" for point in points]
        row.append(_rate(curve, full))
        row += [whole(points[0].misses) if points[0] else ""] if points else []
        row.append(whole(round(full)))
        if curve.sample is not None:
            row.append(_interval(curve, entries))
        cells.append(row)
        # The bar is that of the fewest ways, where the mapping to sets matters most.
        bars.append(_bar(curve, points[0] if points else None, full, most))
    return Rows(
        "Misses per 100 lookups, by entries of the NIC's translation cache",
        headings,
        cells,
        left=(),
        least=(
            *("reach", totals[0], *(f"{way}-way" for way in ways[:0:-1])),
            *("95 % interval", totals[-1], "full"),
        ),
        bars=bars,
        longest_bar=max(BAR - 8 * max(len(ways) - 4, 0), 8),
        row_styles={place: "bold" for place, size in enumerate(powers) if size == curve.knee},
    )


def _rate(curve: MissCurve, misses: float) -> str:
    return per_hundred(100 * curve.ratio(misses))


def _interval(curve: MissCurve, entries: int) -> str:
    place = int(curve.sizes.entries.searchsorted(entries))
    bounds = (curve.sizes.low[place], curve.sizes.high[place])
    return " to ".join(_rate(curve, float(bound)) for bound in bounds)


def _most(curve: MissCurve) -> float:
    firsts = [point.misses for point in curve.points if point.ways == curve.points[0].ways]
    return max([float(curve.sizes.misses.max(initial=0)), *map(float, firsts)])


def _bar(curve: MissCurve, point: Point | None, full: float, most: float) -> Bar:
    """Kinds of misses, by the largest count."""
    if point is None:
        parts: tuple[float, ...] = (min(curve.compulsory, full), full - curve.compulsory, 0.0)
    else:
        parts = (point.compulsory, point.capacity, point.conflict)
    return Bar(
        tuple(
            Piece(KIND_TEXTURES[kind], KIND_COLOURS[kind], count / most if most else 0.0)
            for kind, count in zip(PARTS, parts, strict=True)
        )
    )


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
    floor = (
        f"no cache gets below {_rate(curve, curve.compulsory)} per 100 lookups, "
        f"{whole(curve.compulsory)} in all"
    )
    if curve.knee is None:
        return f"no knee between {whole(curve.span[0])} and {whole(curve.span[1])} entries; {floor}"
    misses = curve.sizes.at(curve.knee)
    return (
        f"knee (fully associative): {whole(curve.knee)} entries, "
        f"{_rate(curve, misses)} misses, {whole(round(misses))} in all; {floor}"
    )


def _summary(curves: list[MissCurve]) -> Iterator[Printed]:
    """One row per curve, those with most lookups first."""
    by_lookups = sorted(curves, key=lambda curve: -curve.lookups)
    shown = by_lookups[:LISTED]
    yield summary_rows(shown, curves)
    drawn = _span(curves)
    yield remark(f"{drawn}: misses by entries, over doublings, each curve by its own scale")
    if len(curves) > len(shown):
        left = len(curves) - len(shown)
        yield remark(f"{left} more, with fewer lookups, are in --json and --out")


def _ends(curves: list[MissCurve]) -> tuple[int, int]:
    return min(curve.span[0] for curve in curves), max(curve.span[1] for curve in curves)


def _span(curves: list[MissCurve]) -> str:
    low, high = _ends(curves)
    return f"{low} to {high}"


def summary_rows(shown: list[MissCurve], curves: list[MissCurve]) -> Rows:
    """A row for each of ``shown``, with a sparkline over the sizes of all ``curves``."""
    low, high = _ends(curves)
    drawn = _span(curves)
    return rows_of(
        "Misses per 100 lookups of fully associative caches",
        shown,
        {
            "curve": lambda curve: curve.name,
            "lookups": lambda curve: whole(curve.lookups),
            "footprint": lambda curve: whole(curve.footprint),
            "floor": lambda curve: _rate(curve, curve.compulsory),
            "at least": lambda curve: _rate(curve, float(curve.sizes.misses[-1])),
            "in all": lambda curve: whole(round(float(curve.sizes.misses[-1]))),
            "at most": lambda curve: _rate(curve, float(curve.sizes.misses[0])),
            "knee": lambda curve: "none" if curve.knee is None else whole(curve.knee),
            drawn: lambda curve: _spark(curve, low, high),
        },
        words=("curve", drawn),
        prose=(),
        least=(drawn, "footprint", "at most", "lookups", "floor", "in all", "at least"),
    )


def _spark(curve: MissCurve, low: int, high: int) -> str:
    """A character per doubling from ``low`` to ``high`` entries; blank where not measured."""
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


def _arrow(curve: MissCurve, columns: dict[str, Any], schema: Any) -> Any:
    """``columns`` with the constant columns of ``curve`` added."""
    import pyarrow as pa

    rows = len(columns["entries"])
    shared = {
        "trace": curve.trace,
        "node": curve.node,
        "pid": curve.pid,
        "page_size_bytes": curve.page_size,
        "line_pages": curve.line,
        "lookups": curve.lookups,
        "ni_misses_compulsory": curve.compulsory,
    }
    ratio = {"miss_ratio": columns["ni_misses"] / max(curve.lookups, 1)}
    every = {name: [value] * rows for name, value in shared.items()} | columns | ratio
    arrays = [
        pa.nulls(rows, field.type)
        if every[field.name] is None
        else pa.array(every[field.name], field.type)
        for field in schema
    ]
    return pa.table(arrays, schema=schema)


def _full_columns(curve: MissCurve) -> dict[str, Any]:
    """Fully associative: every size at which misses change, and the powers of two."""
    if curve.every_size is None:
        sizes = by_output_name(curve.sizes._asdict())
        return sizes | {"ways": None, "ni_misses_capacity": None, "ni_misses_conflict": None}
    misses = curve.every_size
    changes = (np.flatnonzero(np.diff(misses)) + 1) * curve.group
    lines = np.union1d(changes, np.array(curve.powers(), np.int64) // curve.line)
    found = misses[np.minimum(lines // curve.group, len(misses) - 1)].astype(np.int64)
    return {
        "entries": lines * curve.line,
        "ways": None,
        "ni_misses": found,
        "ni_misses_low": found,
        "ni_misses_high": found,
        "ni_misses_capacity": found - curve.compulsory,
        "ni_misses_conflict": np.zeros(len(found), np.int64),
    }


def _set_columns(curve: MissCurve) -> Iterator[dict[str, Any]]:
    """Set-associative: a row per shape, if there are any."""
    if curve.points:
        entries, ways, misses, _, capacity, conflict = np.array(curve.points).T
        yield {
            "entries": entries,
            "ways": ways,
            "ni_misses": misses,
            "ni_misses_low": misses,
            "ni_misses_high": misses,
            "ni_misses_capacity": capacity,
            "ni_misses_conflict": conflict,
        }


def _largest_caches(curves: Sequence[MissCurve]) -> str:
    """The range over the curves of the largest caches' misses."""
    rates = [(100 * curve.ratio(float(curve.sizes.misses[-1])), curve.name) for curve in curves]
    (low, least), (high, most) = min(rates), max(rates)
    return (
        f"Of {whole(len(curves))} curves, the largest cache of {least} misses {per_hundred(low)} "
        f"of 100 lookups, the fewest, and that of {most} {per_hundred(high)}, the most."
    )


def _curve_in_words(curve: MissCurve) -> str:
    def rate(misses: float) -> str:
        return per_hundred(100 * curve.ratio(misses))

    low, high = curve.powers()[0], curve.powers()[-1]
    least, most = (curve.sizes.at(entries) for entries in (high, low))
    if curve.knee is None:
        if rate(least) == rate(most):
            return (
                f"{curve.name}: a cache misses {rate(most)} of 100 lookups, whether it has "
                f"{whole(low)} entries or {whole(high)}."
            )
        return (
            f"{curve.name}: from {whole(low)} to {whole(high)} entries misses fall from "
            f"{rate(most)} to {rate(least)} of 100 lookups, and no size stands out."
        )
    told = (
        f"{curve.name}: misses fall fastest up to about {whole(curve.knee)} entries, where a fully "
        f"associative cache misses {rate(curve.sizes.at(curve.knee))} of 100 lookups"
    )
    simplest = [point for point in curve.points if point.entries == curve.knee]
    if simplest:
        told += f" and a {simplest[0].ways}-way one {rate(simplest[0].misses)}"
    if curve.knee != high:
        told += f"; {whole(high)} entries miss {rate(least)}"
    return f"{told}."
