"""Which requirements of the papers have a test, found by the marks of the tests.

    python tests/coverage_of_papers.py          # counts per paper, what is weak, what is explained
    python tests/coverage_of_papers.py --json   # each requirement in one of four places

``requirements/`` lists what each paper describes.  Tests are read, not imported.
"""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from rich.text import Text

from nicscope.config.toml_files import open_shelf
from nicscope.errors import StudyError, did_you_mean
from nicscope.reports.printing import Printed, Rows, show

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

TESTS = Path(__file__).parent
SHELF = TESTS / "requirements"


class Mark(NamedTuple):
    """One requirement that a mark names."""

    where: str  # file:line
    key: str
    weak: str | None  # what of it the test does not show; None: nothing is left out


def gather(found: Iterable[tuple[str, Mark]]) -> dict[str, dict[str, str | None]]:
    """By requirement id, the tests and what they do not show; a mark without weakness counts."""
    held: dict[str, dict[str, str | None]] = {}
    for test, mark in found:
        tests = held.setdefault(mark.key, {})
        tests[test] = mark.weak if tests.get(test, "") is not None else None
    return held


def marks(tests: Path) -> Iterator[tuple[str, Mark]]:
    """Test and mark of every marked test, file by file in order of name.

    Errors: ``StudyError`` if there is no such folder, or a file in it is not Python.
    """
    if not tests.is_dir():
        raise StudyError(f"{tests}: no such folder of tests")
    for path in sorted(tests.rglob("test_*.py")):
        name = path.relative_to(tests.parent).as_posix()
        try:
            module = ast.parse(path.read_bytes(), filename=name)
        except OSError as problem:
            raise StudyError(f"{name}: cannot be read: {problem.strerror}") from problem
        except (SyntaxError, ValueError) as problem:
            raise StudyError(f"{name}: is not Python: {problem}") from problem
        yield from _marks_of(module, name, name, [])


def _marks_of(
    scope: ast.Module | ast.ClassDef, name: str, path: str, inherited: list[Mark]
) -> Iterator[tuple[str, Mark]]:
    """Marks of the tests of a module or class, those that they inherit first."""
    marks = [*inherited]
    for node in scope.body:
        if _assigns_pytestmark(node):
            marks.extend(_ids(node, path))
    for node in scope.body:
        if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            own = [mark for given in node.decorator_list for mark in _ids(given, path)]
            yield from _marks_of(node, f"{name}::{node.name}", path, [*marks, *own])
        elif isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
            own = [mark for given in node.decorator_list for mark in _ids(given, path)]
            for mark in (*marks, *own):
                yield f"{name}::{node.name}", mark


def _assigns_pytestmark(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == "pytestmark" for target in node.targets
    )


def _ids(node: ast.AST, path: str) -> Iterator[Mark]:
    """Every requirement that ``pytest.mark.requirement(...)`` names within ``node``."""
    for call in ast.walk(node):
        if not isinstance(call, ast.Call) or not _is_requirement(call.func):
            continue
        where = f"{path}:{call.lineno}"
        weak = _weakness(call, where)
        for argument in call.args:
            if not isinstance(argument, ast.Constant) or not isinstance(argument.value, str):
                raise StudyError(f"{where}: a requirement must be a plain string such as 'UT-25'")
            yield Mark(where, argument.value, weak)


def _weakness(call: ast.Call, where: str) -> str | None:
    """What the mark says that its test does not show."""
    said: str | None = None
    for keyword in call.keywords:
        if keyword.arg != "weak":
            raise StudyError(f"{where}: a requirement takes no {keyword.arg!r}, only weak='...'")
        given = keyword.value.value if isinstance(keyword.value, ast.Constant) else None
        if not isinstance(given, str) or not given.strip():
            raise StudyError(f"{where}: weak must be a plain string that says what is not shown")
        said = given
    return said


def _is_requirement(function: ast.expr) -> bool:
    return (
        isinstance(function, ast.Attribute)
        and function.attr == "requirement"
        and isinstance(function.value, ast.Attribute)
        and function.value.attr == "mark"
    )


