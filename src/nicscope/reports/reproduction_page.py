"""The page of a reproduction, one file that needs nothing else."""

from __future__ import annotations

import base64
import math
from html import escape
from io import BytesIO
from itertools import cycle, groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nicscope.reports.figures.style import save
from nicscope.reports.page import html_table
from nicscope.reports.reproduction import command_of, placed
from nicscope.studies.reproduce.harness import load_papers
from nicscope.studies.reproduce.verdict import Basis
from nicscope.version import __version__

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from nicscope.reports.reproduction import Placed
    from nicscope.studies.reproduce.verdict import (
        Item,
        Paper,
        Point,
        Reproduction,
        Shape,
        StudyTable,
    )


_WITHOUT_END = ("meta", "input", "img", "br")


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def element(tag: str, *children: str | None, **attributes: object) -> Markup:
    """One element; text among ``children`` is escaped, None is left out.

    A trailing underscore of an attribute's name is dropped (``class_``) and others are hyphens
    (``data_label``).  An attribute that is True has no value; those that are None or False are not
    there.
    """
    said = ""
    for name, value in attributes.items():
        if value is None or value is False:
            continue
        spelled = name.rstrip("_").replace("_", "-")
        said += f" {spelled}" if value is True else f' {spelled}="{escape(str(value))}"'
    if tag in _WITHOUT_END:
        return Markup(f"<{tag}{said}>")
    return Markup(f"<{tag}{said}>{joined(children)}</{tag}>")


def joined(children: Iterable[str | None]) -> Markup:
    """Several pieces one after the other."""
    return Markup(
        "".join(
            each if isinstance(each, Markup) else escape(each, quote=False)
            for each in children
            if each is not None
        )
    )


WIDTH, HEIGHT = 400, 200
LEFT, RIGHT, TOP, BOTTOM = 56, 28, 14, 40
ROW = 34  # of a bar and the words above it
FEWEST = 2  # numbers that are worth a picture
STYLES = 6
MARK = 4.0


def figures(points: Sequence[Point]) -> Iterator[Markup]:
    """Yield a pair of panels for each quantity with places, and one for single numbers of a unit.

    What stands alone in its unit has no picture.
    """
    groups: dict[tuple[str, str], list[Placed]] = {}
    for each in map(placed, points):
        groups.setdefault((each.name if each.at else "", each.unit), []).append(each)
    for (name, unit), group in groups.items():
        if len(group) < FEWEST:
            continue
        axis = _axis(group)
        title = f"{name} ({unit})" if name else f"numbers in {unit}"
        draw = _bars if axis is None else _lines
        printed, ours, legend = draw(group, axis or "")
        yield element(
            "figure",
            element("figcaption", title),
            element("div", _panel("the paper", printed), _panel("here", ours), class_="pair"),
            legend,
        )


def _axis(group: Sequence[Placed]) -> str | None:
    """The axis of numbers along which most of the group differs; None: they are names."""
    found = None
    most = 2
    for name in dict.fromkeys(name for each in group for name in each.at):
        values = {each.at.get(name) for each in group}
        if len(values) > most and all(value is not None and _is_number(value) for value in values):
            found, most = name, len(values)
    return found


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _panel(name: str, drawn: Markup) -> Markup:
    return element("div", element("p", name, class_="panel"), drawn)


def _range(group: Sequence[Placed]) -> tuple[float, float]:
    """The scale that both panels have: from 0, or below, to the largest number."""
    values = [v for each in group for v in (each.point.published, each.point.reproduced)]
    low, high = min(0.0, *values), max(0.0, *values)
    return low, high if high > low else low + 1.0


def _steps(low: float, high: float) -> Iterator[float]:
    power = 10.0 ** math.floor(math.log10((high - low) / 4))
    step = next(each * power for each in (1, 2, 5, 10) if each * power * 5 >= high - low)
    first = math.ceil(low / step)
    yield from (each * step for each in range(first, math.floor(high / step + 1e-9) + 1))


