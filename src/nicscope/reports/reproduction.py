"""What the papers printed beside what comes out: on a terminal, as Markdown, as files."""

from __future__ import annotations

import re
import shlex
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from nicscope.reports.page import markdown_table
from nicscope.reports.printing import INDENT, Rows, heading, rows_of, said
from nicscope.reports.result import Report, tidy
from nicscope.reports.summaries import of_reproduction
from nicscope.reports.wording import per_hundred
from nicscope.studies.reproduce.verdict import Shape
from nicscope.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nicscope.reports.printing import Printed
    from nicscope.studies.reproduce.verdict import (
        Layout,
        Missing,
        Offered,
        Point,
        Reproduction,
        Row,
        StudyTable,
    )


_QUANTITY = re.compile(r"(.*?)(?:\[(.*)\])? (\S+)")
MET, MISS, KNOWN_MISS = "✓ ok", "✗ MISS", "✗ known"
# Blue and orange stay apart for every kind of colour vision; sign and word say it without colour.
STYLES = {MET: "blue", MISS: "bold dark_orange", KNOWN_MISS: "dark_orange"}


def verdict(check: Point | Shape) -> str:
    """A word and a sign, so that no colour is needed to tell them apart."""
    if check.ok:
        return MET
    return MISS if check.known_miss is None else KNOWN_MISS


def name_of(check: Point | Shape) -> str:
    """What the catalog calls a number or a statement."""
    return check.name if isinstance(check, Shape) else check.quantity


def command_of(wanted: Sequence[str]) -> str:
    """The command that reproduces what was asked for again, as a shell reads it."""
    return shlex.join(["nicscope", "reproduce", *wanted])


class Placed(NamedTuple):
    """A number of a paper, and where it stands on the axes of its quantity."""

    name: str
    unit: str
    at: dict[str, str]
    point: Point


def placed(point: Point) -> Placed:
    """``point`` with its quantity taken apart: ``pin[pages=8] us``."""
    match = _QUANTITY.fullmatch(point.quantity)
    if match is None:
        return Placed(point.quantity, "", {}, point)
    axes = [each.partition("=") for each in (match[2] or "").split(", ") if each]
    return Placed(match[1], match[3], {name: value for name, _, value in axes}, point)


def summary_line(found: Reproduction) -> str:
    """One sentence with every count of the summary."""
    counts = found.summary()
    several = "es" if len(found.met) != 1 else ""
    met = f"; {len(found.met)} known miss{several} met" if found.met else ""
    return (
        f"{counts.ok} of {counts.points} numbers within tolerance ({counts.predicted} predicted, "
        f"{counts.fitted} fitted); {counts.shapes_ok} of {counts.shapes} statements hold "
        f"({counts.shapes_predicted} predicted); {counts.known_misses} known misses, "
        f"{counts.new_misses} new{met}; {counts.identities} identities among all these, whose "
        f"numbers are not counted; {counts.missing} items missing; {counts.studies} studies "
        "without verdict"
    )


def off_by(check: Point | Shape) -> str:
    """How far a number is off, or what speaks against a statement."""
    if isinstance(check, Shape):
        return check.evidence
    return f"off by {check.reproduced - check.published:.6g}"


def share(value: float | None) -> str:
    """A share in percent, or a dash where there is none."""
    return "-" if value is None else f"{100 * value:.2f} %"


NUMBERS = {
    "paper": "string",
    "item": "string",
    "quantity": "string",
    "published": "float64",
    "reproduced": "float64",
    "relative_error": "float64",
    "tolerance": "float64",
    "basis": "string",
    "because": "string",
    "baseline": "float64",
    "ok": "bool",
    "known_miss": "string",
}
STATEMENTS = {
    "paper": "string",
    "item": "string",
    "statement": "string",
    "ok": "bool",
    "evidence": "string",
    "basis": "string",
    "because": "string",
    "known_miss": "string",
}


def reproduction_tables(found: Reproduction) -> Iterator[tuple[str, Any]]:
    """Yield names and tables: of printed numbers, of statements, and of each study."""
    yield "numbers", _plain(found.points, NUMBERS)
    yield "statements", _plain(found.shapes, STATEMENTS)
    for table in found.tables:
        yield study_table(table)


