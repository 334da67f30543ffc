"""Sizes in bytes as people spell them: ``65536``, ``64K``, ``64KiB``, ``0.5 MiB``.

Options, settings, files and changes behind ``@`` all read sizes here, so that a spelling which
one takes all take.  ``KB`` and the like are refused: some mean 1000 by it, and some 1024.
"""

from __future__ import annotations

import re
from decimal import Decimal

_POWERS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}
UNITS = {"": 1, "b": 1, "byte": 1, "bytes": 1} | {
    unit + ending: 1 << bits for unit, bits in _POWERS.items() if unit for ending in ("", "ib")
}
SPELLINGS = "such as 65536, 64K or 64KiB"
_SIZE = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,20})?)\s*([a-zA-Z]*)")


def read_bytes(text: str) -> int | None:
    """The bytes that ``text`` stands for, in units of 1024, upper or lower case.

    None if it is no size, or no whole number of bytes.
    """
    found = _SIZE.fullmatch(text.strip().replace("_", ""))
    unit = UNITS.get(found[2].lower()) if found else None
    if found is None or unit is None:
        return None
    count = Decimal(found[1]) * unit
    return int(count) if count == int(count) else None
