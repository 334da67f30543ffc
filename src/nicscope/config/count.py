"""Counts as people spell them: ``24000000``, ``24_000_000``, ``24M``, ``0.5 M``.

The letters stand for powers of ten, as in "24 million entries"; sizes in bytes are another matter
(``byte_size``), for there they stand for powers of two.
"""

from __future__ import annotations

import re
from decimal import Decimal

_POWERS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
SPELLINGS = "such as 24000000 or 24M"
_COUNT = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*([kKmMgG]?)")


def read_count(text: str) -> int | None:
    """The number that ``text`` stands for; None if it is none, or no whole one."""
    found = _COUNT.fullmatch(text.strip().replace("_", "").replace(",", ""))
    if found is None:
        return None
    count = Decimal(found[1]) * _POWERS[found[2].lower()]
    return int(count) if count == int(count) else None
