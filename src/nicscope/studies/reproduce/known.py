"""Misses that the catalog lists: shown as misses, yet nothing that anybody has broken just now.

``catalog/misses/<paper>.toml`` has for each its item, its name, by how much it misses, and why.
"""

from __future__ import annotations

from decimal import Decimal  # noqa: TC003 - msgspec reads the annotations
from typing import TYPE_CHECKING

import msgspec

from nicscope.config.shelf import open_shelf, shelf_names
from nicscope.errors import StudyError
from nicscope.studies.reproduce.verdict import Met

if TYPE_CHECKING:
    from nicscope.studies.reproduce.verdict import Point, Shape

SHELF = "misses"


class KnownMiss(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A number or a statement that the catalog lists as a miss.

    A number that is further off than ``off`` is a new miss.
    """

    why: str
    off: Decimal | None = None  # of a number: how far at most, in its unit, to either side
    short: str | None = None  # of a statement: how far from holding, in words
    programs: str | None = None  # of a study: at these sizes of its programs alone

    def __post_init__(self) -> None:
        if (self.off is None) == (self.short is None):
            raise ValueError("a known miss says either off, in numbers, or short, in words")

    def covers(self, difference: Decimal) -> bool:
        """Whether a number that is so far off is no further off than is known."""
        return self.off is not None and abs(difference) <= self.off


Known = dict[tuple[str, str], KnownMiss]  # by item and the name of the number or statement


def load_known(paper: str, programs: str | None = None) -> Known:
    """The known misses of ``paper``, for studies those with ``programs`` of these sizes.

    Errors: ``StudyError`` says what is wrong in their file.
    """
    if paper not in shelf_names(SHELF):
        return {}
    _, called, content = open_shelf(SHELF, paper, StudyError)
    try:
        listed = msgspec.convert(content, dict[str, dict[str, KnownMiss]])
    except msgspec.ValidationError as problem:
        raise StudyError(f"{called}: {problem}") from problem
    return {
        (item, name): one
        for item, named in listed.items()
        for name, one in named.items()
        if one.programs in (None, programs)
    }


def met_again(known: Known, item: str, points: list[Point], shapes: list[Shape]) -> list[Met]:
    """Those of ``known`` that are no misses any more, of the numbers and statements of ``item``."""
    fine = [(one.paper, one.quantity) for one in points if one.ok]
    fine += [(one.paper, one.name) for one in shapes if one.ok]
    return [
        Met(paper, item, name, known[item, name].why)
        for paper, name in fine
        if (item, name) in known
    ]
