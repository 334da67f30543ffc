"""docs/papers.md holds what comes out today."""

import importlib.util
from pathlib import Path

import pytest

from nicscope.studies.reproduce.baselines import by_hand
from nicscope.studies.reproduce.harness import load_papers, reproduce
from nicscope.studies.reproduce.verdict import Basis

DOCS = Path(__file__).parents[2] / "docs"
_spec = importlib.util.spec_from_file_location("papers_of_the_page", DOCS / "papers.py")
assert _spec is not None
assert _spec.loader is not None
page = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(page)

PAPERS = load_papers()
TEXT = (DOCS / "papers.md").read_text()
# Minutes even compiled; tests/reproduce/test_split_c.py has it smaller.
SLOW = {"unet_mm": ["figure3"]}


@pytest.mark.timeout(1800)
@pytest.mark.compiled
@pytest.mark.long
@pytest.mark.parametrize("key", PAPERS)
def test_the_page_has_what_reproduce_finds(key):
    slow = SLOW.get(key, [])
    items = PAPERS[key].items
    found = reproduce([f"{key}/{name}" for name in items if name not in slow])

    made = "\n".join(page.tables(PAPERS[key], found)).strip().split("\n")

    shown = page.between_marks(TEXT, key).split("\n")
    left = [line for line in shown if line not in made]
    assert [line for line in made if line not in shown] == []
    assert all(any(name in line for name in slow) for line in left)


@pytest.mark.parametrize("key", PAPERS)
def test_every_prediction_and_all_that_is_missing_stands_on_the_page(key):
    shown = page.between_marks(TEXT, key)

    for name, item in PAPERS[key].items.items():
        # What runs over traces, or runs programs itself, has no tables here.
        if item.study or item.public:
            continue
        baselines = by_hand(PAPERS[key], name)
        for one in item.expected_points():
            row = f"| {name}: {one.quantity} | {float(one.published):g} |"
            assert (row in shown) == (one.basis is Basis.PREDICTED), one.quantity
            if one.quantity in baselines:
                (line,) = (line for line in shown.splitlines() if line.startswith(row))
                assert f" | {float(baselines[one.quantity]):.4g} | " in line
        for shape in item.shapes:
            row = f"| {name}: {shape.statement} |"
            assert (row in shown) == (shape.basis is Basis.PREDICTED), shape.id
        assert (f"`nicscope reproduce {key}/{name}`" in shown) == item.has_expectations()
    for name, why in page.missing(PAPERS[key]):
        assert f"* `{key}/{name}`: {why}" in shown