def _plain(checks: Sequence[Point] | Sequence[Shape], kinds: dict[str, str]) -> Any:
    """``checks`` as an Arrow table with a column for each of ``kinds``."""
    rows = [[getattr(one, "id" if name == "item" else name) for name in kinds] for one in checks]
    return tidy(kinds, rows)


def study_table(table: StudyTable) -> tuple[str, Any]:
    """Its name, and one row per application and place, as ``rows`` of the JSON has them."""
    import pyarrow as pa

    axes = [(axis.key, pa.int64()) for axis in table.layout.axes]
    measures = [(name, pa.float64()) for name in table.layout.measures]
    schema = pa.schema([("application", pa.string()), *axes, *measures])
    return f"{table.paper}_{table.id}", pa.Table.from_pylist(table.rows, schema=schema)


_NUMBERS = ("published", "reproduced", "error", "tolerance", "baseline", "its error")


def as_markdown(found: Reproduction, wanted: Sequence[str]) -> str:
    """The page; ``wanted`` is what was asked for, so that it can be repeated."""
    item: dict[str, Callable[[Any], str]] = {"item": lambda one: f"{one.paper}/{one.id}"}
    why = item | {"why": lambda one: one.why}
    label: dict[str, Callable[[Any], str]] = {
        "basis": lambda one: one.basis.value,
        "because": lambda one: one.because,
        "": verdict,
    }
    numbers = item | {
        "quantity": lambda point: point.quantity,
        "published": lambda point: f"{point.published:g}",
        "reproduced": lambda point: f"{point.reproduced:.6g}",
        "error": lambda point: share(point.relative_error),
        "tolerance": lambda point: share(point.tolerance),
        "baseline": lambda point: "-" if point.baseline is None else f"{point.baseline:.6g}",
        "its error": lambda point: share(point.baseline_error),
    }
    statements = item | {
        "statement": lambda shape: shape.statement,
        "evidence": lambda shape: shape.evidence,
    }
    named = item | {
        "number or statement": name_of,
        "why": lambda one: one.known_miss or off_by(one),
    }
    formulas = {"item": lambda pair: pair[0], "formula": lambda pair: pair[1]}
    misses = found.misses()
    lines = ["# Reproduction", "", f"`{command_of(wanted)}`, nicscope {__version__}.", ""]
    lines.append(f"{summary_line(found)}.")
    for title, things, columns in (
        ("Numbers", found.points, numbers | label),
        ("Statements", found.shapes, statements | label),
        ("Baselines, by pencil and paper", [*found.baselines.items()], formulas),
        ("Known misses", [one for one in misses if one.known_miss is not None], named),
        ("New misses", [one for one in misses if one.known_miss is None], named),
        ("Known misses that are met now", found.met, item | {"name": lambda one: one.name}),
        ("Missing", found.missing, why),
        ("Studies without a verdict", found.studies, why),
    ):
        words = [name for name in columns if name not in _NUMBERS]
        lines += ["", f"## {title}", "", *markdown_table(rows_of("", things, columns, words=words))]
    return "\n".join(lines) + "\n"


MOST_NOTES = 3
OWN = "own implementation and inputs"


def study_parts(table: StudyTable) -> Iterator[Printed]:
    """The study of our traces, what the paper prints, and how far both can be compared."""
    yield heading(f"{table.paper}/{table.id} ({table.where})")
    yield said(table.what)
    yield said(f"{table.unit}; {table.conditions}")
    yield said(origin_of(table))
    yield ""
    yield study_rows(table.layout, table.rows)
    for note in table.notes[:MOST_NOTES]:
        yield said(f"note: {note}")
    if len(table.notes) > MOST_NOTES:
        yield said(f"note: {len(table.notes) - MOST_NOTES} more such notes with --json")
    yield ""
    if not table.printed:
        yield said(comparison_of(table))
        return
    yield said(f"the paper prints, for orientation; {comparison_of(table)}")
    if table.printed_note is not None:
        yield said(table.printed_note)
    yield ""
    yield study_rows(table.layout, table.printed)


def origin_of(table: StudyTable) -> str:
    """Which traces they are."""
    count = len(table.traces)
    if table.programs is not None:
        sizes = ", ".join(
            f"{one['application']} {one['origin']['problem_size']}" for one in table.traces
        )
        if table.reduction == 1:
            return f"over programs run for it (same algorithm and problem size, {OWN}): {sizes}"
        return (
            f"over programs run for it at REDUCED sizes (same algorithm, {OWN}): {sizes}; caches "
            f"and pin limits are 1/{table.reduction} of the paper's; --programs paper runs those"
        )
    return f"over {count} trace{'s' * (count > 1)}, each a program of its own"


