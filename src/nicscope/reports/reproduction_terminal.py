"""What the papers printed beside what comes out, on a terminal."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from nicscope.reports.study_rows import study_parts
from nicscope.reports.table import Rows
from nicscope.studies.reproduce.markdown import share, summary_line, verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nicscope.reports.printing import Printed
    from nicscope.studies.reproduce.verdict import Point, Reproduction, Shape

# Blue and orange stay apart for every kind of colour vision; sign and word say it without colour.
STYLES = {verdict(True): "blue", verdict(False): "bold dark_orange"}


def reproduction_parts(found: Reproduction) -> Iterator[Printed]:
    """The checks, item by item, then what has no verdict or is missing, then the counts."""
    from rich.text import Text

    points = {key: list(group) for key, group in groupby(found.points, _key)}
    shapes = {key: list(group) for key, group in groupby(found.shapes, _key)}
    for key in sorted({*points, *shapes}):
        yield Text("/".join(key), style="bold")
        if key in points:
            yield point_rows(points[key])
        if key in shapes:
            yield shape_rows(shapes[key])
        yield Text()
    for table in found.tables:
        yield from study_parts(table)
        yield Text()
    if found.studies:
        yield Text("studies: rows for any traces, without a verdict", style="bold")
        yield reason_rows([(f"{one.paper}/{one.id}", one.why) for one in found.studies])
        yield Text("run one by its name: nicscope reproduce utlb/table4 [--trace DIR]")
        yield Text()
    if found.missing:
        yield Text("not reproduced yet", style="bold")
        yield reason_rows([(f"{gap.paper}/{gap.id}", gap.why) for gap in found.missing])
        yield Text()
    if found.points or found.shapes or found.missing or found.studies:
        yield Text(summary_line(found))


def _key(check: Point | Shape) -> tuple[str, str]:
    return check.paper, check.id


def point_rows(points: Sequence[Point]) -> Rows:
    """Published numbers beside reproduced ones."""
    return Rows(
        "",
        ["quantity", "published", "reproduced", "error", "tolerance", "basis", "verdict"],
        [
            [
                point.quantity,
                f"{point.published:g}",
                f"{point.reproduced:.6g}",
                share(point.relative_error),
                share(point.tolerance),
                point.basis.value,
                verdict(point.ok),
            ]
            for point in points
        ],
        left=(0, 5, 6),
        prose=(0,),
        least=("basis", "tolerance", "error", "published", "reproduced"),
        styles=STYLES,
    )


def shape_rows(shapes: Sequence[Shape]) -> Rows:
    """Statements of the papers, each with what shows whether it holds."""
    cells = []
    for shape in shapes:
        cells += [[verdict(shape.ok), shape.statement], ["", shape.evidence]]
    return Rows(
        "",
        ["", ""],
        cells,
        left=(0, 1),
        styles=STYLES,
        row_styles=dict.fromkeys(range(1, len(cells), 2), "dim"),
    )


def reason_rows(reasons: Sequence[tuple[str, str]]) -> Rows:
    """Items of the papers, each with why it has no verdict."""
    return Rows("", ["", ""], [list(pair) for pair in reasons], left=(0, 1))
