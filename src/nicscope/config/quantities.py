"""Parses sizes in bytes and counts: ``64KiB``, ``0.5 MiB``, ``24M``."""

from __future__ import annotations

import re
from decimal import Decimal

from nicscope.errors import StudyError

_BYTE_POWERS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
UNITS = {"": 1, "b": 1, "byte": 1, "bytes": 1} | {
    unit + ending: 1 << bits for unit, bits in _BYTE_POWERS.items() if unit for ending in ("", "ib")
}
BYTE_SPELLINGS = "such as 65536, 64K or 64KiB"
_SIZE = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,20})?)\s*([a-zA-Z]*)")


def read_bytes(text: str) -> int | None:
    """Parse a size in bytes, in units of 1024, upper or lower case.

    None if it is no size, or no whole number of bytes.
    """
    found = _SIZE.fullmatch(text.strip().replace("_", ""))
    unit = UNITS.get(found[2].lower()) if found else None
    if found is None or unit is None:
        return None
    count = Decimal(found[1]) * unit
    return int(count) if count == int(count) else None


def some_bytes(option: str, text: str) -> int:
    """The bytes that ``text`` stands for, at least 1.  Errors: ``StudyError`` naming ``option``."""
    count = read_bytes(text)
    if not count:
        raise StudyError(f"{option} must be bytes, {BYTE_SPELLINGS}; got {text!r}")
    return count


_COUNT_POWERS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
COUNT_SPELLINGS = "such as 24000000 or 24M"
_COUNT = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*([kKmMgG]?)")


def read_count(text: str) -> int | None:
    """Parse a count; None if it is not a whole number."""
    found = _COUNT.fullmatch(text.strip().replace("_", "").replace(",", ""))
    if found is None:
        return None
    count = Decimal(found[1]) * _COUNT_POWERS[found[2].lower()]
    return int(count) if count == int(count) else None
