import json
import subprocess
import sys

import pytest

from coverage_of_papers import TESTS, Requirements, cover, load_requirements, parts
from nicscope.errors import StudyError
from nicscope.reports.printing import lines_of
from refusals import refused

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

    lines = [str(line).strip() for line in lines_of(parts(TOY, found), 100)]

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


def test_a_missing_folder_is_named(tmp_path):
    with refused(StudyError, "no such folder of tests"):
        cover(TOY, tmp_path / "nowhere")


def test_every_requirement_is_listed_once_and_none_in_two_places(tmp_path):
    papers = load_requirements()

    found = cover(papers, folder_with(tmp_path, ""))

    assert [paper.prefix for paper in papers] == ["UM", "UT", "MI", "TR", "ED", "SH"]
    assert [len(paper.requirements) for paper in papers] == [82, 68, 52, 53, 58, 9]
    assert set(found.explained) == {
        *("UM-59b", "UM-88", "UT-12", "UT-43"),
        *("MI-24", "MI-57", "MI-61", "TR-15"),
    }
    assert len(found.uncovered) + len(found.explained) == 322
    assert not found.covered


def test_the_text_lists_what_waits(tmp_path):
    papers = load_requirements()
    folder = folder_with(tmp_path, '@pytest.mark.requirement("UT-93")\ndef test_it(): ...\n')

    lines = [str(line) for line in lines_of(parts(papers, cover(papers, folder)), 100)]

    assert all(len(line) <= 100 for line in lines)
    text = "\n".join(lines)
    assert "UM-59a" in text
    assert "UT-93" not in text
    assert "list prices of 2002, optional" in text


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_the_script_tells_the_marks_of_all_tests(words):
    script = TESTS / "coverage_of_papers.py"
    done = subprocess.run([sys.executable, script, *words], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    if not words:
        assert "322" in done.stdout
        return
    found = json.loads(done.stdout)
    assert list(found) == ["covered", "weak", "explained", "uncovered"]
    assert len(found["covered"]) > 100
    assert set(found["weak"]).isdisjoint(found["covered"])
