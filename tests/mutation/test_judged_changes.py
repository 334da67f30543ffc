"""Each judgement has its reason, its line is there, and it means no more than it says."""

import re
import tomllib
from pathlib import Path

import pytest

judged = pytest.importorskip("judged", reason="tests/mutation is not on the path")

ROOT = Path(__file__).parents[2]
TABLE = tomllib.loads((ROOT / "tests" / "mutation" / "judged.toml").read_text())


class Change:
    def __init__(self, path, before, after):
        self.path, self.before, self.after = Path(path), before, after


def test_every_change_that_is_judged_is_of_a_line_that_is_there():
    missing = [
        (file, before)
        for each in TABLE["equivalent"]
        for file, before, _after in each["changes"]
        if before not in map(str.strip, (ROOT / file).read_text().splitlines())
    ]

    assert missing == []


def test_every_judgement_says_why():
    assert all(len(each["reason"].split()) > 4 for part in TABLE.values() for each in part)


def test_every_kind_is_of_lines_that_are_there():
    for kind in TABLE["kind"]:
        places = [ROOT / "src" / "nicscope" / part for part in kind["within"]]
        files = [file for place in places for file in (place, *place.rglob("*.py"))]
        text = "\n".join(file.read_text() for file in files if file.is_file())
        for old, *_ in kind["changes"]:
            assert re.search(old, text, re.MULTILINE), kind["reason"]


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ("a = memory.config[0].size", "a = memory.config[ -1].size", True),
        ("a = memory.config[0].size", "a = memory.config[ 1].size", False),
        ("a = config[0].x + config[0].y", "a = config[0].x + config[-1].y", True),
        ("a = config[0].x + config[0].y", "a = config[-1].x + config[-1].y", False),
        ("if frame.pins > 0:", "if frame.pins != 0:", True),
        ("if frame.pins > 0:", "if frame.pins >= 0:", False),
    ],
)
def test_a_kind_is_one_change_of_one_place(before, after, same):
    change = Change("src/nicscope/memory/paging/frames.py", before, after)

    assert judged.judged_equivalent(change) == same


def test_a_kind_holds_where_it_is_said_to_hold():
    elsewhere = Change("src/nicscope/reports/tables.py", "config[0].x", "config[-1].x")

    assert not judged.judged_equivalent(elsewhere)
