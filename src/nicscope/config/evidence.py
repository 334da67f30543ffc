"""Where a number comes from: its class of evidence and its citation.

Every number of the catalog is a table ``{ value, unit, evidence, source }``; ``source`` begins
with a key of the file's ``[sources]`` and says where in it, or says why a guess was made.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec

from nicscope.errors import NicscopeError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Evidence(StrEnum):
    """How a number is known."""

    PUBLISHED = "published"  # printed in the source
    DERIVED = "derived"  # arithmetic on published numbers
    FITTED = "fitted"  # chosen to meet published results; the source names them
    MEASURED = "measured"  # by us; the source names command and machine
    ASSUMED = "assumed"  # a choice; the source says why


CITING = (Evidence.PUBLISHED, Evidence.DERIVED, Evidence.FITTED)


class Origin(msgspec.Struct, frozen=True):
    """The evidence behind one number."""

    evidence: Evidence
    source: str

    def to_json(self) -> dict[str, str]:
        """Both fields as plain strings."""
        return {"evidence": self.evidence.value, "source": self.source}


def read_origin(
    cell: Mapping[str, Any], sources: Mapping[str, Any], where: str, error: type[NicscopeError]
) -> Origin:
    """Origin that ``cell`` states; ``where`` (file and key) begins every message.

    Errors: ``error`` if evidence or source is missing, unknown, or cites nothing in ``sources``.
    """
    classes = [member.value for member in Evidence]
    stated = cell.get("evidence")
    if stated not in classes:
        found = "has no evidence" if stated is None else f"has unknown evidence {stated!r}"
        raise error(f"{where} {found}; choose from {', '.join(classes)}")
    evidence = Evidence(stated)
    source = cell.get("source")
    if not isinstance(source, str) or not source.strip():
        raise error(f"{where} has no source; cite one, or say why if it is assumed")
    key = source.split(",")[0].split(":")[0].strip()
    if evidence in CITING and key not in sources:
        raise error(f"{where} cites {key!r}, which [sources] lacks{did_you_mean(key, sources)}")
    return Origin(evidence, source)


def only_known(
    found: Iterable[str], known: Iterable[str], where: str, error: type[NicscopeError]
) -> None:
    """Return if every key of ``found`` is in ``known``; else raise ``error`` for the first."""
    choices = set(known)
    for key in found:
        if key not in choices:
            raise error(f"{where}: unknown key {key!r}{did_you_mean(key, choices)}")
