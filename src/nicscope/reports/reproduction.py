"""What the papers printed beside what comes out: on a terminal, as Markdown, as one HTML page."""

from __future__ import annotations

import base64
import shlex
from io import BytesIO
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nicscope.reports.number_panels import figures, placed
from nicscope.reports.page import Markup, element, html_table, joined, markdown_table
from nicscope.reports.printing import INDENT, Printed, Rows, heading, rows_of, said
from nicscope.reports.result import Column, Report, table_of
from nicscope.reports.wording import listed, per_hundred
from nicscope.studies.reproduce.harness import load_papers
from nicscope.studies.reproduce.verdict import (
    Basis,
    Item,
    Layout,
    Paper,
    Point,
    Reproduction,
    Row,
    Shape,
    StudyTable,
    Unjudged,
)
from nicscope.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence


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


NUMBERS: dict[str, Column] = {
    "paper": ("string", "paper"),
    "item": ("string", "id"),
    "quantity": ("string", "quantity"),
    "published": ("float64", "published"),
    "reproduced": ("float64", "reproduced"),
    "relative_error": ("float64", "relative_error"),
    "tolerance": ("float64", "tolerance"),
    "basis": ("string", "basis"),
    "because": ("string", "because"),
    "baseline": ("float64", "baseline"),
    "ok": ("bool", "ok"),
    "known_miss": ("string", "known_miss"),
}
STATEMENTS: dict[str, Column] = {
    "paper": ("string", "paper"),
    "item": ("string", "id"),
    "statement": ("string", "statement"),
    "ok": ("bool", "ok"),
    "evidence": ("string", "evidence"),
    "basis": ("string", "basis"),
    "because": ("string", "because"),
    "known_miss": ("string", "known_miss"),
}


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


def _cell(row: Row, measure: str) -> str:
    if not row:
        return ""
    if row.get(measure) is None:
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
        found = self.found
        counts = found.summary()
        parts = []
        if counts.points:
            parts.append(
                f"{counts.ok} of {counts.points} printed numbers come out within tolerance"
            )
        if counts.shapes:
            parts.append(f"{counts.shapes_ok} of {counts.shapes} statements hold")
        if not parts:
            if not found.tables:
                return []
            names = listed([f"{table.paper}/{table.id}" for table in found.tables])
            return [f"{names} over traces that are not the papers' own: there is nothing to check."]
        told = f"{' and '.join(parts)}; what is arithmetic on printed numbers alone is not counted."
        missed = (
            f"{counts.known_misses} misses are known and explained below, {counts.new_misses} new."
        )
        return [f"{told[0].upper()}{told[1:]}", missed]

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
        yield "numbers", table_of(self.found.points, NUMBERS)
        yield "statements", table_of(self.found.shapes, STATEMENTS)
        yield from map(study_table, self.found.tables)

    def files(self) -> Iterator[tuple[str, Any]]:
        """Yield both pages, and of each study a table and its figures."""
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
    for title, why_of in (
        ("known misses", [(one, one.known_miss) for one in misses if one.known_miss is not None]),
        (
            "new misses: not listed, or further off than listed, in the catalog's misses",
            [(one, off_by(one)) for one in misses if one.known_miss is None],
        ),
    ):
        if why_of:
            yield heading(title)
            rows = [[f"{one.paper}/{one.id}", f"{name_of(one)}: {why}"] for one, why in why_of]
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


def reason_rows(items: Sequence[Unjudged]) -> Rows:
    """Items of the papers, each with why it has no verdict."""
    return Rows("", ["", ""], [[f"{one.paper}/{one.id}", one.why] for one in items], left=(0, 1))


_HEADS = ("paper", "numbers within tolerance", "statements that hold", "known misses", "new misses")


def overview(papers: Iterable[Paper], found: Reproduction) -> Markup:
    """A table with a line for each paper: its name, which leads to it, and how much is met.

    Numbers that are identities are left out, as in the summary.
    """
    head = element("tr", *(element("th", each, scope="col") for each in _HEADS))
    rows = [_line(paper, found) for paper in papers]
    table = element("table", element("thead", head), element("tbody", *rows))
    return element("nav", table, id="overview", aria_label="The papers")


