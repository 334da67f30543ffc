"""Definitions of terms and columns of results, and tools' names for hits and misses."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple, TypeVar

import msgspec

from nicscope.config.toml_files import open_shelf
from nicscope.errors import StudyError

SHELF = "glossary"
T = TypeVar("T")
PATTERN = "/"


class Term(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A term and its definition."""

    means: str
    source: str = ""
    headings: list[str] = []
    topic: list[str] = []  # empty: wherever nothing else is meant

    def has_heading(self, heading: str) -> bool:
        """Whether ``heading`` is one of the term's headings."""
        return any(_fits(heading, each) for each in self.headings)


class Column(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A column of machine-readable tables: its unit and meaning, the same everywhere."""

    means: str
    unit: str = ""  # of a number; empty: none, or a count of what it means


def _fits(name: str, pattern: str) -> bool:
    if len(pattern) > 1 and pattern.startswith(PATTERN) and pattern.endswith(PATTERN):
        return re.fullmatch(pattern[1:-1], name) is not None
    return name == pattern


class Meaning(NamedTuple):
    """A term and its name."""

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
    """The term of ``heading`` in results on ``topic``; topic-specific terms take precedence."""
    found = [
        Meaning(name, term)
        for name, term in terms().items()
        if (not term.topic or topic in term.topic)
        and (name == heading or term.has_heading(heading))
    ]
    return max(found, key=lambda one: bool(one.term.topic), default=None)


def column_of(name: str) -> Column | None:
    """The column ``name``; entries in slashes are regular expressions."""
    every = columns()
    if name in every:
        return every[name]
    return next((column for key, column in every.items() if _fits(name, key)), None)


# By what is spelt alike in all of them: the cache, and whether the counter is of hits.
_NAMES = (
    (re.compile(r"(hits|misses)"), "the cache"),
    (re.compile(r"level ?0 mtt cache (hit|miss)"), "MTT, level 0"),
    (re.compile(r"(?:mlx5_tpt_)?l0_mtt_(hit|miss)"), "MTT, level 0"),
)
# What nobody can fit from requests alone, and why.
_OTHERS = (
    (re.compile(r"level ?1 mtt cache (?:hit|miss)"), "level 1 sees what level 0 misses alone"),
    (re.compile(r"(?:mlx5_tpt_)?l1_mtt_(?:hit|miss)"), "level 1 sees what level 0 misses alone"),
    (
        re.compile(r"level ?[01] mpt cache (?:hit|miss)"),
        "it counts regions, of which requests say nothing",
    ),
    (
        re.compile(r"(?:mlx5_tpt_)?l[01]_mpt_(?:hit|miss)"),
        "it counts regions, of which requests say nothing",
    ),
    (
        re.compile(r"icm cache miss|mlx5_pxt_icm_cache_miss"),
        "it counts all that comes from the host, not translations alone",
    ),
)


def known_counter(name: str) -> tuple[str, bool] | None:
    """The cache of a counter, and whether it counts hits; None if it is no cache's."""
    spelt = " ".join(name.strip().lower().split())
    for pattern, counted in _NAMES:
        if found := pattern.fullmatch(spelt):
            return counted, found[1].startswith("hit")
    return None


def why_not(name: str) -> str | None:
    """Why a known counter does not constrain a cache's size; None if it is not known."""
    spelt = " ".join(name.strip().lower().split())
    return next((why for pattern, why in _OTHERS if pattern.fullmatch(spelt)), None)
