from __future__ import annotations

import json

import typer
from typer.testing import CliRunner

from nicscope.cli.reproduce import EXAMPLES, reproduce
from nicscope.errors import OutputError, StudyError
from nicscope.reports.reproduction import ShownReproduction
from nicscope.reports.reproduction_markdown import as_markdown
from nicscope.studies.reproduce.verdict import Basis, Missing, Point, Reproduction, Shape

FAILED = Reproduction(
    [Point("toy", "table1", "far us", 10.0, 11.0, 0.1, 0.05, Basis.PREDICTED, "toy", 9.0, False)],
    [Shape("toy", "table1", "falls", "it falls " * 20, False, "[1, 2]", Basis.IDENTITY, "toy")],
    [Missing("toy", "figure1", "needs a curve")],
)


def run(*arguments):
    app = typer.Typer()
    app.command()(reproduce)
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
    assert "nicscope reproduce utlb/table4 --trace traces" in EXAMPLES
    assert "--trace" in run("--help").stdout
