import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from nicscope.cli.reproduce import coverage
from nicscope.errors import StudyError
from nicscope.reports.coverage import ShownCoverage
from nicscope.reports.printing import lines_of
from nicscope.studies.coverage import Requirements, cover, load_requirements
from refusals import refused

ROOT = Path(__file__).parents[2]
TOY = [
    Requirements("Toy", "UT", {f"UT-{n}": f"thing {n}" for n in range(1, 7)}, {"UT-6": "a dream"})
]


def folder_with(tmp_path, text):
    folder = tmp_path / "tests"
    folder.mkdir(exist_ok=True)
    (folder / "test_toy.py").write_text(text)
    return folder


def test_marks_on_functions_classes_and_modules_are_found_without_importing(tmp_path):
    folder = folder_with(
        tmp_path,
        """
import pytest, a_module_that_does_not_exist

pytestmark = [pytest.mark.slow, pytest.mark.requirement("UT-1")]

@pytest.mark.requirement("UT-2", "UT-3")
def test_function(): ...

@pytest.mark.requirement("UT-4")
class TestClass:
    def test_method(self): ...
    def helper(self): ...
""",
    )

    found = cover(TOY, folder)

    function, method = (
        "tests/test_toy.py::test_function",
        "tests/test_toy.py::TestClass::test_method",
    )
    assert found.covered == {
        "UT-1": [function, method],
        "UT-2": [function],
        "UT-3": [function],
        "UT-4": [method],
    }
    assert found.uncovered == ["UT-5"]
    assert found.explained == {"UT-6": "a dream"}


@pytest.mark.parametrize(
    ("text", "requirement", "test"),
    [
        (
            "@pytest.mark.parametrize('n', [\n"
            "    pytest.param(1, marks=pytest.mark.requirement('UT-5'))])\n"
            "def test_one(n): ...\n",
            "UT-5",
            "test_one",
        ),
        # What is explained and has a test.
        ('@pytest.mark.requirement("UT-6")\ndef test_dream(): ...\n', "UT-6", "test_dream"),
    ],
)
def test_a_mark_counts_on_one_parameter_set_and_on_what_is_explained(
    tmp_path, text, requirement, test
):
    found = cover(TOY, folder_with(tmp_path, text))

    assert found.covered == {requirement: [f"tests/test_toy.py::{test}"]}
    assert requirement not in found.explained


WEAK = """
@pytest.mark.requirement("UT-1", "UT-2", weak="for one process only")
def test_a_part(): ...

@pytest.mark.requirement("UT-3", weak="not on a full table")
@pytest.mark.requirement("UT-3")
def test_both(): ...

@pytest.mark.requirement("UT-2")
def test_the_whole(): ...

@pytest.mark.requirement("UT-6", weak="only the name of it")
def test_a_dream(): ...
"""


def test_a_requirement_with_weak_tests_only_stands_apart_with_what_they_do_not_show(tmp_path):
    found = cover(TOY, folder_with(tmp_path, WEAK))

    assert found.weak == {
        "UT-1": {"tests/test_toy.py::test_a_part": "for one process only"},
        "UT-6": {"tests/test_toy.py::test_a_dream": "only the name of it"},
    }
    assert found.covered == {
        "UT-2": ["tests/test_toy.py::test_the_whole"],
        "UT-3": ["tests/test_toy.py::test_both"],
    }
    assert found.explained == {}
    assert found.uncovered == ["UT-4", "UT-5"]


def test_the_text_tells_shown_weak_and_explained_apart(tmp_path):
    found = cover(TOY, folder_with(tmp_path, WEAK))

    lines = [str(line).strip() for line in lines_of(ShownCoverage(found, TOY).parts(), 100)]

    (heads,) = (line.split() for line in lines if line.startswith("paper"))
    (counts,) = (line.split() for line in lines if line.startswith("Toy (UT)"))
    told = dict(zip(heads[1:], counts[2:], strict=True))
    assert told == {"shown": "2", "weak": "2", "explained": "0", "uncovered": "2", "all": "6"}
    assert any(line.split()[:1] == ["UT-1"] and "for one process only" in line for line in lines)
    assert not any("not on a full table" in line for line in lines)


