"""On a terminal of 80 columns everything that reproduce prints is there, name by name."""

from __future__ import annotations

import pytest

from nicscope.reports.printing import lines_of
from nicscope.reports.reproduction import ShownReproduction
from nicscope.reports.table import Rows
from nicscope.studies.reproduce.baselines import by_hand
from nicscope.studies.reproduce.harness import load_papers
from nicscope.studies.reproduce.verdict import (
    Basis,
    Paper,
    Reproduction,
    hold,
    judge,
    paper_keys,
)

WIDTH = 80
PAPERS = load_papers()


def off_by_little(paper: Paper) -> Reproduction:
    """Every number and statement of the paper, each number near what is printed, in six digits."""
    points, shapes, baselines = [], [], {}
    for name, item in paper.items.items():
        values = by_hand(paper, name)
        for one in item.expected_points():
            ours = one.published * 7919 / 8111
            points.append(judge(paper.key, name, one, ours, values.get(one.quantity)))
        shapes += [hold(paper.key, name, one, (False, "1 and 2"), None) for one in item.shapes]
        if item.baseline is not None:
            baselines[f"{paper.key}/{name}"] = item.baseline
    return Reproduction(points, shapes, [], baselines=baselines)


@pytest.mark.parametrize("key", paper_keys())
def test_no_line_is_longer_and_no_column_is_left_out(key: str) -> None:
    parts = ShownReproduction(off_by_little(PAPERS[key])).parts()
    lines = [str(line) for line in lines_of(parts, WIDTH)]

    assert max(map(len, lines)) <= WIDTH
    assert not [line for line in lines if line.startswith("not shown at")]


@pytest.mark.parametrize("key", paper_keys())
def test_every_cell_of_every_table_is_printed_whole(key: str) -> None:
    report = ShownReproduction(off_by_little(PAPERS[key]))
    tables = [part for part in report.parts() if isinstance(part, Rows)]

    assert tables
    for table in tables:
        lines = [str(line) for line in lines_of([table], WIDTH)]
        words = set(" ".join(lines).split())
        for row in table.cells:
            for cell in row:
                assert set(cell.split()) <= words, cell


@pytest.mark.parametrize("key", paper_keys())
def test_every_name_every_digit_and_every_label_is_there(key: str) -> None:
    found = off_by_little(PAPERS[key])
    tables = [part for part in ShownReproduction(found).parts() if isinstance(part, Rows)]
    cells = {cell.strip() for table in tables for row in table.cells for cell in row}
    names = {cell for cell in cells if cell.endswith(tuple(f", {one.value}" for one in Basis))}

    for point in found.points:
        name, _, rest = point.quantity.partition("[")
        place, _, unit = rest.rpartition("] ") if rest else ("", "", "")
        bare = f"{name} {unit}" if rest else point.quantity
        assert f"{bare}, {point.basis.value}" in names
        assert {place, f"{point.published:g}", f"{point.reproduced:.6g}"} <= cells | {""}
    for shape in found.shapes:
        assert f"{shape.statement} ({shape.basis.value})" in cells
