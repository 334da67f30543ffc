"""The recipes of ``docs/extending.md`` and the places of ``docs/mechanisms.md`` are complete."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "nicscope"
EXTENDING = (ROOT / "docs" / "extending.md").read_text()
MECHANISMS = (ROOT / "docs" / "mechanisms.md").read_text()
FILE = re.compile(r"`((?:[a-z_0-9-]+/)+[A-Za-z_0-9-]*(?:\.(?:py|toml|md))?)`")


def files_of(page):
    """What the page names that looks like a file or a folder of the repository."""
    return [name for name in FILE.findall(page) if not name.startswith("examples/")]


@pytest.mark.parametrize("page", [EXTENDING, MECHANISMS], ids=["extending", "mechanisms"])
def test_every_file_that_a_page_names_exists(page):
    for name in files_of(page):
        assert (PACKAGE / name).exists() or (ROOT / name).exists(), name


@pytest.mark.parametrize(
    ("example", "word"), [("Scheme.UTLB_PROCESS", "UTLB_PROCESS"), ("Way.CNI", "CNI")]
)
def test_every_place_of_the_example_is_in_its_recipe(example, word):
    mark = re.escape(f"<!-- files of {example} -->")
    [table] = re.findall(rf"{mark}\n(.*?)\n\n", EXTENDING, re.DOTALL)
    named = set(files_of(table))
    places = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if re.search(rf"\b{word}\b", path.read_text())
    }

    assert places
    assert places <= named


def test_every_mechanism_has_a_section_of_a_paper_and_a_requirement():
    rows = [line for line in MECHANISMS.splitlines() if line.startswith("| *")]
    known = "".join(path.read_text() for path in (ROOT / "tests" / "requirements").glob("*.toml"))

    assert len(rows) > 20
    for row in rows:
        ids = re.findall(r"\b(?:UM|UT|MI|TR|ED|SH)-\d+", row)
        assert ids, row
        assert all(f"\n{one} = " in known for one in ids), row
        assert re.search(r"U-Net/MM|UTLB|miNI|Trapeze|EDT", row), row
