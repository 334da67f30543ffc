"""What counts and costs are divided by when designs stand side by side: decided here alone.

Requests and bytes of a trace are the same for every design. Its lookups are not: larger pages ask
less often. So a rate per lookup compares designs whose pages are of one size and no others; where
sizes differ, rates are per request, and what ranks designs is always a total.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class Denominator(StrEnum):
    """What all designs that are compared have equally many of."""

    LOOKUP = "lookup"
    REQUEST = "request"

    @property
    def plural(self) -> str:
        """Several of it, which is also how counts are called."""
        return f"{self.value}s"


def denominator_of(page_sizes: Iterable[int | None]) -> Denominator:
    """What rates of designs that see pages of ``page_sizes`` may be taken per."""
    return Denominator.LOOKUP if len(set(page_sizes)) <= 1 else Denominator.REQUEST