def _lines(group: Sequence[Placed], axis: str) -> tuple[Markup, Markup, Markup | None]:
    """A line for each place on the other axes; the numbers of ``axis`` evenly spaced."""
    along = sorted({each.at[axis] for each in group}, key=float)
    series: dict[str, list[Placed]] = {}
    for each in group:
        rest = ", ".join(value for name, value in each.at.items() if name != axis)
        series.setdefault(rest, []).append(each)
    low, high = _range(group)

    def x(each: Placed) -> float:
        gap = (WIDTH - LEFT - RIGHT) / max(len(along) - 1, 1)
        return LEFT + gap * along.index(each.at[axis])

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (value - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    def panel(is_ours: bool) -> Markup:
        pieces = []
        for value in _steps(low, high):
            d = f"M{LEFT} {y(value):.1f}H{WIDTH - RIGHT}"
            pieces.append(element("path", d=d, class_="grid"))
            pieces.append(_text(LEFT - 7, y(value) + 4, f"{value:g}", "end"))
        every = math.ceil(len(along) / 8)
        for place in along[::every]:
            spot = x(next(each for each in group if each.at[axis] == place))
            pieces.append(_text(spot, HEIGHT - BOTTOM + 18, place, "middle"))
        pieces.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 4, axis, "middle"))
        for style, each in zip(cycle(range(STYLES)), series.values(), strict=False):
            pieces += _joined(sorted(each, key=lambda one: float(one.at[axis])), style, is_ours)
        return _picture(WIDTH, HEIGHT, group, is_ours, pieces)

    def _joined(run: Sequence[Placed], style: int, is_ours: bool) -> Iterator[Markup]:
        spots = [(x(each), y(_value(each, is_ours))) for each in run]
        path = "L".join(f"{left:.1f} {up:.1f}" for left, up in spots)
        yield element("path", d=f"M{path}", class_=f"line s{style}")
        for each, (left, up) in zip(run, spots, strict=True):
            slack = each.point.tolerance * (abs(each.point.published) or 1.0)
            if is_ours and slack:
                top, end = (y(min(max(v, low), high)) for v in _around(each.point, slack))
                yield element("path", d=f"M{left:.1f} {top:.1f}V{end:.1f}", class_="within")
            yield _mark(left, up, style, is_miss=is_ours and not each.point.ok, told=_told(each))

    names = [name for name in series if name]
    legend = None
    if len(names) > 1:
        samples = [
            element("li", _sample(style), name)
            for style, name in zip(cycle(range(STYLES)), series, strict=False)
        ]
        legend = element("ul", *samples, class_="legend")
    return panel(False), panel(True), legend


def _bars(group: Sequence[Placed], _: str) -> tuple[Markup, Markup, None]:
    """A bar for each number, its name above it."""
    low, high = _range(group)
    height = ROW * len(group) + 6

    def x(value: float) -> float:
        return 4 + (value - low) / (high - low) * (WIDTH - 76)

    def panel(is_ours: bool) -> Markup:
        pieces = []
        for place, each in enumerate(group):
            up = ROW * place
            axes = [f"{k} {v}" if _is_number(v) else v for k, v in each.at.items()]
            name = ", ".join(axes) or each.name
            value = _value(each, is_ours)
            left, right = sorted((x(0.0), x(value)))
            pieces.append(_text(4, up + 13, name, "start"))
            style = "bar miss" if is_ours and not each.point.ok else "bar"
            bar = {"x": f"{left:.1f}", "y": up + 18, "width": f"{right - left:.1f}", "height": 11}
            pieces.append(element("rect", element("title", _told(each)), class_=style, **bar))
            pieces.append(_text(right + 5, up + 28, _short(value), "start"))
        return _picture(WIDTH, height, group, is_ours, pieces)

    return panel(False), panel(True), None


def _short(value: float) -> str:
    """Four digits, or all before the point: a power of ten would be longer, and harder to read."""
    return f"{value:.0f}" if 1e4 <= abs(value) < 1e7 else f"{value:.4g}"


def _value(each: Placed, is_ours: bool) -> float:
    return each.point.reproduced if is_ours else each.point.published


def _around(point: Point, slack: float) -> tuple[float, float]:
    return point.published - slack, point.published + slack


def _told(each: Placed) -> str:
    point = each.point
    return f"{point.quantity}: printed {point.published:g}, here {point.reproduced:.6g}"


