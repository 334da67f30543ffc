"""What stands where: the filters, and of each paper its items with claims, numbers, evidence."""

from __future__ import annotations

import base64
from io import BytesIO
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nicscope import __version__
from nicscope.reports.figures.style import save
from nicscope.reports.page import html_table
from nicscope.reports.reproduction_page.figures import figures
from nicscope.reports.reproduction_page.markup import Markup, element, joined
from nicscope.reports.reproduction_page.overview import contents, heading, overview
from nicscope.reports.reproduction_words import command_of, placed
from nicscope.studies.reproduce.harness import load_papers
from nicscope.studies.reproduce.verdict import Basis

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from nicscope.studies.reproduce.traced.running import StudyTable
    from nicscope.studies.reproduce.verdict import Item, Paper, Point, Reproduction, Shape

HERE = Path(__file__).parent
MOST_PICTURED = 5 << 20  # bytes of pictures of studies: the page is to stay below 10 MB
# The page loads nothing, from nowhere.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
MET, KNOWN, NEW = "met", "known", "new"
VERDICTS = {MET: "✓ met", KNOWN: "✗ known miss", NEW: "✗ new miss"}

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
    papers = load_papers()
    there = _papers_of(found)
    sections = [
        _paper(papers[key], found, pictures, _traces_of(wanted)) for key in papers if key in there
    ]
    body = [
        element("a", "Skip to the papers", href="#papers", class_="skip"),
        element(
            "header",
            element("h1", "What the papers published, and what comes out here"),
            element("p", f"{summary}."),
            element("p", "The command that repeats it, with nicscope ", __version__, ":"),
            element("pre", command_of(wanted), tabindex="0"),
        ),
        overview([papers[key] for key in papers if key in there], found),
        _filters([papers[key] for key in papers if key in there]),
        element("main", *sections, id="papers", tabindex="-1"),
    ]
    head = [
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=POLICY),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", "nicscope: the papers reproduced"),
        element("style", Markup((HERE / "page.css").read_text("utf-8"))),
    ]
    script = element("script", Markup((HERE / "page.js").read_text("utf-8")))
    whole = element("html", element("head", *head), element("body", *body, script), lang="en")
    return f"<!doctype html>\n{whole}\n"


def _traces_of(wanted: Sequence[str]) -> list[str]:
    """Those of the arguments ``wanted`` that name traces, with their options."""
    pairs = pairwise(wanted)
    return [word for option, name in pairs if option == "--trace" for word in (option, name)]


def _papers_of(found: Reproduction) -> set[str]:
    lists = (found.points, found.shapes, found.missing, found.studies, found.tables)
    return {one.paper for things in lists for one in things}


def _filters(papers: Sequence[Paper]) -> Markup:
    """A form that works on what stands below it; without scripts all of that is shown."""
    options = [element("option", "all", value="")]
    options += [element("option", paper.title, value=paper.key) for paper in papers]
    labels = [_box("label", basis.value, basis.value, told) for basis, told in LABELS.items()]
    verdicts = [_box("verdict", name, told, None) for name, told in VERDICTS.items()]
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
    points = [one for one in found.points if one.paper == paper.key]
    counted = [one for one in points if one.basis is not Basis.IDENTITY]
    shapes = [one for one in found.shapes if one.paper == paper.key]
    said = [
        f"{sum(one.ok for one in counted)} of {len(counted)} numbers that are no identities are "
        "within tolerance."
    ] * bool(counted)
    said += [f"{sum(one.ok for one in shapes)} of {len(shapes)} statements hold."] * bool(shapes)
    return element(
        "section",
        element("h2", paper.title),
        element("p", " ".join(said)) if said else None,
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
        element("h3", heading(item)),
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
        rows = [_number(point, has_baseline) for point in group]
        bodies.append(element("tbody", title, *rows))
    table = element("table", element("thead", head), *bodies)
    return element(
        "div", table, class_="scroll numbers", tabindex="0", role="region", aria_label="Numbers"
    )


def _heading(point: Point) -> tuple[str, Basis, str]:
    parts = placed(point)
    return f"{parts.name}, {parts.unit}", point.basis, point.because


def _number(point: Point, has_baseline: bool) -> Markup:
    at = ", ".join(f"{name} {value}" for name, value in placed(point).at.items())
    baseline = "" if point.baseline is None else f"{point.baseline:.6g}"
    cells = [
        f"{point.published:g}",
        f"{point.reproduced:.6g}",
        _share(point.relative_error),
        f"± {_share(point.tolerance)}" if point.published else f"± {point.tolerance:g}",
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
    listed = [
        element(
            "li",
            element("p", shape.statement, _badge(shape.basis), *_verdict(shape)),
            element("p", element("b", "Evidence: "), shape.evidence),
            element("small", shape.because),
            **_marked(shape),
        )
        for shape in shapes
    ]
    return element("ul", *listed, class_="statements")


def _marked(check: Point | Shape) -> dict[str, str]:
    """What the filters go by."""
    return {"class_": "check", "data_label": check.basis.value, "data_verdict": _outcome(check)}


def _outcome(check: Point | Shape) -> str:
    if check.ok:
        return MET
    return NEW if check.known_miss is None else KNOWN


def _verdict(check: Point | Shape) -> Iterator[Markup]:
    outcome = _outcome(check)
    yield element("span", VERDICTS[outcome], class_=f"outcome {outcome}")
    if check.known_miss is not None:
        yield element("small", check.known_miss, class_="why")


def _badge(basis: Basis) -> Markup:
    return element("span", basis.value, class_=f"badge {basis.value}")


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.2f} %"


def _study(table: StudyTable, pictures: Iterable[tuple[str, bytes | None]]) -> Markup:
    from nicscope.reports.reproduction import comparison_of, origin_of, study_rows

    drawn = []
    for name, picture in pictures:
        if picture is not None:
            data = base64.b64encode(picture).decode()
            source = f"data:image/svg+xml;base64,{data}"
            drawn.append(element("img", src=source, alt=f"{table.what}: {name}"))
        else:
            drawn.append(element("p", f"{name}.svg, in the folder of this page, shows it."))
    ours = [_scrolled(Markup(html_table(study_rows(table.layout, table.rows))), "here")]
    printed = []
    if table.printed:
        rows = study_rows(table.layout, table.printed)
        said = f"for orientation; {comparison_of(table)}"
        printed = [element("small", said), _scrolled(Markup(html_table(rows)), "the paper")]
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


def _scrolled(table: Markup, name: str) -> Markup:
    return element("div", table, class_="scroll", tabindex="0", role="region", aria_label=name)
