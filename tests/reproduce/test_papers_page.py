"""docs/papers.md holds what comes out today, and every miss that the catalog lists."""

import importlib.util
import json
from pathlib import Path

import pytest
from program_samples import have_tiny

from nicscope.studies.reproduce.baselines import by_hand
from nicscope.studies.reproduce.harness import load_papers, reproduce, study
from nicscope.studies.reproduce.traced.programs import PAPER, SMALL, WORKLOADS
from nicscope.studies.reproduce.verdict import Basis, Reproduction, load_known

DOCS = Path(__file__).parents[2] / "docs"
_spec = importlib.util.spec_from_file_location("papers_of_the_page", DOCS / "papers.py")
assert _spec is not None
assert _spec.loader is not None
page = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(page)

PAPERS = load_papers()
TEXT = (DOCS / "papers.md").read_text()
KEPT = json.loads(page.KEPT.read_text())
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


@pytest.mark.parametrize("key", WORKLOADS)
def test_the_page_has_what_is_kept_of_the_programs_by_todays_catalog(key):
    made = page.tables_of_programs(PAPERS[key], KEPT[key])

    assert page.between_marks(TEXT, page.programs_part(key)) == "\n".join(made).strip()


def test_programs_that_are_run_are_kept_and_judged_as_reproduce_judges_them(monkeypatch, tmp_path):
    have_tiny(monkeypatch, tmp_path)
    monkeypatch.setattr(page, "KEPT", tmp_path / "kept.json")
    kept = {programs: page.run("utlb", programs) for programs in (SMALL, PAPER)}

    assert json.loads(json.dumps(kept)) == kept
    found = Reproduction()
    study(found, ["utlb"], programs=PAPER)
    judged = page.judged(PAPERS["utlb"], PAPER, kept[PAPER])
    assert (judged.points, judged.shapes) == (found.points, found.shapes)
    made = page.tables_of_programs(PAPERS["utlb"], kept)
    missed = [line for line in made if line.startswith("| table5, ")]
    assert len(missed) == len({page.name_of(one) for one in found.misses() if one.id == "table5"})


def test_what_is_known_to_miss_of_programs_that_have_not_been_run_is_shown_as_such():
    rows = [line for line in page.tables_of_programs(PAPERS["mini"], {}) if page.NOT_RUN in line]

    known = load_known("mini", PAPER)
    assert len(rows) == sum(PAPERS["mini"].items[item].study is not None for item, _ in known)


@pytest.mark.timeout(5400)
@pytest.mark.compiled
@pytest.mark.long
@pytest.mark.parametrize("programs", [SMALL, PAPER])
@pytest.mark.parametrize("key", WORKLOADS)
def test_what_is_kept_of_the_programs_comes_of_them_again(key, programs):
    assert page.run(key, programs) == KEPT[key].get(programs, {})


@pytest.mark.parametrize("key", PAPERS)
def test_every_known_miss_stands_on_the_page_with_its_cause_and_what_would_mend_it(key):
    parts = [key, page.programs_part(key)] if key in WORKLOADS else [key]
    text = "\n".join(page.between_marks(TEXT, part) for part in parts)
    lines = [line.removeprefix("|").removesuffix("|") for line in text.split("\n")]
    shown = [[cell.strip() for cell in line.split("|")] for line in lines]
    known = load_known(key) | load_known(key, PAPER) | load_known(key, SMALL)

    for (item, name), miss in known.items():
        (row,) = (cells for cells in shown if cells[0] == f"{item}, `{name}`")
        _, printed, _, error, *told = row
        assert printed == page.printed_of(PAPERS[key], item, name)
        assert told == [miss.cause or "", miss.why.replace("|", "/"), miss.mend or ""]
        if miss.short is not None:
            assert error == miss.short
    assert "not listed" not in text


def test_the_page_counts_the_known_misses_of_the_catalog():
    made = "\n".join(page.overview()).strip()

    assert page.between_marks(TEXT, page.OVERVIEW) == made