def comparison_of(table: StudyTable) -> str:
    """What the printed cells are worth beside ours."""
    if not table.comparable:
        return f"no verdict: NOT COMPARABLE, {table.why}"
    others = len(table.traces) - len(table.comparable)
    rest = f"; NOT COMPARABLE with the other {others}" if others else ""
    if table.programs is not None:
        return f"verdicts above for {', '.join(table.comparable)}{rest}"
    return f"verdicts above for {', '.join(table.comparable)}, which say they are the paper's{rest}"


def study_rows(layout: Layout, rows: Sequence[Row]) -> Rows:
    """The lines of every place, with the columns of every application; blank where it has none."""
    names = list(dict.fromkeys(row["application"] for row in rows))
    labelled = any(line.label for line in layout.lines)
    index = {(row["application"], *_place(layout, row)): row for row in rows}
    cells = []
    for place in dict.fromkeys(_place(layout, row) for row in rows):
        for number, line in enumerate(layout.lines):
            # A place is told on its first line only.
            key = [_number(value) if not number else "" for value in place]
            cells.append(
                [
                    *key,
                    *[line.label] * labelled,
                    *(
                        _cell(index.get((name, *place), {}), measure)
                        for name in names
                        for measure in line.measures
                    ),
                ]
            )
    axes = len(layout.axes)
    has_heads = any(layout.columns)
    heads = [head for name in names for head in (layout.columns if has_heads else (name,))]
    return Rows(
        "",
        [*(axis.heading for axis in layout.axes), *[""] * labelled, *heads],
        cells,
        left=(axes,) * labelled,
        key=axes + labelled,
        prose=(),
        groups=tuple((name if has_heads else "", len(layout.columns)) for name in names),
    )


def _place(layout: Layout, row: Row) -> tuple[Any, ...]:
    return tuple(row[axis.key] for axis in layout.axes)


def _number(value: int) -> str:
    """As the papers write sizes of caches: 1 K."""
    return f"{value // 1024} K" if value >= 1024 and value % 1024 == 0 else str(value)


def _cell(row: Row, measure: str | None) -> str:
    if not row:
        return ""
    if measure is None or row.get(measure) is None:
        return "-"
    value = row[measure]
    return f"{value:,}" if isinstance(value, int) else per_hundred(value)


def study_files(table: StudyTable) -> Iterator[tuple[str, Any]]:
    """Yield the table and the figures."""
    from nicscope.reports.figures.studies import draw_study

    called, rows = study_table(table)
    yield f"{called}.parquet", rows
    for name, figure in draw_study(table):
        yield f"{called}{name}", figure


