"""The tables in ``docs/papers.md``: what comes out here of each paper, asked of ``reproduce``.

    python docs/papers.py            prints them, after minutes
    python docs/papers.py --write    puts them into docs/papers.md

A test holds the page against them.
"""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from nicscope.reports.reproduction import name_of, verdict
from nicscope.studies.reproduce.harness import load_papers, reproduce
from nicscope.studies.reproduce.verdict import Basis

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nicscope.studies.reproduce.verdict import Paper, Point, Reproduction, Shape

PAGE = Path(__file__).parent / "papers.md"
BEGIN, END = "<!-- made by docs/papers.py: {} -->", "<!-- end of what docs/papers.py made: {} -->"


def tables(paper: Paper, found: Reproduction) -> list[str]:
    """All that stands between the two marks of ``paper``, of what was found of it."""
    heads = ["item", "where", "predicted", "fitted", "identity", "ok", "statements"]
    return [
        *table(heads, items(paper, found)),
        *table(
            ["predicted number", "printed", "ours", "error", "baseline", "its error", ""],
            [_number(point) for point in found.points if point.basis is Basis.PREDICTED],
        ),
        *table(
            ["predicted statement", "what shows it", ""],
            [_statement(shape) for shape in found.shapes if shape.basis is Basis.PREDICTED],
        ),
        *table(["other numbers", "label", "ok", "printed", "ours", "worst error"], others(found)),
        *_listed("What misses, and why:", [(one, one.known_miss) for one in found.misses()]),
        "What is missing:",
        "",
        *(f"* `{paper.key}/{name}`: {why}" for name, why in missing(paper)),
    ]


def others(found: Reproduction) -> Iterator[list[str]]:
    """Of each quantity that is not predicted: from where to where, and how far off at most."""
    rest = [point for point in found.points if point.basis is not Basis.PREDICTED]
    for (item, quantity, basis), group in groupby(rest, _quantity):
        points = list(group)
        errors = [abs(one.relative_error) for one in points if one.relative_error is not None]
        yield [
            f"{item}: {quantity}",
            basis.value,
            f"{sum(one.ok for one in points)} of {len(points)}",
            _range([one.published for one in points]),
            _range([one.reproduced for one in points]),
            f"{100 * max(errors):.1f} %" if errors else "",
        ]


def _quantity(point: Point) -> tuple[str, str, Basis]:
    """Its item, its name and unit without its place, and its label."""
    name, _, rest = point.quantity.partition("[")
    return point.id, f"{name} {rest.rpartition(']')[2].strip()}".strip(), point.basis


def _range(values: list[float]) -> str:
    low, high = f"{min(values):.4g}", f"{max(values):.4g}"
    return low if low == high else f"{low} to {high}"


def items(paper: Paper, found: Reproduction) -> Iterator[list[str]]:
    """Of each item that was reproduced: how many numbers of each label, and how many hold."""
    for name, item in paper.items.items():
        points = [point for point in found.points if point.id == name]
        shapes = [shape for shape in found.shapes if shape.id == name]
        if points or shapes:
            labels = [point.basis for point in points]
            counts = [labels.count(basis) for basis in Basis]
            right = [sum(one.ok for one in checks) for checks in (points, shapes)]
            yield [
                f"`nicscope reproduce {paper.key}/{name}`",
                item.where,
                *(str(count or "") for count in counts),
                f"{right[0]} of {len(points)}" if points else "",
                f"{right[1]} of {len(shapes)}" if shapes else "",
            ]


def missing(paper: Paper) -> Iterator[tuple[str, str]]:
    """Of each item what is not reproduced, and why, or why what comes out has no verdict."""
    for name, item in paper.items.items():
        for why in (item.missing, item.study):
            if why is not None:
                yield name, why


def table(heads: Sequence[str], rows: Iterator[list[str]] | list[list[str]]) -> list[str]:
    """The rows in Markdown, below their heads; nothing if there are none."""
    lines = [f"| {' | '.join(one.replace('|', '/') for one in row)} |" for row in rows]
    if not lines:
        return []
    return [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|", *lines, ""]


def _number(point: Point) -> list[str]:
    errors = (point.relative_error, point.baseline_error)
    ours, theirs = ("" if error is None else f"{100 * error:+.1f} %" for error in errors)
    baseline = "" if point.baseline is None else f"{point.baseline:.4g}"
    return [
        f"{point.id}: {point.quantity}",
        f"{point.published:g}",
        f"{point.reproduced:.4g}",
        ours,
        baseline,
        theirs,
        verdict(point),
    ]


def _statement(shape: Shape) -> list[str]:
    return [f"{shape.id}: {shape.statement}", shape.evidence, verdict(shape)]


def _listed(title: str, misses: list[tuple[Point | Shape, str | None]]) -> list[str]:
    if not misses:
        return []
    return [
        title,
        "",
        *(f"* {one.id}, `{name_of(one)}`: {why or 'not listed'}" for one, why in misses),
        "",
    ]


def between_marks(page: str, paper: str) -> str:
    """What the page has between the marks of ``paper``."""
    begin, end = BEGIN.format(paper), END.format(paper)
    return page.split(begin)[1].split(end)[0].strip()


def main() -> None:
    """Print the tables, or write them."""
    page = PAGE.read_text()
    for key, paper in load_papers().items():
        made = "\n".join(tables(paper, reproduce([key]))).strip()
        if "--write" not in sys.argv[1:]:
            print(made)
            continue
        before, rest = page.split(BEGIN.format(key))
        _, after = rest.split(END.format(key))
        page = f"{before}{BEGIN.format(key)}\n\n{made}\n\n{END.format(key)}{after}"
    if "--write" in sys.argv[1:]:
        PAGE.write_text(page)


if __name__ == "__main__":
    main()
