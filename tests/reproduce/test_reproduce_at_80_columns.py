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
    Reproduction,
    hold,
    judge,
    paper_keys,
)

WIDTH = 80
PAPERS = load_papers()


def off_by_little(paper):
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
def test_no_line_is_longer_and_every_cell_name_digit_and_label_is_there(key):
    found = off_by_little(PAPERS[key])
    parts = [*ShownReproduction(found).parts()]
    lines = [str(line) for line in lines_of(parts, WIDTH)]
    tables = [part for part in parts if isinstance(part, Rows)]

    assert max(map(len, lines)) <= WIDTH
    assert not [line for line in lines if line.startswith("not shown at")]
    assert tables
    for table in tables:
        words = set(" ".join(str(line) for line in lines_of([table], WIDTH)).split())
        assert [cell for row in table.cells for cell in row if not set(cell.split()) <= words] == []
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
