"""What the papers printed beside what comes out, on a terminal, as a Markdown page and as files."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from nicscope import __version__
from nicscope.reports.page import markdown_table
from nicscope.reports.result import Report
from nicscope.reports.study import study_files, study_parts
from nicscope.reports.table import Rows, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nicscope.reports.printing import Printed
    from nicscope.studies.reproduce.verdict import Missing, Offered, Point, Reproduction, Shape


def verdict(ok: bool) -> str:
    """A word and a sign, so that no colour is needed to tell them apart."""
    return "✓ ok" if ok else "✗ MISS"


# Blue and orange stay apart for every kind of colour vision; sign and word say it without colour.
STYLES = {verdict(True): "blue", verdict(False): "bold dark_orange"}


class ShownReproduction(Report):
    """What was checked, what came out, what has no verdict, what is missing.

    ``wanted`` is what was asked for, so that it can be repeated; ``tell`` hears of each study
    before its files are made.
    """

    found: Reproduction

    def __init__(
        self,
        found: Reproduction,
        wanted: Sequence[str] = (),
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        super().__init__(found)
        self.wanted = wanted
        self.tell = tell

    def parts(self) -> Iterator[Printed]:
        """The checks, item by item, then what has no verdict or is missing, then the counts."""
        from rich.text import Text

        found = self.found
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
            yield reason_rows(found.studies)
            yield Text("run one by its name: nicscope reproduce utlb/table4 [--trace DIR]")
            yield Text()
        if found.missing:
            yield Text("not reproduced yet", style="bold")
            yield reason_rows(found.missing)
            yield Text()
        if found.points or found.shapes or found.missing or found.studies:
            yield Text(summary_line(found))

    def files(self) -> Iterator[tuple[str, Any]]:
        """Yield the page, then of each study a table and its figures."""
        yield "results.md", as_markdown(self.found, self.wanted)
        for table in self.found.tables:
            self.tell(f"{table.paper}/{table.id}")
            yield from study_files(table)


def as_markdown(found: Reproduction, wanted: Sequence[str]) -> str:
    """The page; ``wanted`` is what was asked for, so that it can be repeated."""
    command = " ".join(["nicscope reproduce", *wanted])
    item: dict[str, Callable[[Any], str]] = {"item": lambda one: f"{one.paper}/{one.id}"}
    why = item | {"why": lambda one: one.why}
    statements = item | {
        "statement": lambda shape: shape.statement,
        "evidence": lambda shape: shape.evidence,
        "": lambda shape: verdict(shape.ok),
    }
    numbers = item | (_POINT | {"": _POINT["verdict"]})
    del numbers["verdict"]
    lines = ["# Reproduction", "", f"`{command}`, nicscope {__version__}.", ""]
    lines.append(f"{summary_line(found)}.")
    for title, things, columns in (
        ("Numbers", found.points, numbers),
        ("Statements", found.shapes, statements),
        ("Missing", found.missing, why),
        ("Studies without a verdict", found.studies, why),
    ):
        words = [name for name in columns if name not in _NUMBERS]
        lines += ["", f"## {title}", "", *markdown_table(rows_of("", things, columns, words=words))]
    return "\n".join(lines) + "\n"


def summary_line(found: Reproduction) -> str:
    """One sentence with every count of the summary."""
    counts = found.summary()
    handed_back = len(found.points) - counts.points
    return (
        f"{counts.ok} of {counts.points} numbers within tolerance ({counts.predicted} predicted, "
        f"{counts.fitted} fitted); {counts.shapes_ok} of {counts.shapes} statements hold; "
        f"{handed_back} constants handed back, not counted; {counts.missing} items missing; "
        f"{counts.studies} studies without verdict"
    )


def _share(value: float | None) -> str:
    """A share in percent, or a dash where there is none."""
    return "-" if value is None else f"{100 * value:.2f} %"


def _key(check: Point | Shape) -> tuple[str, str]:
    return check.paper, check.id


_POINT: dict[str, Callable[[Point], str]] = {
    "quantity": lambda point: point.quantity,
    "published": lambda point: f"{point.published:g}",
    "reproduced": lambda point: f"{point.reproduced:.6g}",
    "error": lambda point: _share(point.relative_error),
    "tolerance": lambda point: _share(point.tolerance),
    "basis": lambda point: point.basis.value,
    "verdict": lambda point: verdict(point.ok),
}
_NUMBERS = ("published", "reproduced", "error", "tolerance")


def point_rows(points: Sequence[Point]) -> Rows:
    """Published numbers beside reproduced ones."""
    return rows_of(
        "",
        points,
        _POINT,
        words=("quantity", "basis", "verdict"),
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


def reason_rows(items: Sequence[Missing | Offered]) -> Rows:
    """Items of the papers, each with why it has no verdict."""
    return Rows("", ["", ""], [[f"{one.paper}/{one.id}", one.why] for one in items], left=(0, 1))
