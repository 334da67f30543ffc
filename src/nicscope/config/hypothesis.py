"""Why large regions may be slow: hypotheses, from which size on each applies, and what tests it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from nicscope.config.evidence import Evidence, Origin, only_known, read_origin
from nicscope.config.shelf import open_shelf, read_text, read_texts, shelf_names
from nicscope.errors import StudyError
from nicscope.telling import ToldPlainly

if TYPE_CHECKING:
    from pathlib import Path

BYTES, ENTRIES = "bytes", "entries"
_SECTIONS = ("title", "says", "stack", "counter", "cure", "threshold", "slows", "off", "sources")


class Hypothesis(msgspec.Struct, frozen=True):
    """One reason why regions from some size on may be slower than smaller ones."""

    name: str
    title: str
    says: str
    stack: str  # the library that it is of; "": any, as it is the NIC's or the driver's
    off_versions: tuple[str, ...]  # of that library
    of: str  # BYTES or ENTRIES of a region
    least: int  # from which on it is slow
    origin: Origin  # of that
    slows: Origin  # that what it says slows accesses
    counter: str
    cure: str

    def is_slow(self, region: int, page: int, stack: str, version: str) -> bool:
        """Whether a region of so many bytes would be slow."""
        if self.stack and self.stack != stack:
            return False
        if any(version == off or version.startswith(f"{off}.") for off in self.off_versions):
            return False
        return (region if self.of == BYTES else -(-region // page)) >= self.least


def hypothesis_names() -> list[str]:
    """Names of the catalog's, sorted."""
    return shelf_names("hypotheses")


@ToldPlainly()
def load_hypothesis(name_or_path: str | Path) -> Hypothesis:
    """The hypothesis of that name in the catalog, or that of a ``.toml`` file.

    Errors: ``StudyError`` naming the file and the key that is wrong.
    """
    name, called, content = open_shelf("hypotheses", name_or_path, StudyError)
    only_known(content, _SECTIONS, called, StudyError)
    sources = read_texts(content, "sources", called, StudyError)
    threshold = _table(content, "threshold", ("of", "from", "evidence", "source"), called)
    of, least = threshold.get("of"), threshold.get("from")
    if of not in (BYTES, ENTRIES) or type(least) is not int or least < 1:
        raise StudyError(f"{called}: threshold: of must be bytes or entries, from a whole number")
    versions: list[str] = []
    if "off" in content:
        off = _table(content, "off", ("versions", "evidence", "source"), called)
        read_origin(off, sources, f"{called}: off", StudyError)
        given: Any = off.get("versions")
        if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
            raise StudyError(f"{called}: off: versions must be a list of texts")
        versions = given
    words = {
        key: read_text(content, key, "", called, StudyError)
        for key in ("says", "stack", "counter", "cure")
    }
    return Hypothesis(
        name=name,
        title=read_text(content, "title", name, called, StudyError),
        off_versions=tuple(versions),
        of=of,
        least=least,
        origin=read_origin(threshold, sources, f"{called}: threshold", StudyError),
        slows=_slows(content, sources, called),
        **words,
    )


def _slows(content: Any, sources: dict[str, str], called: str) -> Origin:
    """Why what a hypothesis says would slow accesses; assumed where it does not tell."""
    if "slows" not in content:
        return Origin(Evidence.ASSUMED, f"assumed: {called} does not say why")
    table = _table(content, "slows", ("evidence", "source"), called)
    return read_origin(table, sources, f"{called}: slows", StudyError)


def _table(content: Any, key: str, known: tuple[str, ...], called: str) -> dict[str, Any]:
    table = content.get(key)
    if not isinstance(table, dict):
        raise StudyError(f"{called}: {key} must be a table of {', '.join(known)}")
    only_known(table, known, f"{called}: {key}", StudyError)
    return table
