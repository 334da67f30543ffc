"""Tests that show a requirement, found by reading their source, not by importing it.

A test shows a requirement if it, its class or its module carries
``@pytest.mark.requirement("UT-25")``, and a part of it if the mark says what it does not show:
``@pytest.mark.requirement("UT-25", weak="one process only")``.  The build of a wheel reads them as
well, with nothing installed: only Python's own library is imported.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, NamedTuple

from nicscope.errors import StudyError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


class Mark(NamedTuple):
    """One requirement that a mark names."""

    where: str  # file:line
    key: str
    weak: str | None  # what of it the test does not show; None: nothing is left out


def tests_by_requirement(tests: Path) -> dict[str, dict[str, str | None]]:
    """By requirement id, the tests under the folder ``tests``, as file::test from its parent.

    With each, what it does not show of the requirement; None if nothing is left out.
    """
    return gather(marks(tests))


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
