"""Which requirements of the papers have a test, which never will and why, and which wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from nicscope.config.shelf import open_shelf, packed, shelf_names
from nicscope.errors import StudyError, did_you_mean
from nicscope.studies.requirement_marks import marks

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

SHELF = "requirements"
PACKED = "tests.json"  # what ``hatch_build.py`` puts into a wheel


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


def cover(papers: Sequence[Requirements], tests: Path | None) -> Coverage:
    """Where every requirement of ``papers`` stands, by the tests under the folder ``tests``.

    None stands for the tests that there were when this installation was built.  Errors:
    ``StudyError`` if there is no such folder, nothing was kept of them, a file in it is not
    Python, or a marker names no requirement.
    """
    found: dict[str, list[str]] = {key: [] for paper in papers for key in paper.requirements}
    for where, test, key in _packed_marks() if tests is None else marks(tests):
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


def _packed_marks() -> Iterable[tuple[str, str, str]]:
    content = packed(SHELF, PACKED)
    if content is None:
        raise StudyError("this installation lists no tests; name a folder of them with --tests")
    kept = msgspec.json.decode(content, type=dict[str, list[str]])
    return [(PACKED, test, key) for key, tests in kept.items() for test in tests]


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
