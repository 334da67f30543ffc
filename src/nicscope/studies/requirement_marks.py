"""Tests that show a requirement, found by reading their source, not by importing it.

A test shows a requirement if it, its class or its module carries
``@pytest.mark.requirement("UT-25")``.  The build of a wheel reads them as well, with nothing
installed: only Python's own library is imported.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from nicscope.errors import StudyError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def tests_by_requirement(tests: Path) -> dict[str, list[str]]:
    """Tests under the folder ``tests``, as file::test from its parent, by requirement id."""
    found: dict[str, list[str]] = {}
    for _, test, key in marks(tests):
        held = found.setdefault(key, [])
        if test not in held:
            held.append(test)
    return found


def marks(tests: Path) -> Iterator[tuple[str, str, str]]:
    """(file:line, test, requirement id) of every marked test, file by file in order of name.

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