def _checks(found: Reproduction, paper: str) -> tuple[list[Point], list[Point], list[Shape]]:
    """The numbers of ``paper``, those that are no identities, and its statements."""
    points = [one for one in found.points if one.paper == paper]
    counted = [one for one in points if one.basis is not Basis.IDENTITY]
    return points, counted, [one for one in found.shapes if one.paper == paper]


def _line(paper: Paper, found: Reproduction) -> Markup:
    points, counted, shapes = _checks(found, paper.key)
    verdicts = [*map(verdict, points), *map(verdict, shapes)]
    cells = [
        f"{sum(one.ok for one in some)} of {len(some)}" if some else "none"
        for some in (counted, shapes)
    ]
    cells += [str(verdicts.count(each)) for each in (KNOWN_MISS, MISS)]
    name = element("th", element("a", paper.title, href=f"#{paper.key}"), scope="row")
    named = zip(_HEADS[1:], cells, strict=True)
    return element("tr", name, *(element("td", cell, data_head=head) for head, cell in named))


def contents(paper: Paper, shown: Collection[str]) -> Markup:
    """A list, to be unfolded, of the items ``shown`` of ``paper``, each leading to its place."""
    links = [
        element("li", element("a", item_heading(paper.items[name]), href=f"#{paper.key}/{name}"))
        for name in shown
    ]
    count = f"{len(links)} tables, figures and claims" if len(links) > 1 else "One item"
    return element("details", element("summary", count), element("ul", *links), class_="contents")


def item_heading(item: Item) -> str:
    """Where the paper has ``item``, and what it is."""
    return f"{item.where}: {item.what}"


HERE = Path(__file__)
MOST_PICTURED = 5 << 20  # bytes of pictures of studies: the page is to stay below 10 MB
# The page loads nothing, from nowhere.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
# Of each verdict what the filters go by, and how the page says it.
OUTCOMES = {
    MET: ("met", "✓ met"),
    KNOWN_MISS: ("known", "✗ known miss"),
    MISS: ("new", "✗ new miss"),
}

LABELS = {
    Basis.PREDICTED: "could have come out otherwise",
    Basis.FITTED: "a constant was chosen while the answer was known",
    Basis.IDENTITY: "so by arithmetic or construction; never counted",
}
_QUANTITIES = ("printed", "here", "error", "within")


class Pictures:
    """Pictures of studies by PAPER/ID, as SVG, as many as the page has room for."""

    def __init__(self) -> None:
        self._found: dict[str, list[tuple[str, bytes | None]]] = {}
        self._left = MOST_PICTURED

    def take(self, called: str, name: str, content: Any) -> None:
        """Keep ``content``, a file of the study ``called``, if it is a figure; or its name."""
        if not hasattr(content, "savefig"):
            return
        from nicscope.reports.figures.style import save

        save(content, drawn := BytesIO(), "svg")
        size = len(drawn.getvalue()) * 4 // 3
        fits = size <= self._left
        self._left -= size if fits else 0
        self._found.setdefault(called, []).append((name, drawn.getvalue() if fits else None))

    def of(self, called: str) -> list[tuple[str, bytes | None]]:
        """(name, picture) of each figure of that study; None: no room, it is in the folder."""
        return self._found.get(called, [])


def page_of(found: Reproduction, wanted: Sequence[str], pictures: Pictures, summary: str) -> str:
    """The page as text; ``wanted`` is what was asked for, ``summary`` the counts in a sentence."""
    lists = (found.points, found.shapes, found.missing, found.studies, found.tables)
    there = {one.paper for things in lists for one in things}
    papers = [paper for key, paper in load_papers().items() if key in there]
    sections = [_paper(paper, found, pictures, _traces_of(wanted)) for paper in papers]
    body = [
        element("a", "Skip to the papers", href="#papers", class_="skip"),
        element(
            "header",
            element("h1", "What the papers published, and what comes out here"),
            element("p", f"{summary}."),
            element("p", "The command that repeats it, with nicscope ", __version__, ":"),
            element("pre", command_of(wanted), tabindex="0"),
        ),
        overview(papers, found),
        _filters(papers),
        element("main", *sections, id="papers", tabindex="-1"),
    ]
    head = [
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", "nicscope: the papers reproduced"),
        element("style", Markup(HERE.with_suffix(".css").read_text("utf-8"))),
    ]
    script = element("script", Markup(HERE.with_suffix(".js").read_text("utf-8")))
    whole = element("html", element("head", *head), element("body", *body, script), lang="en")
    return f"<!doctype html>\n{whole}\n"


