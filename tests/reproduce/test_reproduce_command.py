"""``nicscope reproduce``: what it prints and writes, and that 80 columns hold all of it."""

import json

import pytest
import typer
from typer.testing import CliRunner

from nicscope.cli.answer import answer_reproduction, derived
from nicscope.errors import OutputError, StudyError
from nicscope.library.reproduce import reproduce
from nicscope.reports.printing import Rows, lines_of
from nicscope.reports.reproduction import ShownReproduction, as_markdown
from nicscope.studies.reproduce.baselines import by_hand
from nicscope.studies.reproduce.harness import load_papers
from nicscope.studies.reproduce.verdict import (
    Basis,
    Point,
    Reproduction,
    Shape,
    Unjudged,
    hold,
    judge,
    paper_keys,
)

FAILED = Reproduction(
    [Point("toy", "table1", "far us", 10.0, 11.0, 0.1, 0.05, Basis.PREDICTED, "toy", 9.0, False)],
    [Shape("toy", "table1", "falls", "it falls " * 20, False, "[1, 2]", Basis.IDENTITY, "toy")],
    [Unjudged("toy", "figure1", "needs a curve")],
)


def run(*arguments):
    app = typer.Typer()
    app.command()(derived(reproduce, answer_reproduction))
    return CliRunner().invoke(app, list(arguments))


def test_a_miss_is_shown_in_words_and_makes_the_exit_status_1(capsys, monkeypatch, tmp_path):
    ShownReproduction(FAILED).show()

    text = capsys.readouterr().out
    assert text.count("✗ MISS") == 2
    assert "10.00 %" in text
    assert "[1, 2]" in text
    assert all(len(line) <= 100 for line in text.splitlines())
    monkeypatch.setattr("nicscope.studies.reproduce.harness.reproduce", lambda _, **__: FAILED)
    assert run("utlb/table6", "--out", str(tmp_path)).exit_code == 1
    assert json.loads((tmp_path / "results.json").read_text())["summary"]["ok"] == 0


def test_the_command_prints_json_and_out_holds_the_same_and_a_page(tmp_path):
    result = run("utlb/table6", "--json", "--out", str(tmp_path / "new"))

    assert result.exit_code == 0
    printed = json.loads(result.stdout)
    assert printed["summary"]["points"] == 6
    assert json.loads((tmp_path / "new/results.json").read_text()) == printed
    page = (tmp_path / "new/results.md").read_text()
    assert "| utlb/table6 | utlb[app=fft, entries=1024] us | 9 | 8.95 |" in page
    assert "`nicscope reproduce utlb/table6`" in page
    names = {path.name for path in (tmp_path / "new").iterdir()}
    assert names == {"index.html", "results.json", "results.md"}


def test_every_row_of_the_page_has_its_tables_number_of_cells():
    tables = as_markdown(FAILED, []).split("\n## ")[1:]
    widths = {
        part.split("\n")[0]: [line.count("|") for line in part.splitlines() if line[:1] == "|"]
        for part in tables
    }

    assert {name: set(counts) for name, counts in widths.items()} == {
        "Numbers": {12},
        "Statements": {7},
        "Baselines, by pencil and paper": {3},
        "Known misses": {4},
        "New misses": {4},
        "Known misses that are met now": {3},
        "Missing": {3},
        "Studies without a verdict": {3},
    }
    assert len(widths["New misses"]) == 4  # its head, a rule, the number and the statement
    # A shell can be given the command.
    wanted = ["utlb/table4", "--trace", "my traces"]
    assert "`nicscope reproduce utlb/table4 --trace 'my traces'`" in as_markdown(FAILED, wanted)


def test_what_is_refused_is_refused_before_any_work_and_leaves_all_as_it_was(tmp_path):
    (tmp_path / "taken").write_text("mine")

    assert isinstance(run("utlb/table6", "--out", str(tmp_path / "taken")).exception, OutputError)
    assert isinstance(run("utbl", "--out", str(tmp_path / "new")).exception, StudyError)

    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


def test_help_has_an_example():
    assert "nicscope reproduce utlb/table4 --trace traces" in reproduce.command.examples
    assert "--trace" in run("--help").stdout


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
