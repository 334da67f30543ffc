"""One design on one trace as a row of numbers: the same columns in every table of results."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from nicscope.config.platform import in_us
from nicscope.nic.translate.book import COUNT_NAMES

if TYPE_CHECKING:
    from nicscope.studies.pricing import Cost
    from nicscope.studies.replaying import Priced

__all__ = ["COUNT_NAMES", "bound_of", "costs", "rates"]

MIB = 1 << 20
PS_PER_NS = 1000
# What the bounds of a cost are: without a price for a step that happened there is no upper one.
EXACT, RANGE, AT_LEAST = "exact", "range", "at least"


def rates(priced: Priced, requested_bytes: int | None = None) -> dict[str, Any]:
    """What follows from the counts: rates, pinned memory, and costs with what they rest on.

    Rates by byte are there if ``requested_bytes`` is known; costs if anything is priced.
    """
    misses = priced.total("ni_misses")
    assert misses is not None
    cost = priced.cost
    columns: dict[str, Any] = {
        "platform": priced.platform,
        "page_size_bytes": priced.result.design.page_size,
        "pinned_host_bytes": priced.pinned_host_bytes,
        "miss_ratio": _share(misses, cost.lookups),
        "misses_per_request": _share(misses, cost.requests),
    }
    if requested_bytes is not None:
        columns["misses_per_mib"] = misses * MIB / requested_bytes
    return columns | costs(priced, requested_bytes)


def costs(priced: Priced, requested_bytes: int | None = None) -> dict[str, Any]:
    """Bounds on the cost, in all and by lookup, request and byte; only what is known of it."""
    cost = priced.cost
    columns: dict[str, Any] = {}
    if priced.platform is None:
        return {}
    columns["cost_unpriced"] = cost.reason or None
    if not cost.is_known:
        return columns
    for end, ps in (("low", cost.low_ps), ("high", None if cost.is_lower_bound else cost.high_ps)):
        columns |= {
            f"cost_us_{end}": _us(ps),
            f"cost_us_per_lookup_{end}": _us(ps, cost.lookups),
            f"cost_us_per_request_{end}": _us(ps, cost.requests),
        }
        if requested_bytes is not None:
            each = None if ps is None else ps / PS_PER_NS / requested_bytes
            columns[f"cost_ns_per_byte_{end}"] = each
    evidence = priced.weakest_evidence
    return columns | {
        "cost_bound": bound_of(cost),
        "cost_evidence": None if evidence is None else evidence.value,
    }


def bound_of(cost: Cost) -> str | None:
    """What is known of ``cost`` by its bounds; None if nothing is."""
    if not cost.is_known:
        return None
    if cost.is_lower_bound:
        return AT_LEAST
    return EXACT if cost.low_ps == cost.high_ps else RANGE


def _share(count: int, parts: int) -> float | None:
    return count / parts if parts else None


def _us(ps: int | None, parts: int = 1) -> float | None:
    return None if ps is None or not parts else float(in_us(Fraction(ps, parts)))