def _traces_of(wanted: Sequence[str]) -> list[str]:
    """Those of the arguments ``wanted`` that name traces, with their options."""
    pairs = pairwise(wanted)
    return [word for option, name in pairs if option == "--trace" for word in (option, name)]


def _filters(papers: Sequence[Paper]) -> Markup:
    """A form that works on what stands below it; without scripts all of that is shown."""
    options = [element("option", "all", value="")]
    options += [element("option", paper.title, value=paper.key) for paper in papers]
    labels = [_box("label", basis.value, basis.value, told) for basis, told in LABELS.items()]
    verdicts = [_box("verdict", name, told, None) for name, told in OUTCOMES.values()]
    return element(
        "form",
        element(
            "div",
            element("label", "Paper", for_="paper"),
            element("select", *options, id="paper"),
        ),
        element("fieldset", element("legend", "Label"), *labels),
        element("fieldset", element("legend", "Outcome"), *verdicts),
        element(
            "div",
            element("label", "Words", for_="words"),
            element("input", type="search", id="words", placeholder="such as miss rate"),
        ),
        element("p", id="count", role="status"),
        element("button", "Show all", type="button", id="all"),
        id="filters",
        role="search",
        aria_label="What is shown",
        hidden=True,
    )


def _box(kind: str, value: str, text: str, more: str | None) -> Markup:
    name = f"{kind}-{value}"
    return element(
        "label",
        element("input", type="checkbox", id=name, name=kind, value=value, checked=True),
        f" {text}",
        None if more is None else element("small", f" {more}"),
        for_=name,
    )


def _paper(paper: Paper, found: Reproduction, pictures: Pictures, traces: list[str]) -> Markup:
    every = {
        name: _item(paper, name, item, found, pictures, traces)
        for name, item in paper.items.items()
    }
    items = {name: item for name, item in every.items() if item is not None}
    _, counted, shapes = _checks(found, paper.key)
    words = [
        f"{sum(one.ok for one in counted)} of {len(counted)} numbers that are no identities are "
        "within tolerance."
    ] * bool(counted)
    words += [f"{sum(one.ok for one in shapes)} of {len(shapes)} statements hold."] * bool(shapes)
    return element(
        "section",
        element("h2", paper.title),
        element("p", " ".join(words)) if words else None,
        element("p", "Again: ", element("code", f"nicscope reproduce {paper.key}")),
        contents(paper, items),
        *items.values(),
        class_="paper",
        data_paper=paper.key,
        id=paper.key,
    )


def _item(
    paper: Paper,
    name: str,
    item: Item,
    found: Reproduction,
    pictures: Pictures,
    traces: list[str],
) -> Markup | None:
    """One table, figure or claim; None if nothing was asked about it."""

    def mine(things: Sequence) -> list:  # type: ignore[type-arg]
        return [one for one in things if (one.paper, one.id) == (paper.key, name)]

    points, shapes, tables = mine(found.points), mine(found.shapes), mine(found.tables)
    reasons = [("Not reproduced: ", one.why) for one in mine(found.missing)]
    reasons += [("Comes out for any traces: ", one.why) for one in mine(found.studies)]
    met = [("Listed as a miss, and met now: ", f"{one.name}: {one.why}") for one in mine(found.met)]
    if not (points or shapes or tables or reasons):
        return None
    called = f"{paper.key}/{name}"
    formula = found.baselines.get(called)
    return element(
        "article",
        element("h3", item_heading(item)),
        element("p", "Again: ", element("code", command_of([called, *traces * bool(tables)]))),
        *figures(points),
        _numbers(points) if points else None,
        None if formula is None else element("p", f"Baseline, by pencil and paper: {formula}"),
        _statements(shapes) if shapes else None,
        *(element("p", element("b", what), why) for what, why in [*reasons, *met]),
        *(_study(table, pictures.of(called)) for table in tables),
        id=called,
        class_="item",
        # What holds neither numbers nor statements is shown when nothing is filtered out.
        data_bare=not (points or shapes),
    )


