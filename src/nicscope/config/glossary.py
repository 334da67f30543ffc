"""What words and columns of results mean: the catalog's one text on each.

``catalog/glossary/terms.toml`` has a table for each term: what it ``means`` and the ``source`` of
that, if it is somebody else's; ``headings`` of tables that it stands behind besides its own name,
of which one in slashes is a pattern; and with ``topic`` the results whose headings it is for alone.
``columns.toml`` has for each column of tables for programs its ``unit`` and what it ``means``.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple, TypeVar

import msgspec

from nicscope.config.shelf import open_shelf
from nicscope.errors import StudyError

SHELF = "glossary"
T = TypeVar("T")
PATTERN = "/"


class Term(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A word, and what it means."""

    means: str
    source: str = ""
    headings: list[str] = []
    topic: list[str] = []  # empty: wherever nothing else is meant

    def stands_behind(self, heading: str) -> bool:
        """Whether one of its headings is ``heading``."""
        return any(_fits(heading, each) for each in self.headings)


class Column(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A column of tables for programs: one unit and one meaning wherever it is."""

    means: str
    unit: str = ""  # of a number; empty: none, or a count of what it means


def _fits(name: str, pattern: str) -> bool:
    if len(pattern) > 1 and pattern.startswith(PATTERN) and pattern.endswith(PATTERN):
        return re.fullmatch(pattern[1:-1], name) is not None
    return name == pattern


class Meaning(NamedTuple):
    """A term by its name."""

    name: str
    term: Term


@cache
def terms() -> dict[str, Term]:
    """Every term by its name."""
    return _read("terms", Term)


@cache
def columns() -> dict[str, Column]:
    """Every column by its name."""
    return _read("columns", Column)


def _read(name: str, kind: type[T]) -> dict[str, T]:
    _, called, content = open_shelf(SHELF, name, StudyError)
    try:
        return {key: msgspec.convert(value, kind) for key, value in content.items()}
    except msgspec.ValidationError as problem:
        raise StudyError(f"{called}: {problem}") from problem


def meaning_of(heading: str, topic: str) -> Meaning | None:
    """The term behind ``heading`` in results on ``topic``; what is for these alone goes first."""
    found = [
        Meaning(name, term)
        for name, term in terms().items()
        if (not term.topic or topic in term.topic)
        and (name == heading or term.stands_behind(heading))
    ]
    return max(found, key=lambda one: bool(one.term.topic), default=None)


def column_of(name: str) -> Column | None:
    """The column ``name``; entries in slashes are patterns."""
    every = columns()
    if name in every:
        return every[name]
    return next((column for key, column in every.items() if _fits(name, key)), None)
