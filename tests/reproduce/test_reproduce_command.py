from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer
from typer.testing import CliRunner

from nicscope.cli.reproduce import EXAMPLES, reproduce
from nicscope.errors import OutputError, StudyError
from nicscope.reports.reproduction import ShownReproduction
from nicscope.reports.reproduction_markdown import as_markdown
from nicscope.studies.reproduce.verdict import Basis, Missing, Point, Reproduction, Shape

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from click.testing import Result

FAILED = Reproduction(
    [Point("toy", "table1", "far us", 10.0, 11.0, 0.1, 0.05, Basis.PREDICTED, "toy", 9.0, False)],
    [Shape("toy", "table1", "falls", "it falls " * 20, False, "[1, 2]", Basis.IDENTITY, "toy")],
    [Missing("toy", "figure1", "needs a curve")],
)


def run(*arguments: str) -> Result:
    app = typer.Typer()
    app.command()(reproduce)
    return CliRunner().invoke(app, list(arguments))


def test_the_command_prints_one_json_object() -> None:
    result = run("utlb/table6", "--json")

    printed = json.loads(result.stdout)
    assert result.exit_code == 0
    assert list(printed) == [
        *("points", "shapes", "met", "missing", "studies", "baselines", "tables", "summary")
    ]
    assert printed["summary"]["points"] == 6


def test_the_table_fits_100_columns_and_tells_ok_without_colour() -> None:
    result = run("utlb/table1", "utlb/table6", "unet_mm/table1", "trapeze/netperf")

    assert result.exit_code == 0
    assert all(len(line) <= 100 for line in result.stdout.splitlines())
    assert "utlb/table6" in result.stdout
    assert "✓ ok" in result.stdout
    assert "trapeze/netperf" in result.stdout
    assert "numbers within tolerance" in result.stdout


def test_a_miss_is_shown_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    ShownReproduction(FAILED).show()

    text = capsys.readouterr().out
    assert text.count("✗ MISS") == 2
    assert "10.00 %" in text
    assert "[1, 2]" in text
    assert all(len(line) <= 100 for line in text.splitlines())


def test_a_miss_makes_the_exit_status_1(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("nicscope.studies.reproduce.harness.reproduce", lambda _, **__: FAILED)

    result = run("utlb/table6", "--out", str(tmp_path))

    assert result.exit_code == 1
    assert json.loads((tmp_path / "results.json").read_text())["summary"]["ok"] == 0


def test_out_holds_the_json_and_a_page(tmp_path: Path) -> None:
    result = run("utlb/table6", "--json", "--out", str(tmp_path / "new"))

    assert json.loads((tmp_path / "new/results.json").read_text()) == json.loads(result.stdout)
    page = (tmp_path / "new/results.md").read_text()
    assert "| utlb/table6 | utlb[app=fft, entries=1024] us | 9 | 8.95 |" in page
    assert "`nicscope reproduce utlb/table6`" in page
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [
        "index.html",
        "results.json",
        "results.md",
    ]


def test_the_command_on_the_page_can_be_given_to_a_shell() -> None:
    wanted = ["utlb/table4", "--trace", "my traces"]

    assert "`nicscope reproduce utlb/table4 --trace 'my traces'`" in as_markdown(FAILED, wanted)


def test_every_row_of_the_page_has_its_tables_number_of_cells() -> None:
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


def test_a_file_in_the_place_of_the_folder_is_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("mine")

    result = run("utlb/table6", "--out", str(tmp_path / "taken"))

    assert isinstance(result.exception, OutputError)
    assert (tmp_path / "taken").read_text() == "mine"


def test_an_unknown_paper_leaves_no_folder(tmp_path: Path) -> None:
    result = run("utbl", "--out", str(tmp_path / "new"))

    assert isinstance(result.exception, StudyError)
    assert not list(tmp_path.iterdir())


def test_help_has_an_example() -> None:
    assert "nicscope reproduce utlb/table4 --trace traces" in EXAMPLES
    assert "--trace" in run("--help").stdout