def _numbers(points: Sequence[Point]) -> Markup:
    has_baseline = any(point.baseline is not None for point in points)
    heads = ["", "", *_QUANTITIES, *["baseline"] * has_baseline]
    head = element("tr", *(element("th", each, scope="col") for each in heads))
    bodies = []
    for (name, basis, because), group in groupby(points, _heading):
        title = element(
            "tr",
            element("th", name, _badge(basis), element("small", because), colspan=len(heads)),
            class_="group",
        )
        rows = [_number_row(point, has_baseline) for point in group]
        bodies.append(element("tbody", title, *rows))
    table = element("table", element("thead", head), *bodies)
    return element(
        "div", table, class_="scroll numbers", tabindex="0", role="region", aria_label="Numbers"
    )


def _heading(point: Point) -> tuple[str, Basis, str]:
    parts = placed(point)
    return f"{parts.name}, {parts.unit}", point.basis, point.because


def _number_row(point: Point, has_baseline: bool) -> Markup:
    at = ", ".join(f"{name} {value}" for name, value in placed(point).at.items())
    baseline = "" if point.baseline is None else f"{point.baseline:.6g}"
    cells = [
        f"{point.published:g}",
        f"{point.reproduced:.6g}",
        share(point.relative_error),
        f"± {share(point.tolerance)}" if point.published else f"± {point.tolerance:g}",
    ]
    named = [*zip(_QUANTITIES, cells, strict=True), *[("baseline", baseline)] * has_baseline]
    return element(
        "tr",
        element("th", at, scope="row"),
        element("td", *_verdict(point), class_="verdict"),
        # Where the table is too wide for the screen, each number has its heading beside it.
        *(element("td", cell, data_head=head) for head, cell in named),
        **_marked(point),
    )


def _statements(shapes: Sequence[Shape]) -> Markup:
    items = [
        element(
            "li",
            element("p", shape.statement, _badge(shape.basis), *_verdict(shape)),
            element("p", element("b", "Evidence: "), shape.evidence),
            element("small", shape.because),
            **_marked(shape),
        )
        for shape in shapes
    ]
    return element("ul", *items, class_="statements")


def _marked(check: Point | Shape) -> dict[str, str]:
    """What the filters go by."""
    outcome, _ = OUTCOMES[verdict(check)]
    return {"class_": "check", "data_label": check.basis.value, "data_verdict": outcome}


def _verdict(check: Point | Shape) -> Iterator[Markup]:
    outcome, told = OUTCOMES[verdict(check)]
    yield element("span", told, class_=f"outcome {outcome}")
    if check.known_miss is not None:
        yield element("small", check.known_miss, class_="why")


def _badge(basis: Basis) -> Markup:
    return element("span", basis.value, class_=f"badge {basis.value}")


def _study(table: StudyTable, pictures: Iterable[tuple[str, bytes | None]]) -> Markup:
    drawn = []
    for name, picture in pictures:
        if picture is not None:
            data = base64.b64encode(picture).decode()
            source = f"data:image/svg+xml;base64,{data}"
            drawn.append(element("img", src=source, alt=f"{table.what}: {name}"))
        else:
            drawn.append(element("p", f"{name}.svg, in the folder of this page, shows it."))
    ours = [_scrolled(study_rows(table.layout, table.rows), "here")]
    printed = []
    if table.printed:
        note = f"for orientation; {comparison_of(table)}"
        rows = study_rows(table.layout, table.printed)
        printed = [element("small", note), _scrolled(rows, "the paper")]
    parts = [
        element("p", f"{table.unit}; {table.conditions}"),
        element("p", origin_of(table)),
        *drawn,
        element("div", _beside("here", ours), _beside("the paper", printed), class_="pair"),
        *(element("p", f"Note: {note}") for note in table.notes),
    ]
    return element("div", joined(parts), class_="study")


def _beside(name: str, parts: Sequence[Markup]) -> Markup | None:
    """One side of a study; None if nothing is there."""
    return element("div", element("p", name, class_="panel"), *parts) if parts else None


def _scrolled(rows: Rows, name: str) -> Markup:
    table = Markup(html_table(rows))
    return element("div", table, class_="scroll", tabindex="0", role="region", aria_label=name)
