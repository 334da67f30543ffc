"""A known miss is shown and harmless; a new one, a worse one and one that is met are not."""

from decimal import Decimal

import pytest
import typer
from typer.testing import CliRunner

from nicscope.cli.answer import answer_reproduction, derived
from nicscope.config import toml_files
from nicscope.errors import StudyError
from nicscope.library.reproduce import reproduce as command
from nicscope.reports.printing import lines_of
from nicscope.reports.reproduction import ShownReproduction, as_markdown
from nicscope.studies.reproduce.harness import load_papers, reproduce
from nicscope.studies.reproduce.verdict import (
    Basis,
    ExpectedShape,
    Item,
    Outcome,
    Paper,
    PointGroup,
    load_known,
    paper_keys,
)
from refusals import refused

PREDICTED = Basis.PREDICTED
TOY = {
    "toy": Paper(
        "toy",
        "A toy",
        {
            "table1": Item(
                "1",
                "numbers",
                points=[
                    PointGroup("far", "us", Decimal(10), Decimal("0.5"), "print", PREDICTED, "toy")
                ],
                shapes=[ExpectedShape("up", "it rises", PREDICTED, "toy")],
            )
        },
    )
}
LISTED = """
[table1."far us"]
off = 2
why = "nobody knows the timer"

[table1.up]
short = "it falls by a tenth"
why = "nor the load"
"""


@pytest.fixture
def listed(tmp_path, monkeypatch):
    """The file that lists both as known misses."""
    path = tmp_path / "catalog" / "misses" / "toy.toml"
    path.parent.mkdir(parents=True)
    path.write_text(LISTED)
    monkeypatch.setattr(toml_files, "CATALOG", tmp_path / "catalog")
    return path


def found(far, up):
    def find(paper, item):  # noqa: ARG001
        def run(_):
            outcome = Outcome()
            outcome.point("far", "us", far)
            outcome.shape("up", up, "2, 1")
            return outcome

        return run

    return reproduce([], TOY, find)


def status(monkeypatch, result):
    monkeypatch.undo()
    monkeypatch.setattr("nicscope.studies.reproduce.harness.reproduce", lambda _, **__: result)
    app = typer.Typer()
    app.command()(derived(command, answer_reproduction))
    return CliRunner().invoke(app, ["utlb/table6"]).exit_code


def text_of(result):
    return "\n".join(str(line) for line in lines_of(ShownReproduction(result).parts(), 80))


@pytest.mark.parametrize(
    ("far", "up", "exit_status"),
    [
        (11.9, False, 0),
        (8.0, False, 0),  # as far on the other side
        (12.1, False, 1),  # further off than is known
        (10.2, False, 1),  # the number is met: the list is too long
        (11.9, True, 1),  # the statement holds
    ],
)
def test_the_exit_status_is_0_while_the_misses_are_those_that_are_listed(
    listed, monkeypatch, far, up, exit_status
):
    assert listed.is_file()
    assert status(monkeypatch, found(far, up)) == exit_status


def test_a_miss_that_nobody_has_listed_is_new(listed, monkeypatch):
    listed.unlink()
    result = found(11.9, False)

    assert [one.known_miss for one in result.misses()] == [None, None]
    assert result.summary().new_misses == 2
    assert "off by 1.9" in text_of(result)
    assert status(monkeypatch, result) == 1


@pytest.mark.parametrize(
    ("listing", "other", "unknown"),
    [
        ('short = "it falls by a tenth"', "off = 3", "up"),
        ("off = 2", 'short = "a little"', "far us"),
    ],
)
def test_a_statement_is_known_by_words_and_a_number_by_how_far_it_is_off(
    listed, listing, other, unknown
):
    listed.write_text(LISTED.replace(listing, other))
    missed = found(11.9, False)
    names = [one.quantity for one in missed.points] + [one.name for one in missed.shapes]
    new = [one.known_miss is None for one in missed.misses()]
    assert dict(zip(names, new, strict=True)) == {name: name == unknown for name in names}


@pytest.mark.usefixtures("listed")
def test_a_known_miss_is_shown_with_its_reason_and_named_once_it_is_met():
    result = found(11.9, False)

    text = text_of(result)
    assert (result.summary().ok, result.summary().known_misses) == (0, 2)
    assert text.count("✗ known") == 2
    assert "far us: nobody knows the timer" in text
    assert "✗ MISS" not in text
    assert "| toy/table1 | far us | nobody knows the timer |" in as_markdown(result, [])

    result = found(10.2, False)

    assert [(one.name, one.why) for one in result.met] == [("far us", "nobody knows the timer")]
    assert "known misses that are met now" in text_of(result)
    assert result.to_json()["met"][0]["name"] == "far us"


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ('why = "x"', ["off", "short"]),
        ('off = 1\nshort = "x"\nwhy = "x"', ["off", "short"]),
        ('off = 1\nwhi = "x"', ["whi"]),
        ('off = 1\nwhy = "x"\ncause = "weather"', ["cause", "weather"]),
    ],
)
def test_a_list_that_says_too_much_or_too_little_is_refused(listed, text, facts):
    listed.write_text(f"[table1.up]\n{text}\n")

    with refused(StudyError, *facts):
        load_known("toy")


@pytest.mark.parametrize("key", paper_keys())
def test_the_catalog_lists_what_there_is_and_says_of_numbers_and_statements_how_far(key):
    items = load_papers()[key].items
    numbers = {
        (name, one.quantity): one for name, item in items.items() for one in item.expected_points()
    }
    statements = {(name, one.id) for name, item in items.items() for one in item.shapes}

    for place, known in load_known(key).items():
        assert len(known.why.split()) > 2, place
        if known.off is None:
            assert place in statements, place
        else:
            # What is listed with less than its tolerance is no miss.
            assert known.off > numbers[place].tolerance, place


def test_a_tolerance_leaves_room_to_fail():
    """Neither nothing at all nor twice what is printed is within any tolerance."""
    for key, paper in load_papers().items():
        for name, item in paper.items.items():
            for one in item.expected_points():
                share = one.tolerance / abs(one.published) if one.published else Decimal(0)
                assert share <= Decimal("0.5"), f"{key}/{name}: {one.quantity}"
