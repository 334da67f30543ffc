"""Where things are on the page: a table of the papers, and a list of each paper's items."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.reports.reproduction_page.markup import Markup, element
from nicscope.studies.reproduce.verdict import Basis

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from nicscope.studies.reproduce.verdict import Item, Paper, Point, Reproduction, Shape

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
