"""Verdicts on what studies found: of traces that claim to be the paper's, of programs we ran."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from nicscope.studies.reproduce.known import load_known, met_again
from nicscope.studies.reproduce.traced.applications import claimed
from nicscope.studies.reproduce.traced.measuring import Shown
from nicscope.studies.reproduce.verdict import (
    Basis,
    ExpectedPoint,
    Met,
    Outcome,
    Point,
    Shape,
    hold,
    judge,
    quantity_name,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nicscope.studies.reproduce.traced.applications import Application
    from nicscope.studies.reproduce.traced.measuring import Layout, Row, Study
    from nicscope.studies.reproduce.traced.workloads import Ran
    from nicscope.studies.reproduce.verdict import CellGroup, Item, Paper

CLAIMED = "the trace says that it is the paper's program; nothing was chosen by its cells"
PROBLEMS = "table3"  # of a paper: its applications and their problem sizes
UNITS = {
    "_us_per_lookup": "us/lookup",
    "_per_lookup": "events/lookup",
    "_percent": "%",
    "_pages": "pages",
    "_lookups": "lookups",
}


class Judged(NamedTuple):
    """Verdicts of one study."""

    points: list[Point]
    shapes: list[Shape]
    met: list[Met]


def judged_as(paper: Paper, item: Item, application: Application) -> str | None:
    """The paper's application whose cells a trace has to meet; None: there is none."""
    if item.tolerance is None or PROBLEMS not in paper.items:
        return None
    return claimed(application, paper.items[PROBLEMS])


def judge_claims(
    paper: Paper, name: str, study: Study, rows: Sequence[Row], applications: Sequence[Application]
) -> Judged:
    """A point for each printed cell of the paper's application that a trace says it is."""
    item = paper.items[name]
    points = []
    for one in applications:
        claim = judged_as(paper, item, one)
        if claim is None:
            continue
        ours = [{**row, "application": claim} for row in rows if row["application"] == one.name]
        for cell in _cells(paper, study):
            if cell.app == claim:
                assert item.tolerance is not None
                expected = ExpectedPoint(
                    cell.quantity(study.layout),
                    cell.printed,
                    item.tolerance,
                    "as printed",
                    Basis.PREDICTED,
                    CLAIMED,
                )
                points.append(judge(paper.key, name, expected, cell.found(study.layout, ours)))
    return Judged(points, [], [])


def judge_programs(paper: Paper, name: str, study: Study, rows: Sequence[Row], ran: Ran) -> Judged:
    """Verdicts on programs that we ran: on statements, and at the paper's sizes on its cells.

    Errors: ``RuntimeError`` if a statement of the item was not looked into, or another was.
    """
    item = paper.items[name]
    known = load_known(paper.key, ran.programs)
    points = []
    for cell in _cells(paper, study) if ran.are_the_papers else ():
        for group in item.cells:
            if cell.app in group.apps and cell.measure in group.measures:
                expected = _expected(cell, group, study.layout)
                ours = cell.found(study.layout, rows)
                listed = known.get((name, expected.quantity))
                points.append(judge(paper.key, name, expected, ours, known=listed))
    asked = {one.id: one for one in item.shapes if ran.are_the_papers or not one.at_paper_size}
    outcome = Outcome()
    if study.state is not None:
        study.state(outcome, Shown(list(rows), paper.items, ran.are_the_papers))
    if set(asked) != set(outcome.shapes):
        different = sorted(set(asked) ^ set(outcome.shapes))
        raise RuntimeError(f"{paper.key}/{name}: statements and study differ: {different}")
    shapes = [
        hold(paper.key, name, one, outcome.shapes[key], known.get((name, key)))
        for key, one in asked.items()
    ]
    return Judged(points, shapes, met_again(known, name, points, shapes))


class _Cell(NamedTuple):
    """A printed number: of which application, where on the axes, of which measure."""

    app: str
    at: tuple[int, ...]
    measure: str
    printed: Decimal

    def quantity(self, layout: Layout) -> str:
        """What it is called."""
        ending = next(ending for ending in UNITS if self.measure.endswith(ending))
        places = dict(zip([axis.key for axis in layout.axes], self.at, strict=True))
        return quantity_name(
            self.measure.removesuffix(ending), UNITS[ending], app=self.app, **places
        )

    def found(self, layout: Layout, rows: Sequence[Row]) -> Decimal:
        """The same of ``rows``."""
        [row] = [
            row
            for row in rows
            if row["application"] == self.app
            and tuple(row[axis.key] for axis in layout.axes) == self.at
        ]
        return Decimal(f"{row[self.measure]:.12g}")


def _cells(paper: Paper, study: Study) -> Iterator[_Cell]:
    """Every printed cell whose application is known, in the order of the print."""
    for row in (study.labelled or study.printed)(paper.items):
        at = tuple(row[axis.key] for axis in study.layout.axes)
        for measure in study.layout.measures:
            if measure in row:
                yield _Cell(row["application"], at, measure, Decimal(row[measure]))


def _expected(cell: _Cell, group: CellGroup, layout: Layout) -> ExpectedPoint:
    tolerance = group.tolerance or group.share * cell.printed
    name = cell.quantity(layout)
    return ExpectedPoint(name, cell.printed, tolerance, group.why, group.basis, group.because)
