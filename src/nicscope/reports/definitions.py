"""Definitions of table headings, from the catalog's glossary."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicscope.config.glossary import meaning_of
from nicscope.reports.printing import Note, Rows, heading

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from nicscope.config.glossary import Meaning
    from nicscope.reports.printing import Printed


def distinct_headings(parts: Iterable[Printed]) -> list[str]:
    """The distinct headings of the tables among ``parts``, in order of first use."""
    tables = [part for part in parts if isinstance(part, Rows)]
    return list(dict.fromkeys(heading for rows in tables for heading in rows.headings if heading))


def explained(parts: Iterable[Printed], topic: str) -> Iterator[Printed]:
    """A paragraph for each term in the tables among ``parts``, on ``topic``."""
    told: dict[str, tuple[Meaning, list[str]]] = {}
    for word in distinct_headings(parts):
        found = meaning_of(word, topic)
        if found is not None:
            told.setdefault(found.name, (found, []))[1].append(word)
    if told:
        yield ""
        yield heading("What the tables' words mean")
    for (name, term), headings in told.values():
        source = f"  [{term.source}]" if term.source else ""
        yield Note(f"{_called(name, headings)}: {term.means}{source}")


def _called(name: str, headings: Sequence[str]) -> str:
    """The headings as the tables have them, with the term's name if that is another word."""
    if set(headings) <= set(name.split(", ")):
        return name
    words = ", ".join(headings)
    return words if name in headings else f"{words} ({name})"
