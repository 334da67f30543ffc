"""Whole numbers of what a cluster's hosts, NICs and faults are given as."""

from __future__ import annotations

import operator

from nicscope.errors import SimulationError


def check_whole(value: object, name: str, kind: str, least: int) -> None:
    """Return if ``value`` of ``kind`` is a whole number of at least ``least``.

    Errors: ``SimulationError`` naming it.
    """
    try:
        number = least - 1 if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = least - 1
    if number < least:
        raise SimulationError(
            f"{kind}: {name} must be a whole number of at least {least}, got {value!r:.60}"
        )
