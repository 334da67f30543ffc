"""Misses that the catalog lists: shown as misses, yet nothing that anybody has broken just now.

``catalog/misses/<paper>.toml`` has for each its item, its name, by how much it misses, and why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from nicscope.config.shelf import open_shelf, shelf_names
from nicscope.errors import StudyError
from nicscope.studies.reproduce.verdict import KnownMiss, Met

if TYPE_CHECKING:
    from nicscope.studies.reproduce.verdict import Point, Shape

SHELF = "misses"


Known = dict[tuple[str, str], KnownMiss]  # by item and the name of the number or statement


def load_known(paper: str) -> Known:
    """The known misses of ``paper``; ``StudyError`` says what is wrong in their file."""
    if paper not in shelf_names(SHELF):
        return {}
    _, called, content = open_shelf(SHELF, paper, StudyError)
    try:
        listed = msgspec.convert(content, dict[str, dict[str, KnownMiss]])
    except msgspec.ValidationError as problem:
        raise StudyError(f"{called}: {problem}") from problem
    return {(item, name): one for item, named in listed.items() for name, one in named.items()}


def met_again(known: Known, item: str, points: list[Point], shapes: list[Shape]) -> list[Met]:
    """Those of ``known`` that are no misses any more, of the numbers and statements of ``item``."""
    fine = [(one.paper, one.quantity) for one in points if one.ok]
    fine += [(one.paper, one.name) for one in shapes if one.ok]
    return [
        Met(paper, item, name, known[item, name].why)
        for paper, name in fine
        if (item, name) in known
    ]