def _picture(
    width: int, height: int, group: Sequence[Placed], is_ours: bool, pieces: Iterable[Markup]
) -> Markup:
    whose = "what comes out here" if is_ours else "what the paper prints"
    said = f"{whose}: {len(group)} numbers, which the table below has too"
    kind = "ours" if is_ours else "printed"
    box = {"viewBox": f"0 0 {width} {height}"}
    return element("svg", joined(pieces), role="img", aria_label=said, class_=kind, **box)


def _text(x: float, y: float, text: str, anchor: str) -> Markup:
    return element("text", text, x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor)


def _mark(x: float, y: float, style: int, *, is_miss: bool, told: str) -> Markup:
    """A point: each style has a shape of its own, and a miss a ring around it."""
    r = MARK
    shapes = (
        f"M{x - r:.1f} {y:.1f}a{r} {r} 0 1 0 {2 * r} 0a{r} {r} 0 1 0 {-2 * r} 0z",
        f"M{x - r:.1f} {y - r:.1f}h{2 * r}v{2 * r}h{-2 * r}z",
        f"M{x:.1f} {y - r:.1f}l{r} {2 * r}h{-2 * r}z",
        f"M{x:.1f} {y - r:.1f}l{r} {r}l{-r} {r}l{-r} {-r}z",
        f"M{x:.1f} {y + r:.1f}l{r} {-2 * r}h{-2 * r}z",
        f"M{x - r:.1f} {y - 1:.1f}h{2 * r}v2h{-2 * r}z",
    )
    mark = element("path", element("title", told), d=shapes[style], class_=f"mark s{style}")
    if not is_miss:
        return mark
    ring = {"cx": f"{x:.1f}", "cy": f"{y:.1f}", "r": 2 * MARK}
    return joined([mark, element("circle", class_="missed", **ring)])


def _sample(style: int) -> Markup:
    line = element("path", d="M0 6H34", class_=f"line s{style}")
    mark = _mark(17, 6, style, is_miss=False, told="")
    box = {"viewBox": "0 0 34 12"}
    return element("svg", line, mark, aria_hidden="true", class_="ours", **box)


_HEADS = ("paper", "numbers within tolerance", "statements that hold", "known misses", "new misses")


def overview(papers: Iterable[Paper], found: Reproduction) -> Markup:
    """A table with a line for each paper: its name, which leads to it, and how much is met.

    Numbers that are identities are left out, as in the summary.
    """
    head = element("tr", *(element("th", each, scope="col") for each in _HEADS))
    rows = [_line(paper, *_checks(found, paper.key)) for paper in papers]
    table = element("table", element("thead", head), element("tbody", *rows))
    return element("nav", table, id="overview", aria_label="The papers")


def _checks(found: Reproduction, paper: str) -> tuple[list[Point], list[Shape]]:
    points = [one for one in found.points if one.paper == paper]
    return points, [one for one in found.shapes if one.paper == paper]


def _line(paper: Paper, points: Sequence[Point], shapes: Sequence[Shape]) -> Markup:
    counted = [one for one in points if one.basis is not Basis.IDENTITY]
    checks: list[Point | Shape] = [*points, *shapes]
    missed = [one for one in checks if not one.ok]
    known = sum(one.known_miss is not None for one in missed)
    cells = [
        f"{sum(one.ok for one in some)} of {len(some)}" if some else "none"
        for some in (counted, shapes)
    ]
    cells += [str(known), str(len(missed) - known)]
    name = element("th", element("a", paper.title, href=f"#{paper.key}"), scope="row")
    named = zip(_HEADS[1:], cells, strict=True)
    return element("tr", name, *(element("td", cell, data_head=head) for head, cell in named))


def contents(paper: Paper, shown: Collection[str]) -> Markup:
    """A list, to be unfolded, of the items ``shown`` of ``paper``, each leading to its place."""
    links = [
        element("li", element("a", heading(paper.items[name]), href=f"#{paper.key}/{name}"))
        for name in shown
    ]
    count = f"{len(links)} tables, figures and claims" if len(links) > 1 else "One item"
    return element("details", element("summary", count), element("ul", *links), class_="contents")


def heading(item: Item) -> str:
    """Where the paper has ``item``, and what it is."""
    return f"{item.where}: {item.what}"


HERE = Path(__file__)
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
        element("style", Markup(HERE.with_suffix(".css").read_text("utf-8"))),
    ]
    script = element("script", Markup(HERE.with_suffix(".js").read_text("utf-8")))
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
