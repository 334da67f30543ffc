"""Which requirements of the papers have a test, which never will and why, and which wait.

Tests are found by reading their source, not by importing it: a test shows a requirement if it,
its class or its module carries ``@pytest.mark.requirement("UT-25")``.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import msgspec

from nicscope.config.shelf import open_shelf, shelf_names
from nicscope.errors import StudyError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

SHELF = "requirements"


class Requirements(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one paper describes, by requirement id, in the paper's order."""

    title: str
    prefix: str
    requirements: dict[str, str]
    explained: dict[str, str]


class Coverage(msgspec.Struct, frozen=True):
    """Every requirement in one of three places; a requirement with a test counts as covered."""

    covered: dict[str, list[str]]  # id: tests, as file::test from the tests folder's parent
    explained: dict[str, str]  # id: why there is no test
    uncovered: list[str]


def load_requirements() -> list[Requirements]:
    """The catalog's requirements, one entry per paper, shared machinery last."""
    papers = [_read(name) for name in shelf_names(SHELF)]
    return sorted(papers, key=lambda paper: ("UM UT MI TR ED SH".find(paper.prefix), paper.title))


def cover(papers: Sequence[Requirements], tests: Path) -> Coverage:
    """Where every requirement of ``papers`` stands, by the tests under the folder ``tests``.

    Errors: ``StudyError`` if there is no such folder, a file in it is not Python, or a marker
    names no requirement.
    """
    found: dict[str, list[str]] = {key: [] for paper in papers for key in paper.requirements}
    for where, test, key in _marks(tests):
        if key not in found:
            raise StudyError(f"{where}: no requirement {key!r}{_nearest(key, found)}")
        if test not in found[key]:
            found[key].append(test)
    explained = {key: why for paper in papers for key, why in paper.explained.items()}
    return Coverage(
        covered={key: held for key, held in found.items() if held},
        explained={key: why for key, why in explained.items() if not found[key]},
        uncovered=[key for key, held in found.items() if not held and key not in explained],
    )


def _read(name: str) -> Requirements:
    _, called, content = open_shelf(SHELF, name, StudyError)
    try:
        paper = msgspec.convert(content, Requirements)
    except msgspec.ValidationError as problem:
        raise StudyError(f"{called}: {problem}") from problem
    for key in (*paper.requirements, *paper.explained):
        if not key.startswith(f"{paper.prefix}-") or key not in paper.requirements:
            raise StudyError(f"{called}: {key!r} is not one of its requirements")
    return paper


def _nearest(key: str, known: dict[str, list[str]]) -> str:
    family = [other for other in known if other.split("-")[0] == key.split("-")[0]]
    return did_you_mean(key, family) if family else "; ids begin with UM-, UT-, MI-, TR-, ED-, SH-"


def _marks(tests: Path) -> Iterator[tuple[str, str, str]]:
    """(file:line, test, requirement id) of every marked test, file by file in order of name."""
    if not tests.is_dir():
        raise StudyError(f"{tests}: no such folder of tests; name one with --tests")
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
    scope: ast.Module | ast.ClassDef, name: str, path: str, inherited: list[tuple[str, str]]
) -> Iterator[tuple[str, str, str]]:
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
            for where, key in (*marks, *own):
                yield where, f"{name}::{node.name}", key


def _assigns_pytestmark(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == "pytestmark" for target in node.targets
    )


def _ids(node: ast.AST, path: str) -> Iterator[tuple[str, str]]:
    """(file:line, id) for every ``pytest.mark.requirement(...)`` within ``node``."""
    for call in ast.walk(node):
        if not isinstance(call, ast.Call) or not _is_requirement(call.func):
            continue
        where = f"{path}:{call.lineno}"
        for argument in call.args:
            if not isinstance(argument, ast.Constant) or not isinstance(argument.value, str):
                raise StudyError(f"{where}: a requirement must be a plain string such as 'UT-25'")
            yield where, argument.value


def _is_requirement(function: ast.expr) -> bool:
    return (
        isinstance(function, ast.Attribute)
        and function.attr == "requirement"
        and isinstance(function.value, ast.Attribute)
        and function.value.attr == "mark"
    )