class Requirements(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one paper describes, by requirement id, in the paper's order."""

    title: str
    prefix: str
    requirements: dict[str, str]
    explained: dict[str, str]


class Coverage(msgspec.Struct, frozen=True):
    """Every requirement in one of four places, the first that it has a right to.

    Tests are named as file::test from the parent of the folder of tests.
    """

    covered: dict[str, list[str]]  # id: tests that show it
    weak: dict[str, dict[str, str]]  # id: tests that show a part of it, and what they do not
    explained: dict[str, str]  # id: why there is no test
    uncovered: list[str]


def load_requirements() -> list[Requirements]:
    """What each paper describes, one entry per paper, shared machinery last."""
    papers = [_read(path) for path in SHELF.glob("*.toml")]
    return sorted(papers, key=lambda paper: ("UM UT MI TR ED SH".find(paper.prefix), paper.title))


def _read(path: Path) -> Requirements:
    _, called, content = open_shelf("requirements", path, StudyError)
    try:
        paper = msgspec.convert(content, Requirements)
    except msgspec.ValidationError as problem:
        raise StudyError(f"{called}: {problem}") from problem
    for key in (*paper.requirements, *paper.explained):
        if not key.startswith(f"{paper.prefix}-") or key not in paper.requirements:
            raise StudyError(f"{called}: {key!r} is not one of its requirements")
    return paper


def cover(papers: Sequence[Requirements], tests: Path = TESTS) -> Coverage:
    """Where every requirement of ``papers`` stands, by the tests under the folder ``tests``.

    Errors: ``StudyError`` if there is no such folder, a file in it is not Python, or a marker
    names no requirement.
    """
    known = {key for paper in papers for key in paper.requirements}
    found = list(marks(tests))
    for _, (where, key, _) in found:
        if key not in known:
            raise StudyError(f"{where}: no requirement {key!r}{_nearest(key, known)}")
    held = gather(found)
    whole = {key: [test for test, weak in held[key].items() if weak is None] for key in held}
    parts = {key: {test: weak for test, weak in held[key].items() if weak} for key in held}
    explained = {key: why for paper in papers for key, why in paper.explained.items()}
    keys = [key for paper in papers for key in paper.requirements]
    return Coverage(
        covered={key: whole[key] for key in keys if whole.get(key)},
        weak={key: parts[key] for key in keys if key in held and not whole[key]},
        explained={key: why for key, why in explained.items() if key not in held},
        uncovered=[key for key in keys if key not in held and key not in explained],
    )


def _nearest(key: str, known: Iterable[str]) -> str:
    family = [other for other in sorted(known) if other.split("-")[0] == key.split("-")[0]]
    return did_you_mean(key, family) if family else "; ids begin with UM-, UT-, MI-, TR-, ED-, SH-"


def parts(papers: Sequence[Requirements], found: Coverage) -> Iterator[Printed]:
    """Counts per paper, ids without a test, what weak tests leave out, and reasons for none."""
    yield count_rows(papers, found)
    uncovered = set(found.uncovered)
    for paper in papers:
        waiting = [key for key in paper.requirements if key in uncovered]
        if waiting:
            yield Text(f"\n{paper.title}, without a test:")
            yield Text(", ".join(waiting), style="dim")
    if found.weak:
        yield Text("\nwith weak tests only, and what these do not show:")
        yield weak_rows(found)
    if found.explained:
        yield Text("\nwithout a test for a reason:")
        yield reason_rows(found)


def count_rows(papers: Sequence[Requirements], found: Coverage) -> Rows:
    """How many requirements each paper has, by whether a test shows them."""
    cells = []
    totals = [0, 0, 0, 0, 0]
    for paper in papers:
        keys = paper.requirements
        counts = [
            sum(key in place for key in keys)
            for place in (found.covered, found.weak, found.explained, found.uncovered, keys)
        ]
        totals = [total + count for total, count in zip(totals, counts, strict=True)]
        cells.append([f"{paper.title} ({paper.prefix})", *map(str, counts)])
    return Rows(
        "",
        ["paper", "shown", "weak", "explained", "uncovered", "all"],
        [*cells, ["all", *map(str, totals)]],
        least=("explained", "all", "shown"),
    )


def weak_rows(found: Coverage) -> Rows:
    """What the weak tests of each requirement do not show, each once."""
    cells = [
        [key if not place else "", what]
        for key, tests in found.weak.items()
        for place, what in enumerate(dict.fromkeys(tests.values()))
    ]
    return Rows("", ["", ""], cells, left=(0, 1))


def reason_rows(found: Coverage) -> Rows:
    """Why each requirement that is explained away has no test."""
    cells = [[key, why] for key, why in found.explained.items()]
    return Rows("", ["", ""], cells, left=(0, 1))


if __name__ == "__main__":
    listed = load_requirements()
    try:
        coverage = cover(listed)
    except StudyError as problem:
        sys.exit(f"{Path(__file__).name}: {problem}")
    if sys.argv[1:] == ["--json"]:
        print(json.dumps(msgspec.to_builtins(coverage), indent=2))
    else:
        show(parts(listed, coverage))