class ShownReproduction(Report):
    """What was checked, what came out, what has no verdict, what is missing.

    ``wanted`` is what was asked for, so that it can be repeated; ``tell`` hears of each study
    before its files are made.
    """

    found: Reproduction
    topic = "reproduce"
    is_headed = False

    def __init__(
        self,
        found: Reproduction,
        wanted: Sequence[str] = (),
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        super().__init__(found)
        self.wanted = wanted
        self.tell = tell

    def summary(self) -> list[str]:
        """How much of it comes out."""
        return of_reproduction(self.found)

    def parts(self) -> Iterator[Printed]:
        """The checks, item by item, then what has no verdict or is missing, then the counts."""
        found = self.found
        points = {key: list(group) for key, group in groupby(found.points, _key)}
        shapes = {key: list(group) for key, group in groupby(found.shapes, _key)}
        for key in sorted({*points, *shapes}):
            name = "/".join(key)
            yield heading(name)
            if key in points:
                yield point_rows(points[key])
            if key in shapes:
                yield shape_rows(shapes[key])
            yield from baseline_parts(points.get(key, []), found.baselines.get(name))
            yield ""
        for table in found.tables:
            yield from study_parts(table)
            yield ""
        if found.studies:
            yield heading("studies: rows for any traces, without a verdict")
            yield reason_rows(found.studies)
            yield said("run one by its name: nicscope reproduce utlb/table4 [--trace DIR]")
            yield ""
        if found.missing:
            yield heading("not reproduced yet")
            yield reason_rows(found.missing)
            yield ""
        yield from miss_parts(found)
        if found.points or found.shapes or found.missing or found.studies:
            yield said(summary_line(found))

    def tables(self) -> Iterator[tuple[str, Any]]:
        """Yield a row per printed number; per statement; per application of each study."""
        yield from reproduction_tables(self.found)

    def files(self) -> Iterator[tuple[str, Any]]:
        """Yield both pages, and of each study a table and its figures."""
        from nicscope.reports.reproduction_page import Pictures, page_of

        yield "results.md", as_markdown(self.found, self.wanted)
        pictures = Pictures()
        for table in self.found.tables:
            self.tell(f"{table.paper}/{table.id}")
            for name, content in study_files(table):
                yield name, content
                pictures.take(f"{table.paper}/{table.id}", name, content)
        yield "index.html", page_of(self.found, self.wanted, pictures, summary_line(self.found))


def baseline_parts(points: Sequence[Point], formula: str | None) -> Iterator[Printed]:
    """The formula that stands beside the predictions of an item, and how far both are off."""
    if formula is None:
        return
    both = [
        (abs(point.relative_error), abs(point.baseline_error))
        for point in points
        if point.relative_error is not None and point.baseline_error is not None
    ]
    if both:
        ours, theirs = (sum(errors) / len(both) for errors in zip(*both, strict=True))
        yield said(f"mean error: ours {share(ours)}, the baseline's {share(theirs)}")
    yield said(f"baseline: {formula}")


def miss_parts(found: Reproduction) -> Iterator[Printed]:
    """Why the known misses miss, which misses are new, and which known ones are none any more."""
    misses = found.misses()
    for title, listed in (
        ("known misses", [(one, one.known_miss) for one in misses if one.known_miss is not None]),
        (
            "new misses: not listed, or further off than listed, in the catalog's misses",
            [(one, off_by(one)) for one in misses if one.known_miss is None],
        ),
    ):
        if listed:
            yield heading(title)
            rows = [[f"{one.paper}/{one.id}", f"{name_of(one)}: {why}"] for one, why in listed]
            yield Rows("", ["", ""], rows, left=(0, 1))
            yield ""
    if found.met:
        yield heading("known misses that are met now: take them off the list")
        rows = [[f"{one.paper}/{one.id}", one.name] for one in found.met]
        yield Rows("", ["", ""], rows, left=(0, 1))
        yield ""


def _key(check: Point | Shape) -> tuple[str, str]:
    return check.paper, check.id


def point_rows(points: Sequence[Point]) -> Rows:
    """Printed numbers beside ours: a line for each quantity and basis, below it its places."""
    has_baseline = any(point.baseline is not None for point in points)
    headings = ["", "printed", "ours", "error", "within", *["baseline"] * has_baseline, ""]
    cells: list[list[str]] = []
    for name, group in groupby(points, _quantity_and_basis):
        places = list(map(placed, group))
        if len(places) > 1 or places[0].at:
            cells.append([name, *[""] * (len(headings) - 1)])
        for place in places:
            point, at = (
                place.point,
                ", ".join(f"{axis}={value}" for axis, value in place.at.items()),
            )
            numbers = [
                f"{point.published:g}",
                f"{point.reproduced:.6g}",
                share(point.relative_error),
                share(point.tolerance),
                *["-" if point.baseline is None else f"{point.baseline:.6g}"] * has_baseline,
            ]
            cells.append([INDENT + at if at else name, *numbers, verdict(point)])
    last = len(headings) - 1
    least = ("baseline", "within", "error", "printed", "ours")
    return Rows("", headings, cells, left=(0, last), prose=(0,), least=least, styles=STYLES)


def _quantity_and_basis(point: Point) -> str:
    """What heads the places of a quantity, such as ``pin us, identity``."""
    one = placed(point)
    return f"{one.name} {one.unit}".strip() + f", {point.basis.value}"


def shape_rows(shapes: Sequence[Shape]) -> Rows:
    """Statements of the papers, each with its label and what shows whether it holds."""
    cells = []
    for shape in shapes:
        cells += [
            [verdict(shape), f"{shape.statement} ({shape.basis.value})"],
            ["", shape.evidence],
        ]
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