@pytest.mark.parametrize(
    ("mark", "facts"),
    [
        ('("UT-1", weak="")', ["weak", "plain string"]),
        ('("UT-1", weak=True)', ["weak", "plain string"]),
        ('("UT-1", week="half")', ["'week'", "weak="]),
        ('("UT-11")', ["'UT-11'", "'UT-1'"]),
        ('("XX-1")', ["'XX-1'", "UM-"]),
        ("(NAME)", ["plain string"]),
    ],
)
def test_a_wrong_marker_is_named_with_its_line(tmp_path, mark, facts):
    text = f"@pytest.mark.requirement{mark}\ndef test_it(): ...\n"
    with refused(StudyError, "tests/test_toy.py:1: ", *facts):
        cover(TOY, folder_with(tmp_path, text))


def test_a_file_that_is_no_python_is_named(tmp_path):
    with refused(StudyError, "tests/test_toy.py: ", "Python"):
        cover(TOY, folder_with(tmp_path, "def test_it(: ...\n"))


def test_a_missing_folder_says_what_to_do(tmp_path):
    with refused(StudyError, "folder", "--tests"):
        cover(TOY, tmp_path / "nowhere")


def installed(tmp_path, *, tests):
    """Where a wheel of this source tree, with its tests or without, is unpacked."""
    source, wheels, place = (tmp_path / name for name in ("source", "wheels", "installed"))
    kept = ("src", "LICENSE", "README.md", "pyproject.toml", "hatch_build.py")
    source.mkdir()
    for name in kept + ("tests",) * tests:
        (source / name).symlink_to(ROOT / name)
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(wheels)]
    subprocess.run(build, cwd=source, check=True, capture_output=True, timeout=120)
    (wheel,) = wheels.iterdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place)
    return place


def covered_by(place, folder):
    """The coverage that the package at ``place`` tells when it is run in ``folder``."""
    return subprocess.run(
        [sys.executable, "-m", "nicscope", "coverage", "--json"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(place)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_an_installed_wheel_tells_what_the_source_tree_does(tmp_path):
    place = installed(tmp_path, tests=True)
    (tmp_path / "tests").mkdir()  # somebody's project is no test of nicscope's

    done = covered_by(place, tmp_path)

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found == json.loads(covered_by(ROOT / "src", tmp_path).stdout)
    assert len(found["covered"]) > 100
    assert set(found["weak"]).isdisjoint(found["covered"])
    assert not list(tmp_path.glob("source/dist/*"))


def test_a_wheel_built_without_tests_says_what_it_needs(tmp_path):
    done = covered_by(installed(tmp_path, tests=False), tmp_path)

    assert (done.returncode, done.stdout) == (2, "")
    line = "nicscope: this installation lists no tests; name a folder of them with --tests\n"
    assert done.stderr == line


def test_the_catalog_lists_every_requirement_once_and_none_in_two_places(tmp_path):
    papers = load_requirements()

    found = cover(papers, folder_with(tmp_path, ""))

    assert [paper.prefix for paper in papers] == ["UM", "UT", "MI", "TR", "ED", "SH"]
    assert [len(paper.requirements) for paper in papers] == [82, 68, 52, 53, 58, 9]
    assert set(found.explained) == {
        *("UM-59b", "UM-88", "UT-12", "UT-43"),
        *("MI-24", "MI-57", "MI-61", "TR-15", "TR-76"),
    }
    assert len(found.uncovered) + len(found.explained) == 322
    assert not found.covered


def test_the_text_lists_what_waits_and_the_json_all(tmp_path):
    papers = load_requirements()
    folder = folder_with(tmp_path, '@pytest.mark.requirement("UT-93")\ndef test_it(): ...\n')

    parts = ShownCoverage(cover(papers, folder), papers).parts()
    lines = [str(line) for line in lines_of(parts, 100)]

    assert all(len(line) <= 100 for line in lines)
    text = "\n".join(lines)
    assert "UM-59a" in text
    assert "UT-93" not in text
    assert "list prices of 2002, optional" in text
    app = typer.Typer()
    app.command()(coverage)
    printed = json.loads(CliRunner().invoke(app, ["--json", "--tests", str(folder)]).stdout)
    assert list(printed) == ["covered", "weak", "explained", "uncovered"]
    assert printed["covered"] == {"UT-93": ["tests/test_toy.py::test_it"]}
    assert "UT-1" in printed["uncovered"]
