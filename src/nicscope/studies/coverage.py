"""Which requirements a test shows, which one shows in part, which none will and why, which wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from nicscope.config.shelf import open_shelf, packed, shelf_names
from nicscope.errors import StudyError, did_you_mean
from nicscope.studies.requirement_marks import Mark, gather, marks

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
    """Every requirement in one of four places, the first that it has a right to.

    Tests are named as file::test from the parent of the folder of tests.
    """

    covered: dict[str, list[str]]  # id: tests that show it
    weak: dict[str, dict[str, str]]  # id: tests that show a part of it, and what they do not
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
    known = {key for paper in papers for key in paper.requirements}
    found = list(_packed_marks() if tests is None else marks(tests))
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


def _packed_marks() -> Iterable[tuple[str, Mark]]:
    content = packed(SHELF, PACKED)
    if content is None:
        raise StudyError("this installation lists no tests; name a folder of them with --tests")
    kept = msgspec.json.decode(content, type=dict[str, dict[str, str | None]])
    return [
        (test, Mark(PACKED, key, weak))
        for key, tests in kept.items()
        for test, weak in tests.items()
    ]


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


def _nearest(key: str, known: Iterable[str]) -> str:
    family = [other for other in sorted(known) if other.split("-")[0] == key.split("-")[0]]
    return did_you_mean(key, family) if family else "; ids begin with UM-, UT-, MI-, TR-, ED-, SH-"
